//! A decoded payload as templates and conditions see it.

use std::ops::Deref;

use bytes::Bytes;
use redisson_codecs::View;
use serde_json::Value;

use delaybridge_core::json::Json;
use delaybridge_core::template::{FieldValue, Fields};

/// A payload that the codec of a queue has decoded.
#[derive(Clone, Debug)]
pub struct Payload(pub redisson_codecs::Payload);

impl Payload {
    /// Creates a payload that is not decoded, for example because its codec refused it.
    pub fn opaque(bytes: Bytes) -> Payload {
        Payload(redisson_codecs::Payload::opaque(bytes))
    }
}

impl Deref for Payload {
    type Target = redisson_codecs::Payload;

    fn deref(&self) -> &redisson_codecs::Payload {
        &self.0
    }
}

impl Fields for Payload {
    fn value(&self, path: &[String]) -> Option<FieldValue<'_>> {
        match self.view() {
            View::Opaque => None,
            View::Text(text) => path.is_empty().then(|| FieldValue::Text(text.into())),
            View::Json(value) => value.value(path),
        }
    }

    fn is_json_text(&self) -> bool {
        let text = match self.view() {
            View::Text(text) => text.trim_ascii(),
            View::Json(Value::String(text)) => text.trim_ascii(),
            View::Opaque | View::Json(_) => return false,
        };
        text.starts_with(['{', '[']) && Json::read(Bytes::copy_from_slice(text.as_bytes())).is_ok()
    }
}
