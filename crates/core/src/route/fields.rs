//! A decoded payload as templates and conditions see it.

use redisson_codecs::{Payload, View};

use crate::template::{FieldValue, Fields};

impl Fields for Payload {
    fn value(&self, path: &[String]) -> Option<FieldValue<'_>> {
        match self.view() {
            View::Opaque => None,
            View::Text(text) => path.is_empty().then(|| FieldValue::Text(text.into())),
            View::Json(value) => value.value(path),
        }
    }
}
