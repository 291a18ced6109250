//! The fields of an element: what templates print and conditions compare.

use std::borrow::Cow;

use serde_json::Value;

use super::{Fields, Filler, TemplateError};
use crate::carried::Carried;

/// A field of an element, by its name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Id,
    Queue,
    DueMs,
    Attempt,
    Topic,
    /// The payload, or the value at this path in it.
    Payload(Vec<String>),
    /// A part of a message that came by an input.
    Input(String),
}

/// The value of a field, with its type.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldValue<'a> {
    /// A text.
    Text(Cow<'a, str>),
    /// A number, in the digits of its producer.
    Number(Cow<'a, str>),
    /// `true` or `false`.
    Flag(bool),
    /// A null.
    Null,
    /// A list or an object.
    Nested,
}

impl Field {
    /// Finds the field that a placeholder or a condition names.
    pub(crate) fn named(name: &str) -> Result<Field, TemplateError> {
        Ok(match name {
            "id" => Field::Id,
            "queue" => Field::Queue,
            "due_ms" => Field::DueMs,
            "attempt" => Field::Attempt,
            "topic" => Field::Topic,
            "payload" => Field::Payload(Vec::new()),
            _ if name.strip_prefix("input.").is_some_and(Carried::has_field) => {
                Field::Input(name.trim_start_matches("input.").to_owned())
            }
            _ => {
                let Some(path) = name.strip_prefix("payload.") else {
                    return Err(TemplateError::UnknownField { field: name.to_owned() });
                };
                let path: Vec<String> = path.split('.').map(str::to_owned).collect();
                if path.iter().any(String::is_empty) {
                    return Err(TemplateError::EmptyStep { field: name.to_owned() });
                }
                Field::Payload(path)
            }
        })
    }

    /// Reads the field; `None` if the element lacks it.
    pub(crate) fn value<'a>(&self, from: &Filler<'a>) -> Option<FieldValue<'a>> {
        let element = from.element;
        match self {
            Field::Id => Some(FieldValue::Text(element.id.to_string().into())),
            Field::Queue => Some(FieldValue::Text(element.queue.into())),
            Field::DueMs => element.due_ms.map(|due| FieldValue::Number(due.to_string().into())),
            Field::Attempt => Some(FieldValue::Number(element.attempt.to_string().into())),
            Field::Topic => element.topic.map(|topic| FieldValue::Text(topic.into())),
            Field::Payload(path) => from.payload.value(path),
            Field::Input(path) => element.carried?.field(path).map(FieldValue::Text),
        }
    }

    /// Reads the field as a template prints it.
    pub(super) fn text<'a>(&self, from: &Filler<'a>) -> Option<Cow<'a, str>> {
        self.value(from)?.text()
    }
}

impl<'a> FieldValue<'a> {
    /// Returns the text, number or flag as text. A null counts as missing: a key that ends in `null` is useless.
    pub fn text(self) -> Option<Cow<'a, str>> {
        match self {
            FieldValue::Text(text) | FieldValue::Number(text) => Some(text),
            FieldValue::Flag(flag) => Some(if flag { "true" } else { "false" }.into()),
            FieldValue::Null | FieldValue::Nested => None,
        }
    }
}

impl Fields for Value {
    fn value(&self, path: &[String]) -> Option<FieldValue<'_>> {
        let found = path.iter().try_fold(self, |value, step| match value {
            Value::Object(fields) => fields.get(step),
            // Only the plain decimal form: `01` and `+1` are no indices.
            Value::Array(items) => {
                step.parse().ok().filter(|at: &usize| at.to_string() == *step).and_then(|at| items.get(at))
            }
            _ => None,
        })?;
        Some(match found {
            Value::String(text) => FieldValue::Text(text.into()),
            Value::Number(number) => FieldValue::Number(number.to_string().into()),
            Value::Bool(flag) => FieldValue::Flag(*flag),
            Value::Null => FieldValue::Null,
            Value::Array(_) | Value::Object(_) => FieldValue::Nested,
        })
    }
}
