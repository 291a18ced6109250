//! The known classes.

use std::sync::Arc;

use super::form::{self, Form};
use crate::classes::{Body, Classes};

/// A class whose content can be read.
#[derive(Clone, Debug)]
pub(crate) enum Class {
    /// A class of the JDK.
    Known(Form),
    /// An enum of the JDK.
    Constants(&'static [&'static str]),
    /// A class that the application has declared, by its index.
    Own(usize),
    /// An array of objects of this class.
    Array(Arc<Class>),
    /// A type of fields and arrays without objects of its own: an interface, `Object`.
    Open,
}

impl Class {
    /// The class of this name, if it is known.
    pub(crate) fn named(name: &str, classes: &Classes) -> Option<Class> {
        if let Some(elements) = name.strip_prefix('[') {
            return Class::array_of(elements, classes);
        }
        if let Some(place) = classes.place(name) {
            return Some(Class::Own(place));
        }
        Form::named(name).map(Class::Known).or_else(|| form::constants(name).map(Class::Constants))
    }

    /// The class as the type of a field or of array elements, where any class name of the JDK is allowed.
    pub(crate) fn declared(name: &str, classes: &Classes) -> Option<Class> {
        Class::named(name, classes).or_else(|| is_of_jdk(name).then_some(Class::Open))
    }

    /// Whether another class can be declared to be like this one.
    pub(crate) fn is_collection(&self) -> bool {
        matches!(self, Class::Known(form) if form.is_collection())
    }

    fn array_of(elements: &str, classes: &Classes) -> Option<Class> {
        let primitive = match elements {
            "B" => Form::Bytes,
            "Z" => Form::Booleans,
            "C" => Form::Characters,
            "S" => Form::Shorts,
            "I" => Form::Integers,
            "J" => Form::Longs,
            "F" => Form::Floats,
            "D" => Form::Doubles,
            _ => {
                let inner = match elements.strip_prefix('L').and_then(|name| name.strip_suffix(';')) {
                    Some(name) => Class::declared(name, classes)?,
                    None => Class::array_of(elements.strip_prefix('[')?, classes)?,
                };
                return Some(Class::Array(Arc::new(inner)));
            }
        };
        Some(Class::Known(primitive))
    }

    /// Whether the class is final, so that a field or an element of this type is written without its class.
    pub(crate) fn is_final(&self, classes: &Classes) -> bool {
        match self {
            Class::Known(form) => form.is_final(),
            Class::Constants(_) => true,
            Class::Own(place) => classes.at(*place).is_final,
            Class::Array(elements) => elements.is_final(classes),
            Class::Open => false,
        }
    }

    /// Whether its objects can be referred to; boxed numbers and enums never are.
    pub(super) fn is_referable(&self, classes: &Classes) -> bool {
        match self {
            Class::Known(form) => !form.is_boxed(),
            Class::Constants(_) => false,
            Class::Own(place) => match &classes.at(*place).body {
                Body::Constants(_) => false,
                Body::Like(class) => class.is_referable(classes),
                Body::Fields(_) | Body::Record(_) | Body::Abstract => true,
            },
            Class::Array(_) | Class::Open => true,
        }
    }

    /// Whether a null of this class has a form of its own.
    pub(super) fn has_null(&self, classes: &Classes) -> bool {
        match self {
            Class::Known(form) => form.has_null(),
            Class::Constants(_) | Class::Array(_) => true,
            Class::Own(place) => match &classes.at(*place).body {
                Body::Constants(_) => true,
                Body::Like(class) => class.has_null(classes),
                Body::Fields(_) | Body::Record(_) | Body::Abstract => false,
            },
            Class::Open => false,
        }
    }
}

/// Whether a class is of the JDK. Unknown ones count as open types: unknown final classes are rare, and can be
/// declared.
fn is_of_jdk(name: &str) -> bool {
    name.starts_with("java.") || name.starts_with("javax.")
}
