//! A decoded payload as templates and conditions see it.

use bytes::Bytes;
use redisson_codecs::{Payload, View};
use serde_json::Value;

use crate::json::Json;
use crate::template::{FieldValue, Fields};

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
