//! The classes whose content can be read.

use std::sync::Arc;

use super::form::Form;

/// A class whose content can be read.
#[derive(Clone, Debug)]
pub(crate) enum Class {
    /// A class of the JDK.
    Known(Form),
    /// An enum of the JDK.
    Constants(&'static [&'static str]),
    /// A class that the application has declared, by its index.
    Own(usize),
    Array(Arc<Class>),
    /// A type of fields and arrays without objects of its own: an interface, `Object`.
    Open,
}

impl Class {
    /// Returns whether another class can be declared to be like this one.
    pub(crate) fn is_collection(&self) -> bool {
        matches!(self, Class::Known(form) if form.is_collection())
    }
}
