//! The names of Java classes that Jackson writes among the values, and their removal.
//!
//! With Redisson's settings an object has its class in `"@class"`, and any other value whose class JSON cannot express
//! is in a list after its class: `["java.lang.Long",7]`, `["java.util.ArrayList",["a","b"]]`.

use serde_json::Value;

use super::error::ClassName;
use super::value::Item;
use crate::coding::JavaTypes;

/// The field of an object that holds its class.
pub(super) const CLASS: &str = "@class";

/// Strips the item if `java_types` says so.
pub(super) fn apply(java_types: JavaTypes, item: Item) -> super::Decoded {
    let item = match (java_types, item) {
        (JavaTypes::Strip, Item::Json(mut value)) => {
            strip(&mut value);
            Item::Json(value)
        }
        (_, item) => item,
    };
    item.into_decoded()
}

/// Removes the class names from `value`; returns whether there were any.
///
/// A list of two, whose first item is text that can only be a class name, counts as a value with its class. A plain
/// `String[]` of that shape would be misread; but Jackson writes lists of text with their class, so only such an array
/// is affected.
pub(super) fn strip(value: &mut Value) -> bool {
    let mut changed = false;
    while let Some(inner) = typed(value) {
        *value = inner;
        changed = true;
    }
    match value {
        Value::Object(fields) => {
            if fields.get(CLASS).is_some_and(Value::is_string) {
                fields.shift_remove(CLASS);
                changed = true;
            }
            // Not `any`, which would stop at the first.
            fields.values_mut().fold(changed, |changed, value| strip(value) || changed)
        }
        Value::Array(items) => items.iter_mut().fold(changed, |changed, value| strip(value) || changed),
        _ => changed,
    }
}

/// Whether `value` contains a class name anywhere.
pub(super) fn present(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.get(CLASS).is_some_and(Value::is_string) || fields.values().any(present),
        Value::Array(items) => {
            matches!(items.as_slice(), [Value::String(name), _] if is_class(name)) || items.iter().any(present)
        }
        _ => false,
    }
}

/// Takes the value after its class name.
fn typed(value: &mut Value) -> Option<Value> {
    match value.as_array_mut()?.as_mut_slice() {
        [Value::String(name), inner] if is_class(name) => Some(inner.take()),
        _ => None,
    }
}

/// Whether a text is a class name by Java's conventions: packages, then a name with a capital; or an array's name.
fn is_class(name: &str) -> bool {
    // Jackson names the elements of some collections in angle brackets.
    let raw = name.split('<').next().unwrap_or_default();
    let simple = raw.rsplit('.').next().unwrap_or_default();
    ClassName::is_plausible(raw)
        && (raw.starts_with('[') || simple.starts_with(|first: char| first.is_ascii_uppercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_and_classes_go() {
        fn check(before: &str, after: &str) {
            let mut value: Value = serde_json::from_str(before).unwrap();
            let found = present(&value);
            let changed = strip(&mut value);
            assert_eq!(value.to_string(), after, "{before}");
            assert_eq!((found, changed), (before != after, before != after), "{before}");
        }
        check(r#"["java.lang.Long",1700000000000]"#, "1700000000000");
        check(r#"["java.util.ArrayList",["a",1,["java.lang.Long",2]]]"#, r#"["a",1,2]"#);
        check(r#"{"@class":"com.example.Order","id":["java.lang.Long",7],"m":{"@class":"a.B"}}"#, r#"{"id":7,"m":{}}"#);
        check(r#"["java.util.ArrayList",["java.util.Date",5]]"#, "5");
        check(r#"["[Lcom.example.Order;",[{"@class":"com.example.Order"}]]"#, "[{}]");
        check(r#"["java.util.EnumSet<com.example.Kind>",["A"]]"#, r#"["A"]"#);
        for plain in [
            r#"["a","b"]"#,
            r#"["www.example.com","x"]"#,
            r#"["java.lang.Long"]"#,
            r#"["java.lang.Long",1,2]"#,
            r#"["3.5","x"]"#,
            r#"{"@class":5}"#,
            r#""java.lang.Long""#,
            "null",
        ] {
            check(plain, plain);
        }
    }
}
