//! The rule by which Jackson writes the class of a value, read backwards.
//!
//! Redisson's Jackson codecs use `DefaultTyping.NON_FINAL` with `As.PROPERTY` and class names. A value gets a class if
//! this is so for the declared type of its place (`useForType` in `JsonJacksonCodec.initTypeInclusion`, the same from
//! 3.18.1 to 4.7.0, after Jackson's `DefaultTypeResolverBuilder`):
//!
//! - The declared type is that of the field, or of the elements. At the root it is the value's own class; a list or a map
//!   there has elements of type `Object`. Jackson keeps the type arguments of a field: the elements of a field
//!   `List<String[]>` are declared as `String[]`.
//! - Of an array type, the type of the innermost elements counts. A final type gets no class, any other type gets one.
//!   So `String[]`, `int[]` and enums without bodies have none; `Object`, interfaces and `List` have one. `Long` and,
//!   since 3.45, `UUID` always have one. `List.of` and `Map.of` are of final classes: at the root they have none, but
//!   their elements have.
//! - `String`, `Boolean`, `Integer` and finite `Double` values never get a class (Jackson's natural types), nor does null.
//! - An object has the class in its first field (`AsPropertyTypeSerializer`). Scalars and lists are wrapped into a list
//!   of two (`AsArrayTypeSerializer`); what is wrapped is never wrapped again. An `AtomicReference` is as its content.
//!
//! The declared type of a field of an application's class is not in the payload. There `["a.Color","RED"]` may be an array
//! of two texts as well as an enum behind an interface: the bytes are the same. Then nothing is removed, because a text
//! more does less harm than a lost one.

use serde_json::Value;

use super::text;
use crate::classes::Classes;
use crate::error::ClassName;

/// The field of an object that holds its class.
pub(crate) const CLASS: &str = "@class";

/// The knowledge about the declared type of a place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The whole payload: its own class.
    Root,
    /// A type that is not final, as `Object`: every list is a class and a value.
    Open,
    /// An array of a final type: no list has a class.
    Plain,
    /// Unknown: a field of an application's class.
    Unknown,
}

impl Place {
    /// Returns the class before the value here, if it is a list of a class and a value.
    pub(super) fn class_of<'a>(self, value: &'a Value, classes: &Classes) -> Option<&'a str> {
        let (name, content) = wrapper(value)?;
        let is_class = match self {
            Place::Open => true,
            Place::Plain => false,
            Place::Unknown => match content {
                Value::String(content) => text::is_of(raw(name), content, classes),
                _ => true,
            },
            // `List.of` of a text and a value has no class.
            Place::Root => match content {
                Value::String(content) => text::is_of(raw(name), content, classes),
                Value::Number(_) | Value::Bool(_) => is_scalar(name),
                Value::Array(_) if is_of_jdk(name) => !name.starts_with("java.lang."),
                Value::Array(_) => {
                    let inner = Place::Unknown.class_of(content, classes);
                    !inner.is_some_and(is_of_jdk)
                }
                _ => true,
            },
        };
        is_class.then_some(name)
    }

    /// Returns the place of the elements or fields of a value of this class here; `None` is a list or an object without
    /// a class.
    pub(super) fn inside(self, class: Option<&str>, value: &Value) -> Place {
        let class = class.map(raw);
        match class {
            Some(class) if class.starts_with('[') => match class.trim_start_matches('[') {
                "Ljava.lang.String;" | "Ljava.lang.Class;" | "Ljava.lang.Character;" => Place::Plain,
                elements if elements.starts_with("Ljava.") => Place::Open,
                _ => of_all(value),
            },
            Some(class) if class.starts_with("java.util.") => match self {
                Place::Root | Place::Open => Place::Open,
                Place::Plain | Place::Unknown => of_all(value),
            },
            None if value.is_array() && self == Place::Plain => Place::Plain,
            None if value.is_array() => of_all(value),
            _ => Place::Unknown,
        }
    }
}

/// Returns the parts of a list that may be a class and a value. Null has no class, and an object has it inside.
fn wrapper(value: &Value) -> Option<(&str, &Value)> {
    match value.as_array()?.as_slice() {
        [Value::String(_), Value::Null] => None,
        [Value::String(_), Value::Object(fields)] if fields.contains_key(CLASS) => None,
        [Value::String(name), content] if is_class(name) => Some((name, content)),
        _ => None,
    }
}

/// Returns the place of elements that all have the same declared type, as far as they show it: lists of texts may be
/// arrays of texts, unless there are other values among them.
fn of_all(value: &Value) -> Place {
    let mut place = Place::Unknown;
    let mut add = |value: &Value| match (value, wrapper(value)) {
        (Value::Null, _) | (_, Some((_, Value::String(_)))) => true,
        (Value::Array(_), None) => false,
        _ => {
            place = Place::Open;
            true
        }
    };
    let all = match value {
        Value::Array(items) => items.iter().all(&mut add),
        Value::Object(fields) => fields.iter().filter(|(name, _)| *name != CLASS).all(|(_, value)| add(value)),
        _ => true,
    };
    if all { place } else { Place::Plain }
}

/// Returns whether it is a class of the JDK, or an array.
fn is_of_jdk(name: &str) -> bool {
    ["java.", "javax.", "sun.", "["].iter().any(|start| name.starts_with(start))
}

/// Returns whether Jackson writes the values of this class of the JDK as numbers or flags.
fn is_scalar(name: &str) -> bool {
    const NUMBERS: [&str; 5] =
        ["java.lang.Long", "java.lang.Short", "java.lang.Byte", "java.lang.Float", "java.lang.Double"];
    const TIMES: [&str; 3] = ["java.util.Date", "java.util.Calendar", "java.util.GregorianCalendar"];
    const PACKAGES: [&str; 5] =
        ["java.math.", "java.sql.", "java.time.", "java.util.concurrent.atomic.", "javax.xml.datatype."];
    NUMBERS.contains(&name) || TIMES.contains(&name) || PACKAGES.iter().any(|package| name.starts_with(package))
}

/// Returns the class of an object.
pub(super) fn class_field(value: &Value) -> Option<&str> {
    value.get(CLASS)?.as_str()
}

/// Returns whether a text is a class name by Java's conventions: packages, then a name with a capital; or an array's
/// name.
fn is_class(name: &str) -> bool {
    let raw = raw(name);
    let simple = raw.rsplit('.').next().unwrap_or_default();
    ClassName::is_plausible(raw)
        && (raw.starts_with('[') || simple.starts_with(|first: char| first.is_ascii_uppercase()))
}

/// Returns the name of a class without type arguments: Jackson names the elements of an `EnumSet` in angle brackets.
fn raw(name: &str) -> &str {
    name.split('<').next().unwrap_or_default()
}
