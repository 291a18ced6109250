//! Settings as `check` shows them: in the units of the YAML, without what has no value, and no secret.

use std::fmt::Display;
use std::time::Duration;

use serde::{Serialize, Serializer};
pub use serde_json::{Map, Value};

use super::units::{show_duration, show_size};

/// Returns the fields of a struct, in their order.
pub fn fields(settings: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(settings) {
        Ok(Value::Object(fields)) => fields,
        // Structs with texts for names always become objects.
        _ => Map::new(),
    }
}

/// Returns a value with a form of its own.
pub fn value(value: &impl Serialize) -> Option<Value> {
    serde_json::to_value(value).ok()
}

/// Writes a duration, as `30s`.
pub fn duration<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&show_duration(*duration))
}

/// Writes a duration, as `30s`, or `none`.
pub fn duration_or_none<S: Serializer>(value: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => duration(value, serializer),
        None => serializer.serialize_str("none"),
    }
}

/// Writes a size, as `16MiB`.
pub fn size<S: Serializer>(bytes: &(impl Copy + Into<u64>), serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&show_size((*bytes).into()))
}

/// Writes the value as it is, or `none`.
pub fn or_none<S: Serializer>(value: &Option<impl Serialize>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => value.serialize(serializer),
        None => serializer.serialize_str("none"),
    }
}

/// Writes names with values.
pub fn pairs<N: Display, V: Serialize, S: Serializer>(pairs: &[(N, V)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(name, value)| (name.to_string(), value)))
}
