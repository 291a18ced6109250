//! A decoded payload as templates see it.

use std::borrow::Cow;

use redisson_codecs::{Payload, View};
use serde_json::Value;

use crate::template::Fields;

impl Fields for Payload {
    fn field(&self, path: &[String]) -> Option<Cow<'_, str>> {
        match self.view() {
            View::Opaque => None,
            View::Text(text) if path.is_empty() => Some(text.into()),
            View::Text(_) => None,
            View::Json(value) => path.iter().try_fold(value, |value, step| step_into(value, step)).and_then(scalar),
        }
    }
}

fn step_into<'a>(value: &'a Value, step: &str) -> Option<&'a Value> {
    match value {
        Value::Object(fields) => fields.get(step),
        // Only the plain decimal form: `01` and `+1` are no indices.
        Value::Array(items) => {
            step.parse().ok().filter(|at: &usize| at.to_string() == step).and_then(|at| items.get(at))
        }
        _ => None,
    }
}

/// Null counts as missing: a key that ends in `null` is useless.
fn scalar(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) => Some(text.into()),
        Value::Number(number) => Some(number.to_string().into()),
        Value::Bool(flag) => Some(if *flag { "true" } else { "false" }.into()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
