//! The findings of `check --live` about an input.

/// The findings of a check that has found nothing wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InputCheck {
    /// The things that are there, in the order in which they were asked for.
    pub found: Vec<String>,
    /// The drawbacks, each with the advice.
    pub drawbacks: Vec<String>,
}
