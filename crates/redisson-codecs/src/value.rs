//! The lossless conversion of values of binary formats to JSON.
//!
//! | value | in JSON |
//! |---|---|
//! | whole numbers of any size | the same digits |
//! | floating point | the shortest digits that read back as the same number |
//! | NaN, Infinity, -Infinity | text, as Jackson writes them |
//! | bytes | base64 text; a payload that is bytes and nothing else stays bytes |
//! | maps | an object; keys that are numbers or booleans as their text |
//! | maps with other keys, or with two keys of one text | a list of `[key, value]` |

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Number, Value};

use super::error::DecodeProblem;
use super::payload::Decoded;
use super::reader::{Read, Reader};

/// A value that was read: bytes, a map, or anything else with a form in JSON.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Item {
    Bytes(Vec<u8>),
    Json(Value),
    /// A map whose keys have their types, for a set of them.
    Entries(Vec<(Value, Value)>),
}

impl Item {
    /// Converts it as a part of a larger value.
    pub(super) fn into_json(self) -> Value {
        match self {
            Item::Bytes(bytes) => Value::String(STANDARD.encode(bytes)),
            Item::Json(value) => value,
            Item::Entries(entries) => map(entries),
        }
    }

    pub(super) fn from_number(number: Number) -> Item {
        Item::Json(Value::Number(number))
    }

    /// Converts it as the whole payload.
    pub(super) fn into_decoded(self) -> Decoded {
        match self {
            Item::Bytes(bytes) => Decoded::Opaque(bytes.into()),
            item => Decoded::Value(item.into_json()),
        }
    }
}

impl<T: Into<Value>> From<T> for Item {
    fn from(value: T) -> Self {
        Item::Json(value.into())
    }
}

/// Pays for a copy of a value that was read before, so that references cannot multiply the memory of a payload.
pub(super) fn pay_again(reader: &mut Reader<'_>, item: &Item) -> Read<()> {
    match item {
        Item::Bytes(bytes) => reader.pay_for(bytes.len() / 3 * 4 + 4),
        Item::Json(value) => pay_for_value(reader, value),
        Item::Entries(entries) => {
            reader.pay()?;
            entries.iter().try_for_each(|(key, value)| {
                pay_for_value(reader, key)?;
                pay_for_value(reader, value)
            })
        }
    }
}

fn pay_for_value(reader: &mut Reader<'_>, value: &Value) -> Read<()> {
    reader.pay()?;
    match value {
        Value::Null | Value::Bool(_) => Ok(()),
        Value::Number(number) => reader.pay_for(number.as_str().len()),
        Value::String(text) => reader.pay_for_text(text.as_bytes()),
        Value::Array(items) => items.iter().try_for_each(|item| pay_for_value(reader, item)),
        Value::Object(fields) => fields.iter().try_for_each(|(name, value)| {
            reader.pay_for_text(name.as_bytes())?;
            pay_for_value(reader, value)
        }),
    }
}

/// Makes this many copies of a value, each paid for before it is allocated.
pub(super) fn copies(reader: &mut Reader<'_>, item: Item, count: usize) -> Read<Item> {
    let mut copies = Vec::new();
    for _ in 0..count {
        pay_again(reader, &item)?;
        copies.push(item.clone().into_json());
    }
    Ok(copies.into())
}

/// Reads bytes, and pays for the base64 text that they may become.
pub(super) fn bytes(reader: &mut Reader<'_>, count: usize) -> Read<Item> {
    let taken = reader.take(count)?;
    reader.pay_for(count / 3 * 4 + 4)?;
    Ok(Item::Bytes(taken.to_vec()))
}

pub(super) fn utf8(reader: &mut Reader<'_>, count: usize) -> Read<String> {
    let start = reader.at();
    let taken = reader.take(count)?;
    let text = std::str::from_utf8(taken)
        .map_err(|error| reader.refuse_at(start + error.valid_up_to(), DecodeProblem::NotUtf8))?;
    reader.pay_for_text(taken)?;
    Ok(text.to_owned())
}

/// Reads text that Java wrote as `units` UTF-16 units of one, two or three bytes each (modified UTF-8, where a
/// character beyond U+FFFF is two units).
pub(super) fn units(reader: &mut Reader<'_>, units: usize) -> Read<String> {
    if let Some(ascii) = reader.rest().get(..units).filter(|bytes| bytes.is_ascii()) {
        let text = String::from_utf8_lossy(ascii).into_owned();
        let ascii = reader.take(units)?;
        reader.pay_for_text(ascii)?;
        return Ok(text);
    }
    let mut text = Text::default();
    for _ in 0..units {
        let unit = unit(reader)?;
        text.push(reader, unit)?;
    }
    text.end(reader)
}

/// Reads a text as [`units`] does, for a length of `count` bytes.
pub(super) fn unit_bytes(reader: &mut Reader<'_>, count: usize) -> Read<String> {
    let start = reader.at();
    let taken = reader.take(count)?;
    if taken.is_ascii() {
        reader.pay_for_text(taken)?;
        return Ok(String::from_utf8_lossy(taken).into_owned());
    }
    let mut inner = Reader::new(taken, usize::MAX);
    let mut text = Text::default();
    let shifted = |mut refusal: super::error::Refusal| {
        refusal.offset += start;
        refusal
    };
    while !inner.rest().is_empty() {
        let unit = unit(&mut inner).map_err(shifted)?;
        text.push(reader, unit)?;
    }
    text.end(reader)
}

fn unit(reader: &mut Reader<'_>) -> Read<u16> {
    let follow = |reader: &mut Reader<'_>| match reader.u8()? {
        byte @ 0x80..=0xbf => Ok(u16::from(byte & 0x3f)),
        _ => Err(reader.malformed("text in modified UTF-8")),
    };
    match reader.u8()? {
        byte @ ..=0x7f => Ok(byte.into()),
        byte @ 0xc0..=0xdf => Ok(u16::from(byte & 0x1f) << 6 | follow(reader)?),
        byte @ 0xe0..=0xef => Ok(u16::from(byte & 0x0f) << 12 | follow(reader)? << 6 | follow(reader)?),
        _ => Err(reader.malformed("text in modified UTF-8")),
    }
}

/// A text under construction from UTF-16 units.
#[derive(Default)]
struct Text {
    text: String,
    /// The first half of a surrogate pair.
    high: Option<u16>,
}

impl Text {
    fn push(&mut self, reader: &mut Reader<'_>, unit: u16) -> Read<()> {
        let letter = match (self.high.take(), unit) {
            (None, 0xd800..=0xdbff) => {
                self.high = Some(unit);
                return Ok(());
            }
            (Some(high), _) => char::decode_utf16([high, unit]).next().and_then(Result::ok),
            (None, _) => char::from_u32(unit.into()),
        };
        let letter = letter.ok_or_else(|| reader.refuse(DecodeProblem::LoneSurrogate))?;
        reader.pay_for_text(letter.encode_utf8(&mut [0; 4]).as_bytes())?;
        self.text.push(letter);
        Ok(())
    }

    fn end(self, reader: &Reader<'_>) -> Read<String> {
        match self.high {
            Some(_) => Err(reader.refuse(DecodeProblem::LoneSurrogate)),
            None => Ok(self.text),
        }
    }
}

/// Converts one UTF-16 unit to text.
pub(super) fn letter(reader: &Reader<'_>, unit: u16) -> Read<Item> {
    match char::from_u32(unit.into()) {
        Some(letter) => Ok(letter.to_string().into()),
        None => Err(reader.refuse(DecodeProblem::LoneSurrogate)),
    }
}

/// Converts a 64-bit floating-point number.
pub(super) fn double(value: f64) -> Item {
    Number::from_f64(value).map_or_else(|| not_finite(value), |number| Item::Json(number.into()))
}

/// Converts a 32-bit floating-point number, with only the digits that it needs.
pub(super) fn float(value: f32) -> Item {
    if value.is_finite() { Item::Json(value.into()) } else { not_finite(value.into()) }
}

fn not_finite(value: f64) -> Item {
    let text = match value {
        value if value.is_nan() => "NaN",
        value if value > 0.0 => "Infinity",
        _ => "-Infinity",
    };
    text.into()
}

/// Maximum length of an integer, in bytes; conversion to decimal takes quadratic time.
const LONGEST_INTEGER: usize = 512;

/// Converts an integer of any size from the bytes of its magnitude, the highest first.
pub(super) fn integer(reader: &mut Reader<'_>, negative: bool, magnitude: &[u8]) -> Read<Number> {
    if magnitude.len() > LONGEST_INTEGER {
        return Err(reader.refuse(DecodeProblem::Unsupported("a whole number of more than 1,233 digits")));
    }
    reader.pay_for(magnitude.len() * 3)?;
    // Groups of nine digits, the lowest first.
    let mut groups: Vec<u32> = Vec::new();
    for &byte in magnitude {
        let mut carry = u64::from(byte);
        for group in &mut groups {
            carry += u64::from(*group) << 8;
            *group = u32::try_from(carry % 1_000_000_000).unwrap_or_default();
            carry /= 1_000_000_000;
        }
        if carry > 0 {
            groups.push(u32::try_from(carry).unwrap_or_default());
        }
    }
    let mut digits = String::new();
    for group in groups.iter().rev() {
        if digits.is_empty() { digits = group.to_string() } else { digits.push_str(&format!("{group:09}")) }
    }
    let text = match (digits.as_str(), negative) {
        ("", _) => "0".to_owned(),
        (digits, true) => format!("-{digits}"),
        (digits, false) => digits.to_owned(),
    };
    number(reader, &text)
}

/// Reads a number as [`integer`] does, from two's complement, as Java writes a `BigInteger`.
pub(super) fn signed_integer(reader: &mut Reader<'_>, bytes: &[u8]) -> Read<Number> {
    let negative = bytes.first().is_some_and(|first| first & 0x80 != 0);
    if !negative || bytes.len() > LONGEST_INTEGER {
        return integer(reader, false, bytes);
    }
    let mut magnitude: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
    for byte in magnitude.iter_mut().rev() {
        *byte = byte.wrapping_add(1);
        if *byte != 0 {
            break;
        }
    }
    integer(reader, true, &magnitude)
}

/// Converts an integer divided by ten to the power of `scale`, as Java writes a `BigDecimal`, keeping all digits.
pub(super) fn decimal(reader: &mut Reader<'_>, unscaled: &Number, scale: i64) -> Read<Number> {
    match scale {
        0 => Ok(unscaled.clone()),
        scale => number(reader, &format!("{unscaled}e{}", scale.saturating_neg())),
    }
}

fn number(reader: &Reader<'_>, text: &str) -> Read<Number> {
    serde_json::from_str(text).map_err(|_| reader.malformed("a number"))
}

/// Decodes zigzag: a signed number that is stored as an unsigned one, with its sign in the lowest bit.
pub(super) fn zigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

/// Formats a `UUID` from its two halves.
pub(super) fn uuid(most: i64, least: i64) -> String {
    let most = most.cast_unsigned();
    let least = least.cast_unsigned();
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        most >> 32,
        most >> 16 & 0xffff,
        most & 0xffff,
        least >> 48,
        least & 0xffff_ffff_ffff
    )
}

/// Formats a `Locale` like its `toString`.
pub(super) fn locale(language: &str, script: &str, country: &str, variant: &str, extensions: &str) -> String {
    let mut text = language.to_owned();
    let has_script = !script.is_empty();
    let has_country = !country.is_empty();
    if has_country || (!language.is_empty() && (!variant.is_empty() || has_script || !extensions.is_empty())) {
        text.push('_');
        text.push_str(country);
    }
    if !variant.is_empty() && !text.is_empty() {
        text.push('_');
        text.push_str(variant);
    }
    if has_script && !text.is_empty() {
        text.push_str("_#");
        text.push_str(script);
    }
    if !extensions.is_empty() && !text.is_empty() {
        text.push_str(if has_script { "_" } else { "_#" });
        text.push_str(extensions);
    }
    text
}

/// Appends the numbers of the set bits of a word of a `BitSet`.
pub(super) fn bits(reader: &mut Reader<'_>, word: u64, bits: u64, set: &mut Vec<Value>) -> Read<()> {
    for bit in (0..64).filter(|bit| bits >> bit & 1 != 0) {
        reader.pay()?;
        set.push((word * 64 + bit).into());
    }
    Ok(())
}

/// Builds a map in the order of the payload.
pub(super) fn map(entries: Vec<(Value, Value)>) -> Value {
    let name = |key: &Value| match key {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    };
    let names: Option<Vec<_>> = entries.iter().map(|(key, _)| name(key)).collect();
    let distinct = |names: &Vec<String>| {
        let seen: std::collections::HashSet<_> = names.iter().collect();
        seen.len() == names.len()
    };
    match names.filter(distinct) {
        Some(names) => {
            let values = entries.into_iter().map(|(_, value)| value);
            Value::Object(names.into_iter().zip(values).collect::<Map<_, _>>())
        }
        None => entries.into_iter().map(|(key, value)| Value::Array(vec![key, value])).collect(),
    }
}
