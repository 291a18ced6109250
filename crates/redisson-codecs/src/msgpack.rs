//! Codec `msgpack`: MessagePack with Jackson's types, as Redisson's `MsgPackJacksonCodec` writes it.

use serde_json::Value;

use super::error::DecodeProblem;
use super::reader::{Read, Reader};
use super::value::{self, Item};

pub(super) fn decode(payload: &[u8], budget: usize) -> Read<Item> {
    let mut reader = Reader::new(payload, budget);
    let item = item(&mut reader)?;
    reader.end()?;
    Ok(item)
}

fn item(reader: &mut Reader<'_>) -> Read<Item> {
    let head = reader.u8()?;
    reader.pay()?;
    Ok(match head {
        0x00..=0x7f => head.into(),
        0xe0..=0xff => head.cast_signed().into(),
        0x80..=0x8f => return map(reader, usize::from(head & 0x0f)),
        0x90..=0x9f => return list(reader, usize::from(head & 0x0f)),
        0xa0..=0xbf => value::utf8(reader, usize::from(head & 0x1f))?.into(),
        0xc0 => Value::Null.into(),
        0xc2 => false.into(),
        0xc3 => true.into(),
        0xc4..=0xc6 => {
            let length = length(reader, head - 0xc4)?;
            value::bytes(reader, length)?
        }
        0xca => value::float(f32::from_bits(reader.u32()?)),
        0xcb => value::double(f64::from_bits(reader.u64()?)),
        0xcc => reader.u8()?.into(),
        0xcd => reader.u16()?.into(),
        0xce => reader.u32()?.into(),
        0xcf => reader.u64()?.into(),
        0xd0 => reader.u8()?.cast_signed().into(),
        0xd1 => reader.u16()?.cast_signed().into(),
        0xd2 => reader.i32()?.into(),
        0xd3 => reader.i64()?.into(),
        0xd9..=0xdb => {
            let length = length(reader, head - 0xd9)?;
            value::utf8(reader, length)?.into()
        }
        0xdc | 0xdd => {
            let count = length(reader, head - 0xdc + 1)?;
            return list(reader, count);
        }
        0xde | 0xdf => {
            let count = length(reader, head - 0xde + 1)?;
            return map(reader, count);
        }
        0xc1 => return Err(reader.malformed("MessagePack")),
        0xc7..=0xc9 | 0xd4..=0xd8 => {
            return Err(reader.refuse(DecodeProblem::Unsupported("an extension type of MessagePack")));
        }
    })
}

/// Reads a length of one, two or four bytes.
fn length(reader: &mut Reader<'_>, size: u8) -> Read<usize> {
    match size {
        0 => reader.u8().map(usize::from),
        1 => reader.u16().map(usize::from),
        _ => reader.count(),
    }
}

fn list(reader: &mut Reader<'_>, count: usize) -> Read<Item> {
    reader.deeper(|reader| {
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(item(reader)?.into_json());
        }
        Ok(Value::Array(items).into())
    })
}

fn map(reader: &mut Reader<'_>, count: usize) -> Read<Item> {
    reader.deeper(|reader| {
        let mut entries = Vec::new();
        for _ in 0..count {
            let key = item(reader)?.into_json();
            entries.push((key, item(reader)?.into_json()));
        }
        Ok(value::map(entries).into())
    })
}
