//! Values of other crates as arguments: a trait of clap cannot be implemented for their types here.

use clap::ValueEnum;
use clap::builder::PossibleValue;

/// A type with a fixed number of values, each with a name on the command line.
pub trait Choices: Clone + 'static {
    /// Returns the values, in the order of the help.
    fn all() -> &'static [Choice<Self>];

    /// Returns the name of a value and its line in the help.
    fn name(&self) -> (&'static str, &'static str);
}

/// One of the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice<T>(pub T);

impl<T: Choices> ValueEnum for Choice<T> {
    fn value_variants<'a>() -> &'a [Self] {
        T::all()
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, help) = self.0.name();
        Some(PossibleValue::new(name).help(help))
    }
}
