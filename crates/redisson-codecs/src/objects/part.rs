//! The part of an object that one of its classes contributes, and its fields.

use std::rc::Rc;

use serde_json::{Number, Value};

use super::super::value::Item;

/// The part of an object that one of its classes contributes.
pub(crate) struct Part {
    /// The class. Shared, because nested objects must not copy a long name again.
    pub(crate) class: Rc<str>,
    pub(crate) fields: Vec<(String, Item)>,
    /// The data that the class wrote beside its fields.
    pub(crate) written: Vec<Written>,
}

/// A piece of data that a class wrote with its own method.
pub(crate) enum Written {
    Block(Vec<u8>),
    Value(Item),
}

/// Returns the number in a field.
pub(super) fn number<'a>(part: &'a Part, name: &str) -> Option<&'a Number> {
    match part.fields.iter().find(|(field, _)| field == name) {
        Some((_, Item::Json(Value::Number(number)))) => Some(number),
        _ => None,
    }
}

pub(super) fn text<'a>(part: &'a Part, name: &str) -> Option<&'a str> {
    match part.fields.iter().find(|(field, _)| field == name) {
        Some((_, Item::Json(Value::String(text)))) => Some(text),
        _ => None,
    }
}
