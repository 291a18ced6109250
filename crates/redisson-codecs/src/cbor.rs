//! Codec `cbor` (RFC 8949), as Redisson's `CborJacksonCodec` writes it: with Jackson's types, maps and lists of
//! indefinite length, and long text in chunks.

use serde_json::Value;

use super::error::DecodeProblem;
use super::reader::{Read, Reader};
use super::value::{self, Item};

const NAME: &str = "CBOR";

pub(super) fn decode(payload: &[u8], budget: usize) -> Read<Item> {
    let mut reader = Reader::new(payload, budget);
    let item = item(&mut reader)?;
    reader.end()?;
    Ok(item)
}

/// The argument of an item's head.
enum Argument {
    Number(u64),
    Indefinite,
}

fn item(reader: &mut Reader<'_>) -> Read<Item> {
    let head = reader.u8()?;
    reader.pay()?;
    let major = head >> 5;
    let low = head & 0x1f;
    if major == 7 {
        return simple(reader, low);
    }
    let argument = match low {
        0..=23 => Argument::Number(low.into()),
        24 => Argument::Number(reader.u8()?.into()),
        25 => Argument::Number(reader.u16()?.into()),
        26 => Argument::Number(reader.u32()?.into()),
        27 => Argument::Number(reader.u64()?),
        31 if matches!(major, 2..=5) => Argument::Indefinite,
        _ => return Err(reader.malformed(NAME)),
    };
    match (major, argument) {
        (0, Argument::Number(number)) => Ok(number.into()),
        (1, Argument::Number(number)) => match i64::try_from(number) {
            Ok(number) => Ok((-1 - number).into()),
            Err(_) => {
                let magnitude = (u128::from(number) + 1).to_be_bytes();
                value::integer(reader, true, &magnitude).map(Item::from_number)
            }
        },
        (2, argument) => {
            let bytes = chunks(reader, 2, argument)?;
            reader.pay_for(bytes.len() / 3)?;
            Ok(Item::Bytes(bytes))
        }
        (3, argument) => {
            let start = reader.at();
            let bytes = chunks(reader, 3, argument)?;
            let text = String::from_utf8(bytes);
            text.map(Item::from).map_err(|_| reader.refuse_at(start, DecodeProblem::NotUtf8))
        }
        (4, argument) => reader.deeper(|reader| list(reader, &argument)),
        (5, argument) => reader.deeper(|reader| map(reader, &argument)),
        (_, Argument::Number(tag)) => reader.deeper(|reader| tagged(reader, tag)),
        _ => Err(reader.malformed(NAME)),
    }
}

/// Reads the bytes of a string, and joins its chunks.
fn chunks(reader: &mut Reader<'_>, major: u8, argument: Argument) -> Read<Vec<u8>> {
    if let Argument::Number(length) = argument {
        return chunk(reader, length).map(<[u8]>::to_vec);
    }
    let mut bytes = Vec::new();
    while !ended(reader)? {
        let head = reader.u8()?;
        let length = match (head >> 5 == major, head & 0x1f) {
            (true, low @ 0..=23) => low.into(),
            (true, 24) => reader.u8()?.into(),
            (true, 25) => reader.u16()?.into(),
            (true, 26) => reader.u32()?.into(),
            (true, 27) => reader.u64()?,
            _ => return Err(reader.malformed(NAME)),
        };
        bytes.extend_from_slice(chunk(reader, length)?);
    }
    Ok(bytes)
}

fn chunk<'a>(reader: &mut Reader<'a>, length: u64) -> Read<&'a [u8]> {
    let taken = reader.take(usize::try_from(length).unwrap_or(usize::MAX))?;
    reader.pay_for(taken.len())?;
    Ok(taken)
}

/// Returns whether the break of an item of indefinite length follows; consumes it.
fn ended(reader: &mut Reader<'_>) -> Read<bool> {
    match reader.peek() {
        Some(0xff) => reader.u8().map(|_| true),
        _ => Ok(false),
    }
}

/// Returns whether another entry follows, after `read` entries.
fn another(reader: &mut Reader<'_>, argument: &Argument, read: u64) -> Read<bool> {
    match argument {
        Argument::Number(count) => Ok(read < *count),
        Argument::Indefinite => ended(reader).map(|ended| !ended),
    }
}

fn list(reader: &mut Reader<'_>, argument: &Argument) -> Read<Item> {
    let mut items: Vec<Value> = Vec::new();
    while another(reader, argument, items.len() as u64)? {
        items.push(item(reader)?.into_json());
    }
    Ok(Value::Array(items).into())
}

fn map(reader: &mut Reader<'_>, argument: &Argument) -> Read<Item> {
    let mut entries = Vec::new();
    while another(reader, argument, entries.len() as u64)? {
        let key = item(reader)?.into_json();
        entries.push((key, item(reader)?.into_json()));
    }
    Ok(value::map(entries).into())
}

/// Reads a tagged item: big numbers become numbers, other tags are dropped.
fn tagged(reader: &mut Reader<'_>, tag: u64) -> Read<Item> {
    let inner = item(reader)?;
    match (tag, inner) {
        (2, Item::Bytes(magnitude)) => value::integer(reader, false, &magnitude).map(Item::from_number),
        // -1 - n is the bitwise complement of n.
        (3, Item::Bytes(magnitude)) => {
            let mut bytes = vec![0xff];
            bytes.extend(magnitude.iter().map(|byte| !byte));
            value::signed_integer(reader, &bytes).map(Item::from_number)
        }
        (4, Item::Json(Value::Array(parts))) => match parts.as_slice() {
            [Value::Number(exponent), Value::Number(mantissa)] => {
                let exponent = exponent.as_i64().ok_or_else(|| reader.malformed(NAME))?;
                value::decimal(reader, mantissa, exponent.saturating_neg()).map(Item::from_number)
            }
            _ => Err(reader.malformed(NAME)),
        },
        (_, inner) => Ok(inner),
    }
}

fn simple(reader: &mut Reader<'_>, low: u8) -> Read<Item> {
    Ok(match low {
        20 => false.into(),
        21 => true.into(),
        22 | 23 => Value::Null.into(),
        25 => value::double(half(reader.u16()?)),
        26 => value::float(f32::from_bits(reader.u32()?)),
        27 => value::double(f64::from_bits(reader.u64()?)),
        31 => return Err(reader.malformed(NAME)),
        _ => return Err(reader.refuse(DecodeProblem::Unsupported("a simple value without a meaning"))),
    })
}

/// Converts a 16-bit number: a sign bit, five bits of exponent, ten of fraction.
fn half(bits: u16) -> f64 {
    let fraction = f64::from(bits & 0x3ff);
    let magnitude = match bits >> 10 & 0x1f {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        exponent => (fraction + 1024.0) * 2f64.powi(i32::from(exponent) - 25),
    };
    if bits & 0x8000 == 0 { magnitude } else { -magnitude }
}
