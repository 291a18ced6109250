//! The format of `java.time` values (`java.time.Ser`): a number for the class, then the parts, big-endian.

use crate::reader::{Read, Reader};
use crate::time;
use crate::value::{self, Item};

/// The size of a text's length, in bytes.
#[derive(Clone, Copy)]
pub(crate) enum TextLength {
    Two,
    Four,
}

/// Returns whether the class writes everything itself, in a known form.
pub(crate) fn is_external(class: &str) -> bool {
    class == "java.time.Ser"
}

/// Reads one value up to the end of its bytes.
pub(super) fn read(reader: &mut Reader<'_>, length: TextLength) -> Read<Item> {
    let text = match reader.u8()? {
        1 => time::duration(reader.i64()?, reader.u32()?),
        2 => time::instant(reader.i64()?, reader.u32()?),
        3 => date(reader)?,
        4 => clock(reader)?,
        5 => date_time(reader)?,
        6 => {
            let date_time = date_time(reader)?;
            let offset = offset(reader)?;
            let zone = match reader.u8()? {
                7 => Some(region(reader, length)?),
                8 => self::offset(reader)?,
                _ => None,
            };
            let parts = date_time.zip(offset).zip(zone);
            parts.map(|((date_time, offset), zone)| time::zoned(&date_time, Some(&offset), &zone))
        }
        7 => Some(region(reader, length)?),
        8 => offset(reader)?,
        9 => joined(clock(reader)?, offset(reader)?),
        10 => joined(date_time(reader)?, offset(reader)?),
        11 => {
            let year = reader.i32()?;
            reader.end()?;
            return Ok(year.into());
        }
        12 => time::year_month(reader.i32()?, reader.u8()?),
        13 => time::month_day(reader.u8()?, reader.u8()?),
        14 => Some(time::period(reader.i32()?, reader.i32()?, reader.i32()?)),
        _ => None,
    };
    reader.end()?;
    text.map(Item::from).ok_or_else(|| reader.malformed("a value of java.time"))
}

fn date(reader: &mut Reader<'_>) -> Read<Option<String>> {
    Ok(time::date(reader.i32()?, reader.u8()?, reader.u8()?))
}

fn date_time(reader: &mut Reader<'_>) -> Read<Option<String>> {
    Ok(date(reader)?.zip(clock(reader)?).map(|(date, clock)| format!("{date}T{clock}")))
}

/// Reads a time of day. Its last part other than zero is written with all bits inverted.
fn clock(reader: &mut Reader<'_>) -> Read<Option<String>> {
    let mut parts = [0; 3];
    for part in &mut parts {
        let byte = reader.u8()?;
        *part = byte;
        if byte & 0x80 != 0 {
            *part = !byte;
            return Ok(time::time(parts[0], parts[1], parts[2], 0));
        }
    }
    let nano = reader.u32()?;
    Ok(time::time(parts[0], parts[1], parts[2], nano))
}

fn offset(reader: &mut Reader<'_>) -> Read<Option<String>> {
    Ok(match reader.u8()?.cast_signed() {
        127 => time::offset(reader.i32()?),
        quarters => time::offset(i32::from(quarters) * 900),
    })
}

fn region(reader: &mut Reader<'_>, length: TextLength) -> Read<String> {
    let length = match length {
        TextLength::Two => reader.u16()?.into(),
        TextLength::Four => reader.count()?,
    };
    value::unit_bytes(reader, length)
}

fn joined(first: Option<String>, second: Option<String>) -> Option<String> {
    Some(first? + &second?)
}
