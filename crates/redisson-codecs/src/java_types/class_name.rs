//! The name of a class among values: its forms, and the field that holds it.

use serde_json::Value;

use crate::error::ClassName;

/// The field of an object that holds its class.
pub(crate) const CLASS: &str = "@class";

/// Returns the class of an object.
pub(super) fn class_field(value: &Value) -> Option<&str> {
    value.get(CLASS)?.as_str()
}

/// Returns whether a text is a class name by Java's conventions: packages, then a name with a capital; or an array's
/// name.
pub(super) fn is_class(name: &str) -> bool {
    let raw = raw(name);
    let simple = raw.rsplit('.').next().unwrap_or_default();
    ClassName::is_plausible(raw)
        && (raw.starts_with('[') || simple.starts_with(|first: char| first.is_ascii_uppercase()))
}

/// Returns the name of a class without type arguments: Jackson names the elements of an `EnumSet` in angle brackets.
pub(super) fn raw(name: &str) -> &str {
    name.split('<').next().unwrap_or_default()
}
