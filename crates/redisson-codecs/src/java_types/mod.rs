//! The names of Java classes that Jackson writes among the values, and their removal.
//!
//! An object has its class in the field `"@class"`; any other value is in a list after its class: `["java.lang.Long",7]`,
//! `["java.util.ArrayList",["a","b"]]`. Which values have a class is decided by the *declared* type of their place,
//! which the payload does not name. So a list of two texts may be a text after its class, or an array of two texts.
//! [`Place`] has the rule.

mod place;
mod text;

use serde_json::Value;

use self::place::{Place, class_field};
use super::payload::Decoded;
use super::value::Item;
use crate::classes::Classes;
use crate::coding::JavaTypes;

pub(super) use self::place::CLASS;

/// Strips the item if `java_types` says so.
pub(super) fn apply(java_types: JavaTypes, classes: &Classes, item: Item) -> Decoded {
    let item = match (java_types, item) {
        (JavaTypes::Strip, Item::Json(mut value)) => {
            strip(&mut value, classes);
            Item::Json(value)
        }
        (_, item) => item,
    };
    item.into_decoded()
}

/// Removes the class names from a payload; returns whether there were any.
pub(super) fn strip(value: &mut Value, classes: &Classes) -> bool {
    strip_at(value, Place::Root, classes)
}

/// Returns whether a payload contains a class name anywhere.
pub(super) fn present(value: &Value) -> bool {
    is_present(value, Place::Root, &Classes::default())
}

fn strip_at(value: &mut Value, place: Place, classes: &Classes) -> bool {
    let wrapped = place.class_of(value, classes).map(|name| place.inside(Some(name), &value[1]));
    if let Some(inside) = wrapped {
        *value = value[1].take();
        strip_inside(value, inside, classes);
        return true;
    }
    let inside = place.inside(class_field(value), value);
    let removed = match value {
        Value::Object(fields) if fields.get(CLASS).is_some_and(Value::is_string) => {
            fields.shift_remove(CLASS).is_some()
        }
        _ => false,
    };
    strip_inside(value, inside, classes) || removed
}

/// Strips the elements or fields of a value, which has no class itself.
fn strip_inside(value: &mut Value, inside: Place, classes: &Classes) -> bool {
    let mut found = false;
    let mut strip = |value: &mut Value| found |= strip_at(value, inside, classes);
    match value {
        Value::Object(fields) => fields.values_mut().for_each(&mut strip),
        Value::Array(items) => items.iter_mut().for_each(&mut strip),
        _ => {}
    }
    found
}

fn is_present(value: &Value, place: Place, classes: &Classes) -> bool {
    if class_field(value).is_some() || place.class_of(value, classes).is_some() {
        return true;
    }
    let inside = place.inside(None, value);
    match value {
        Value::Object(fields) => fields.values().any(|value| is_present(value, inside, classes)),
        Value::Array(items) => items.iter().any(|value| is_present(value, inside, classes)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class_specs::{ClassSpec, Content};

    fn check_with(classes: &Classes, before: &str, after: &str) {
        let mut value: Value = serde_json::from_str(before).unwrap();
        let found = is_present(&value, Place::Root, classes);
        let changed = strip(&mut value, classes);
        assert_eq!(value.to_string(), after, "{before}");
        assert_eq!((found, changed), (before != after, before != after), "{before}");
    }

    #[test]
    fn values_stay_and_classes_go() {
        fn check(before: &str, after: &str) {
            check_with(&Classes::default(), before, after);
        }
        check(r#"["java.lang.Long",1700000000000]"#, "1700000000000");
        check(r#"["java.util.ArrayList",["a",1,["java.lang.Long",2]]]"#, r#"["a",1,2]"#);
        check(r#"{"@class":"com.example.Order","id":["java.lang.Long",7],"m":{"@class":"a.B"}}"#, r#"{"id":7,"m":{}}"#);
        check(r#"["[Lcom.example.Order;",[{"@class":"com.example.Order"}]]"#, "[{}]");
        check(r#"["java.util.EnumSet<com.example.Kind>",["A"]]"#, r#"["A"]"#);
        // A class is followed by its value, never by another class.
        check(r#"["java.util.ArrayList",["java.util.Date",5]]"#, r#"["java.util.Date",5]"#);
        check(r#"["java.util.ArrayList",["com.shop.OrderService","close"]]"#, r#"["com.shop.OrderService","close"]"#);
        check(r#"["a.Tags",["com.shop.OrderService","close"]]"#, r#"["com.shop.OrderService","close"]"#);
        check(r#"{"@class":"a.B","f":["a.Tags",["java.lang.Long",5]]}"#, r#"{"f":["java.lang.Long",5]}"#);
        // In `List.of` at the root, which has no class, a value follows a text.
        check(r#"["com.shop.Order",["java.lang.Long",7]]"#, r#"["com.shop.Order",7]"#);
        check(r#"["java.lang.Long",["java.lang.Long",7]]"#, r#"["java.lang.Long",7]"#);
        check(r#"["com.shop.Order",{"@class":"a.B","n":1}]"#, r#"["com.shop.Order",{"n":1}]"#);
        // All elements of a list have one declared type: beside a text, a list cannot be an array of texts.
        let of_field = |list: &str| format!(r#"{{"@class":"a.B","f":["java.util.ArrayList",{list}]}}"#);
        check(&of_field(r#"["x",["a.Color","RED"]]"#), r#"{"f":["x","RED"]}"#);
        check(&of_field(r#"[["a.Color","RED"],["a.Money",5]]"#), r#"{"f":["RED",5]}"#);
        check(&of_field(r#"[["a.Color","RED"],null]"#), r#"{"f":[["a.Color","RED"],null]}"#);
        check(&of_field(r#"[["a.Color","RED"],["x","y"]]"#), r#"{"f":[["a.Color","RED"],["x","y"]]}"#);
        check(
            &of_field(r#"[["a.Color","RED"],[1,2],["a.Money",5]]"#),
            r#"{"f":[["a.Color","RED"],[1,2],["a.Money",5]]}"#,
        );
        // Of a list without a field the declared type is `Object`.
        check(r#"["java.util.ArrayList",[["a.Color","RED"]]]"#, r#"["RED"]"#);
        check(r#"["[[Ljava.lang.String;",[["a.Color","RED"]]]"#, r#"[["a.Color","RED"]]"#);
        // Another inclusion of Jackson has the class of an object before it.
        check(r#"["com.shop.Order",{"n":["java.lang.Long",7]}]"#, r#"{"n":7}"#);
        for plain in [
            r#"["a","b"]"#,
            r#"["www.example.com","x"]"#,
            r#"["java.lang.Long"]"#,
            r#"["java.lang.Long",1,2]"#,
            r#"["3.5","x"]"#,
            r#"{"@class":5}"#,
            r#""java.lang.Long""#,
            "null",
            r#"["com.shop.OrderService","close"]"#,
            r#"["com.shop.OrderService",null]"#,
            r#"["com.shop.OrderService",7]"#,
            r#"["java.util.UUID","randomUUID"]"#,
            r#"[["com.shop.OrderService","close"],["java.util.Date","getTime"]]"#,
            r#"{"f":["com.shop.OrderService","close"]}"#,
            r#"[[["java.util.Locale","de"]]]"#,
        ] {
            check(plain, plain);
        }
    }

    /// A declared enum, whose bytes are those of an array of two texts.
    #[test]
    fn a_declared_constant_is_a_constant() {
        let spec = ClassSpec {
            name: "a.Color".to_owned(),
            content: Content::Constants(vec!["RED".to_owned()]),
            is_final: true,
            variables: Vec::new(),
            id: None,
        };
        let classes = Classes::new(vec![spec]).unwrap();
        check_with(&classes, r#"{"@class":"a.B","f":["a.Color","RED"]}"#, r#"{"f":"RED"}"#);
        check_with(&classes, r#"{"@class":"a.B","f":["a.Color","values"]}"#, r#"{"f":["a.Color","values"]}"#);
    }
}
