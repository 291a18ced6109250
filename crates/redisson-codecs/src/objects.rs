//! Objects of Java that carry the names of their fields: what `java` and `marshalling` have in common.
//!
//! An object comes as one part for each class that it is made of, from the topmost down: the fields of that class, and
//! what the class wrote with a method of its own. The JDK's lists, maps, boxed and big numbers, dates and UUIDs have a form of their own
//! in JSON; every other object is its fields. What any other class wrote with its own method only that class can read.

use std::rc::Rc;

use bytes::Buf;
use serde_json::{Map, Number, Value};

use super::error::{ClassName, DecodeProblem, Refusal};
use super::java_types::CLASS;
use super::reader::{Read, Reader};
use super::value::{self, Item};
use crate::coding::JavaTypes;

/// What one class of an object holds.
pub(super) struct Part {
    /// The class. Shared: an object within an object must not copy a long name once more.
    pub(super) class: Rc<str>,
    pub(super) fields: Vec<(String, Item)>,
    /// What the class wrote beside its fields.
    pub(super) written: Vec<Written>,
}

/// What a class wrote with its own method.
pub(super) enum Written {
    Block(Vec<u8>),
    Value(Item),
}

/// What becomes of an object of this class.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Boxed,
    List,
    /// A list with its comparator as the first value.
    SortedList,
    Map,
    /// A map that ends with a null key.
    OpenMap,
    Date,
    BigInteger,
    BigDecimal,
    Uuid,
    /// `List.of` and its like.
    Immutable,
    EmptyMap,
    /// A view of the collection in this field.
    View(&'static str),
    Plain,
}

/// Classes of the JDK with fields that are not content: the order of access, or the same collection again.
const ADDS_NOTHING: [&str; 6] = [
    "java.util.LinkedHashMap",
    "java.util.Collections$UnmodifiableList",
    "java.util.Collections$UnmodifiableSortedSet",
    "java.util.Collections$UnmodifiableNavigableSet",
    "java.util.Collections$UnmodifiableSortedMap",
    "java.util.Collections$UnmodifiableNavigableMap",
];

impl Kind {
    fn of(class: &str) -> Kind {
        match class {
            "java.lang.Integer"
            | "java.lang.Long"
            | "java.lang.Short"
            | "java.lang.Byte"
            | "java.lang.Double"
            | "java.lang.Float"
            | "java.lang.Boolean"
            | "java.lang.Character" => Kind::Boxed,
            "java.util.ArrayList"
            | "java.util.LinkedList"
            | "java.util.ArrayDeque"
            | "java.util.HashSet"
            | "java.util.concurrent.CopyOnWriteArrayList"
            | "java.util.Collections$EmptyList"
            | "java.util.Collections$EmptySet" => Kind::List,
            "java.util.TreeSet" => Kind::SortedList,
            "java.util.HashMap" | "java.util.TreeMap" | "java.util.Hashtable" => Kind::Map,
            "java.util.concurrent.ConcurrentHashMap" => Kind::OpenMap,
            "java.util.Collections$EmptyMap" => Kind::EmptyMap,
            "java.util.Date" => Kind::Date,
            "java.math.BigInteger" => Kind::BigInteger,
            "java.math.BigDecimal" => Kind::BigDecimal,
            "java.util.UUID" => Kind::Uuid,
            "java.util.CollSer" => Kind::Immutable,
            "java.util.Arrays$ArrayList" => Kind::View("a"),
            "java.util.Collections$UnmodifiableCollection" => Kind::View("c"),
            "java.util.Collections$UnmodifiableMap" => Kind::View("m"),
            _ => Kind::Plain,
        }
    }
}

/// Refuses a class that writes its content with its own method, unless the method is known.
pub(super) fn check_self_written(reader: &Reader<'_>, start: usize, class: &str) -> Read<()> {
    match Kind::of(class) {
        Kind::Plain => Err(opaque(reader, start, class)),
        _ => Ok(()),
    }
}

/// The object of this class at `start` cannot be read.
pub(super) fn opaque(reader: &Reader<'_>, start: usize, class: &str) -> Refusal {
    reader.refuse_at(start, DecodeProblem::Opaque(ClassName::of(class)))
}

/// The value of an object; its topmost class comes first.
pub(super) fn value(reader: &mut Reader<'_>, start: usize, mut parts: Vec<Part>, types: JavaTypes) -> Read<Item> {
    let own = parts.last().map(|part| part.class.clone()).unwrap_or_default();
    let known = parts.iter().position(|part| Kind::of(&part.class) != Kind::Plain);
    let Some(known) = known else { return plain(reader, &own, parts, types) };
    // A class that adds fields to what is known would lose them: one of the application's, or `java.sql.Timestamp`, which
    // keeps a part of the time in a field of its own.
    let adds = |part: &Part| {
        Kind::of(&part.class) == Kind::Plain && !ADDS_NOTHING.contains(&&*part.class) && !part.fields.is_empty()
    };
    if parts[known..].iter().any(adds) {
        return Err(opaque(reader, start, &own));
    }
    let malformed = |reader: &Reader<'_>| reader.malformed("an object of the JDK");
    let part = parts.swap_remove(known);
    match Kind::of(&part.class) {
        Kind::Boxed => field(part, "value").ok_or_else(|| malformed(reader)),
        Kind::View(name) => field(part, name).ok_or_else(|| malformed(reader)),
        Kind::List => Ok(list(part).into()),
        Kind::SortedList => match list(part).split_first() {
            Some((Value::Null, items)) => Ok(items.to_vec().into()),
            _ => Err(opaque(reader, start, &own)),
        },
        Kind::Map => map(list(part)).ok_or_else(|| malformed(reader)),
        Kind::OpenMap => {
            let mut items = list(part);
            items.truncate(items.len().saturating_sub(2));
            map(items).ok_or_else(|| malformed(reader))
        }
        Kind::EmptyMap => Ok(value::map(Vec::new()).into()),
        Kind::Date => {
            block(&part).and_then(|mut block| block.try_get_i64().ok()).map(Item::from).ok_or_else(|| malformed(reader))
        }
        Kind::BigInteger => {
            let negative = number(&part, "signum").and_then(Number::as_i64) == Some(-1);
            match field(part, "magnitude") {
                Some(Item::Bytes(magnitude)) => value::integer(reader, negative, &magnitude).map(Item::from_number),
                _ => Err(malformed(reader)),
            }
        }
        Kind::BigDecimal => {
            let scale = number(&part, "scale").and_then(Number::as_i64);
            match (number(&part, "intVal"), scale) {
                (Some(unscaled), Some(scale)) => value::decimal(reader, unscaled, scale).map(Item::from_number),
                _ => Err(malformed(reader)),
            }
        }
        Kind::Uuid => {
            let half = |name| number(&part, name).and_then(Number::as_i64);
            match (half("mostSigBits"), half("leastSigBits")) {
                (Some(most), Some(least)) => Ok(uuid(most, least).into()),
                _ => Err(malformed(reader)),
            }
        }
        Kind::Immutable => {
            // 1 a list, 2 a set, 3 a map; the higher bits are the JDK's.
            let is_map = number(&part, "tag").and_then(Number::as_i64).is_some_and(|tag| tag & 0xff == 3);
            let items = list(part);
            match is_map {
                true => map(items).ok_or_else(|| malformed(reader)),
                false => Ok(items.into()),
            }
        }
        Kind::Plain => Err(malformed(reader)),
    }
}

/// The fields of all classes; one that hides a field of the same name above it does not hide it here.
fn plain(reader: &mut Reader<'_>, own: &str, parts: Vec<Part>, types: JavaTypes) -> Read<Item> {
    let mut object = Map::new();
    if types == JavaTypes::Keep {
        reader.pay_for(own.len())?;
        object.insert(CLASS.to_owned(), Value::String(own.to_owned()));
    }
    for part in parts {
        for (name, value) in part.fields {
            let name = match object.contains_key(&name) {
                true => {
                    reader.pay_for(part.class.len() + 1)?;
                    format!("{}.{name}", part.class)
                }
                false => name,
            };
            reader.pay_for(name.len())?;
            object.insert(name, value.into_json());
        }
    }
    Ok(Value::Object(object).into())
}

fn field(part: Part, name: &str) -> Option<Item> {
    part.fields.into_iter().find(|(field, _)| field == name).map(|(_, item)| item)
}

fn number<'a>(part: &'a Part, name: &str) -> Option<&'a Number> {
    match part.fields.iter().find(|(field, _)| field == name) {
        Some((_, Item::Json(Value::Number(number)))) => Some(number),
        _ => None,
    }
}

fn block(part: &Part) -> Option<&[u8]> {
    part.written.iter().find_map(|written| match written {
        Written::Block(bytes) => Some(bytes.as_slice()),
        Written::Value(_) => None,
    })
}

/// The values that the class wrote, without the sizes between them.
fn list(part: Part) -> Vec<Value> {
    let value = |written| match written {
        Written::Block(_) => None,
        Written::Value(item) => Some(item.into_json()),
    };
    part.written.into_iter().filter_map(value).collect()
}

/// Keys and values in turn.
fn map(items: Vec<Value>) -> Option<Item> {
    let mut entries = Vec::new();
    let mut items = items.into_iter();
    while let Some(key) = items.next() {
        entries.push((key, items.next()?));
    }
    Some(value::map(entries).into())
}

fn uuid(most: i64, least: i64) -> String {
    let (most, least) = (most.cast_unsigned(), least.cast_unsigned());
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        most >> 32,
        most >> 16 & 0xffff,
        most & 0xffff,
        least >> 48,
        least & 0xffff_ffff_ffff
    )
}
