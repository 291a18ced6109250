//! Java objects that carry the names of their fields, common to `java` and `marshalling`.
//!
//! An object consists of one part for each of its classes, from the topmost down: the fields of that class, and the
//! data that the class wrote with its own method. The JDK's lists, maps, boxed and big numbers, dates and UUIDs have a
//! form of their own in JSON; every other object is shown as its fields. Data that any other class wrote with its own
//! method can only be read by that class.

mod external;
mod host;
mod kind;
mod part;

use bytes::Buf;
use serde_json::{Map, Number, Value};

pub(super) use self::external::{TextLength, is_external};
use self::kind::{Kind, adds_nothing};
pub(super) use self::part::{Part, Written};
use self::part::{number, text};
use super::error::{ClassName, DecodeProblem, Refusal};
use super::java_types::CLASS;
use super::reader::{Read, Reader};
use super::value::{self, Item};
use crate::coding::JavaTypes;

/// Returns whether the field is the lock of a collection, which is mostly the collection itself.
pub(super) fn is_lock(class: &str, field: &str) -> bool {
    field == "mutex" && class.starts_with("java.util.Collections$Synchronized")
}

/// Returns whether the compiler has added the field to a class within a method: the object around it, and the method's
/// variables.
fn is_of_compiler(field: &str) -> bool {
    field.starts_with("this$") || field.starts_with("val$")
}

/// Converts an object that wrote everything itself.
pub(super) fn external(reader: &mut Reader<'_>, written: Vec<Written>, length: TextLength) -> Read<Item> {
    let block = |written| match written {
        Written::Block(bytes) => Some(bytes),
        Written::Value(_) => None,
    };
    let bytes: Vec<u8> = written.into_iter().filter_map(block).flatten().collect();
    let item = external::read(&mut Reader::new(&bytes, bytes.len()), length);
    let item = item.map_err(|refusal| reader.refuse(refusal.problem))?;
    value::pay_again(reader, &item)?;
    Ok(item)
}

/// Refuses a class that writes its content with its own method, unless the method is known.
pub(super) fn check_self_written(reader: &Reader<'_>, start: usize, class: &str) -> Read<()> {
    if Kind::of(class) == Kind::Plain && !adds_nothing(class) { Err(opaque(reader, start, class)) } else { Ok(()) }
}

/// Returns the refusal of an object of this class at `start`.
pub(super) fn opaque(reader: &Reader<'_>, start: usize, class: &str) -> Refusal {
    reader.refuse_at(start, DecodeProblem::Opaque(ClassName::of(class)))
}

/// Converts an object; its topmost class comes first.
pub(super) fn value(reader: &mut Reader<'_>, start: usize, mut parts: Vec<Part>, types: JavaTypes) -> Read<Item> {
    let own = parts.last().map(|part| part.class.clone()).unwrap_or_default();
    // The lowest known class: java.sql.Timestamp has more than its superclass Date.
    let known = parts.iter().rposition(|part| Kind::of(&part.class) != Kind::Plain);
    let Some(known) = known else { return plain(reader, &own, parts, types) };
    // Fields that a class adds to a known one would be lost: those of an application's class, or of
    // `java.sql.Timestamp`, which keeps a part of the time in a field of its own.
    let adds = |part: &Part| {
        let mut fields = part.fields.iter().filter(|(name, _)| !is_of_compiler(name));
        Kind::of(&part.class) == Kind::Plain && !adds_nothing(&part.class) && fields.next().is_some()
    };
    if parts[known..].iter().any(adds) {
        return Err(opaque(reader, start, &own));
    }
    let malformed = |reader: &Reader<'_>| reader.malformed("an object of the JDK");
    let above = known.checked_sub(1).and_then(|above| block(&parts[above])?.try_get_i64().ok());
    let host_name = known.checked_sub(1).and_then(|above| text(&parts[above], "hostName")).map(str::to_owned);
    let part = parts.swap_remove(known);
    let kind = Kind::of(&part.class);
    match kind {
        Kind::Boxed => field(part, "value").ok_or_else(|| malformed(reader)),
        Kind::View(name) => field(part, name).ok_or_else(|| malformed(reader)),
        Kind::Flag => match number(&part, "value").and_then(Number::as_i64) {
            Some(value) => Ok((value != 0).into()),
            None => Err(malformed(reader)),
        },
        Kind::List => Ok(list(part).into()),
        Kind::OpenList => {
            let mut items = list(part);
            items.pop();
            Ok(items.into())
        }
        Kind::Vector => {
            let count =
                number(&part, "elementCount").and_then(Number::as_u64).and_then(|count| usize::try_from(count).ok());
            match (field(part, "elementData"), count) {
                (Some(Item::Json(Value::Array(mut items))), Some(count)) => {
                    items.truncate(count);
                    Ok(items.into())
                }
                _ => Err(malformed(reader)),
            }
        }
        Kind::SingletonList => match field(part, "element") {
            Some(item) => Ok(vec![item.into_json()].into()),
            None => Err(malformed(reader)),
        },
        Kind::SingletonMap => {
            let mut fields = part.fields;
            fields.sort_by(|(a, _), (b, _)| a.cmp(b));
            match <[_; 2]>::try_from(fields) {
                Ok([(_, key), (_, item)]) => Ok(value::map(vec![(key.into_json(), item.into_json())]).into()),
                Err(_) => Err(malformed(reader)),
            }
        }
        Kind::SortedList => {
            let mut items = list(part);
            if items.is_empty() {
                return Err(malformed(reader));
            }
            items.remove(0);
            Ok(items.into())
        }
        Kind::Copies => {
            let count = number(&part, "n").and_then(Number::as_u64).and_then(|count| usize::try_from(count).ok());
            match (field(part, "element"), count) {
                (Some(item), Some(count)) => value::copies(reader, item, count),
                _ => Err(malformed(reader)),
            }
        }
        Kind::Map => map(list(part)).ok_or_else(|| malformed(reader)),
        Kind::OpenMap | Kind::OpenPairs => {
            let mut items = list(part);
            let end = if kind == Kind::OpenPairs { 2 } else { 1 };
            items.truncate(items.len().saturating_sub(end));
            map(items).ok_or_else(|| malformed(reader))
        }
        Kind::EmptyMap => Ok(value::map(Vec::new()).into()),
        Kind::Date => {
            block(&part).and_then(|mut block| block.try_get_i64().ok()).map(Item::from).ok_or_else(|| malformed(reader))
        }
        Kind::Timestamp => {
            let nanos = number(&part, "nanos").and_then(Number::as_i64);
            let time = above.zip(nanos).and_then(|(time, nanos)| milliseconds(time, nanos));
            time.map(Item::from_number).ok_or_else(|| malformed(reader))
        }
        Kind::Keys(name) => match field(part, name) {
            Some(Item::Entries(entries)) => Ok(entries.into_iter().map(|(key, _)| key).collect::<Vec<_>>().into()),
            _ => Err(malformed(reader)),
        },
        Kind::Host => host::address(&part).map(Item::from).ok_or_else(|| malformed(reader)),
        Kind::Host6 => host::address_6(&part, host_name.as_deref()).map(Item::from).ok_or_else(|| malformed(reader)),
        Kind::Socket => host::socket(&part).map(Item::from).ok_or_else(|| malformed(reader)),
        Kind::Url => url(part).map(Item::from).ok_or_else(|| malformed(reader)),
        Kind::Locale => {
            let part = |name| text(&part, name).unwrap_or_default();
            let [language, script, country, variant, extensions] =
                ["language", "script", "country", "variant", "extensions"].map(part);
            Ok(value::locale(language, script, country, variant, extensions).into())
        }
        Kind::Characters => characters(part).map(Item::from).ok_or_else(|| malformed(reader)),
        Kind::BitSet => bit_set(reader, part),
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
                (Some(most), Some(least)) => Ok(value::uuid(most, least).into()),
                _ => Err(malformed(reader)),
            }
        }
        Kind::Immutable => {
            // 1 is a list, 2 a set, 3 a map; the higher bits are internal to the JDK.
            let is_map = number(&part, "tag").and_then(Number::as_i64).is_some_and(|tag| tag & 0xff == 3);
            let items = list(part);
            if is_map { map(items).ok_or_else(|| malformed(reader)) } else { Ok(items.into()) }
        }
        Kind::Plain => Err(malformed(reader)),
    }
}

/// Converts the fields of all classes. A field that hides one of a superclass gets its class as a prefix.
fn plain(reader: &mut Reader<'_>, own: &str, parts: Vec<Part>, types: JavaTypes) -> Read<Item> {
    let mut object = Map::new();
    if types == JavaTypes::Keep {
        reader.pay_for(own.len())?;
        object.insert(CLASS.to_owned(), Value::String(own.to_owned()));
    }
    for part in parts {
        for (name, value) in part.fields {
            let name = if object.contains_key(&name) {
                reader.pay_for(part.class.len() + 1)?;
                format!("{}.{name}", part.class)
            } else {
                name
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

fn block(part: &Part) -> Option<&[u8]> {
    part.written.iter().find_map(|written| match written {
        Written::Block(bytes) => Some(bytes.as_slice()),
        Written::Value(_) => None,
    })
}

/// Returns the values that the class wrote, without the sizes between them.
fn list(part: Part) -> Vec<Value> {
    values(part.written)
}

/// Returns the values among the data that a class wrote.
pub(super) fn values(written: Vec<Written>) -> Vec<Value> {
    let value = |written| match written {
        Written::Block(_) => None,
        Written::Value(item) => Some(item.into_json()),
    };
    written.into_iter().filter_map(value).collect()
}

/// Converts alternating keys and values.
fn map(items: Vec<Value>) -> Option<Item> {
    let mut entries = Vec::new();
    let mut items = items.into_iter();
    while let Some(key) = items.next() {
        entries.push((key, items.next()?));
    }
    Some(Item::Entries(entries))
}

/// Milliseconds since 1970, with a fraction if there is one.
fn milliseconds(time: i64, nanos: i64) -> Option<Number> {
    let whole = time.checked_add(nanos / 1_000_000)?;
    match nanos % 1_000_000 {
        0 => Some(whole.into()),
        rest if whole >= 0 => serde_json::from_str(&format!("{whole}.{rest:06}")).ok(),
        rest => {
            // Below zero, the digits after the point count downwards.
            let text = format!("-{}.{:06}", -(whole + 1), 1_000_000 - rest);
            serde_json::from_str(&text).ok()
        }
    }
}

/// Formats a URL like `URL.toExternalForm`; the file contains the path and the query.
fn url(part: Part) -> Option<String> {
    let mut url = format!("{}:", text(&part, "protocol")?);
    if let Some(authority) = text(&part, "authority").filter(|authority| !authority.is_empty()) {
        url.push_str("//");
        url.push_str(authority);
    }
    url.push_str(text(&part, "file").unwrap_or_default());
    if let Some(anchor) = text(&part, "ref") {
        url.push('#');
        url.push_str(anchor);
    }
    Some(url)
}

/// Returns the text of a builder: an array of characters, of which only the first count.
fn characters(part: Part) -> Option<String> {
    let count = number(&part, "count").and_then(Number::as_i64);
    let count = count.or_else(|| block(&part).and_then(|mut block| block.try_get_i32().ok()).map(i64::from))?;
    let of_field = |part: &Part| part.fields.iter().find(|(name, _)| name == "value").map(|(_, item)| item.clone());
    let letters = match of_field(&part) {
        Some(Item::Json(Value::Array(letters))) => letters,
        _ => match list(part).pop()? {
            Value::Array(letters) => letters,
            _ => return None,
        },
    };
    letters.iter().take(usize::try_from(count).ok()?).map(Value::as_str).collect()
}

/// Returns the numbers of the set bits.
fn bit_set(reader: &mut Reader<'_>, part: Part) -> Read<Item> {
    let mut set = Vec::new();
    if let Some(Item::Json(Value::Array(words))) = field(part, "bits") {
        for (place, word) in (0..).zip(words.iter().filter_map(Value::as_i64)) {
            value::bits(reader, place, word.cast_unsigned(), &mut set)?;
        }
    }
    Ok(set.into())
}
