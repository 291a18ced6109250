//! Codec `jackson`: JSON with the names of Java classes, as Redisson's `JsonJacksonCodec` writes it.

use bytes::Bytes;
use serde_json::Value;

use super::payload::{Answer, Decoded};
use super::{java_types, json};
use crate::classes::Classes;
use crate::coding::JavaTypes;

/// Parses the payload; keeps the producer's own text if nothing is removed from it.
pub(super) fn decode(payload: &Bytes, budget: usize, java_types: JavaTypes, classes: &Classes) -> Answer {
    let mut value = json::parse(payload, budget)?;
    let changed = java_types == JavaTypes::Strip && java_types::strip(&mut value, classes);
    match value {
        Value::String(_) => Ok(Decoded::Value(value)),
        value if changed => Ok(Decoded::Value(value)),
        value => Ok(Decoded::Json(payload.clone(), value)),
    }
}
