//! A dead letter as a line of JSON: everything that it keeps, byte for byte, so that an import makes the same letter of it.

use serde_json::{Map, Value};

use crate::content::base64;
use delaybridge_ledger::DeadLetter;

/// The end of a field's name with bytes as its value.
pub(super) const BASE64: &str = "_base64";

/// `stream_id`, then every field: text where it is text, else as `NAME_base64`. The element and the body always are bytes.
pub(crate) fn object(letter: &DeadLetter) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("stream_id".to_owned(), letter.stream_id.clone().into());
    for (name, bytes) in &letter.fields {
        match std::str::from_utf8(bytes) {
            Ok(text) if !matches!(name.as_str(), "element" | "body") => object.insert(name.clone(), text.into()),
            _ => object.insert(format!("{name}{BASE64}"), base64(bytes).into()),
        };
    }
    object
}
