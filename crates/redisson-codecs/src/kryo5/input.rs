//! Kryo's numbers and strings.

use super::{Kryo, NAME};
use crate::reader::Read;
use crate::value;

impl Kryo<'_> {
    pub(super) fn flag(&mut self) -> Read<bool> {
        match self.reader.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.reader.malformed(NAME)),
        }
    }

    /// Reads a length that is stored plus one; `None` is null.
    pub(super) fn size(&mut self) -> Read<Option<usize>> {
        let size = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
        Ok(size.checked_sub(1))
    }

    /// Reads a varint of at most nine bytes; the ninth has eight bits.
    pub(super) fn varint(&mut self) -> Read<u64> {
        let mut number = 0;
        for group in 0..9 {
            let byte = self.reader.u8()?;
            let last = group == 8;
            let bits = if last { byte } else { byte & 0x7f };
            number |= u64::from(bits) << (7 * group);
            if last || byte & 0x80 == 0 {
                break;
            }
        }
        Ok(number)
    }

    /// Reads a varint of 32 bits. Kryo never writes more bits.
    pub(super) fn varint32(&mut self) -> Read<u32> {
        u32::try_from(self.varint()?).map_err(|_| self.reader.malformed(NAME))
    }

    /// Reads an int without zigzag, which is used for mostly positive numbers.
    pub(super) fn positive(&mut self) -> Read<i32> {
        self.varint32().map(u32::cast_signed)
    }

    pub(super) fn int(&mut self) -> Read<i32> {
        i32::try_from(value::zigzag(self.varint()?)).map_err(|_| self.reader.malformed(NAME))
    }

    pub(super) fn long(&mut self) -> Read<i64> {
        self.varint().map(value::zigzag)
    }

    pub(super) fn fixed_int(&mut self) -> Read<i32> {
        self.reader.array().map(i32::from_le_bytes)
    }

    pub(super) fn fixed_long(&mut self) -> Read<i64> {
        self.reader.array().map(i64::from_le_bytes)
    }

    /// Reads a flag-varint of at most five bytes; the first has a flag and six bits.
    pub(super) fn flag_varint(&mut self) -> Read<(bool, usize)> {
        let first = self.reader.u8()?;
        let mut number = u64::from(first & 0x3f);
        let mut more = first & 0x40 != 0;
        for group in 0..4 {
            if !more {
                break;
            }
            let byte = self.reader.u8()?;
            number |= u64::from(byte & 0x7f) << (6 + 7 * group);
            more = byte & 0x80 != 0;
        }
        if more {
            Err(self.reader.malformed(NAME))
        } else {
            Ok((first & 0x80 != 0, usize::try_from(number).unwrap_or(usize::MAX)))
        }
    }

    pub(super) fn string(&mut self) -> Read<Option<String>> {
        if self.reader.peek().is_none_or(|first| first & 0x80 != 0) {
            let (_, length) = self.flag_varint()?;
            return match length.checked_sub(1) {
                None => Ok(None),
                Some(length) => value::units(&mut self.reader, length).map(Some),
            };
        }
        let rest = self.reader.rest();
        let length = rest.iter().position(|byte| byte & 0x80 != 0).map_or(rest.len() + 1, |last| last + 1);
        let text = self.reader.take(length)?;
        let text: Vec<u8> = text.iter().map(|byte| byte & 0x7f).collect();
        self.reader.pay_for_text(&text)?;
        Ok(Some(String::from_utf8(text).unwrap_or_default()))
    }

    /// Reads text that is never null.
    pub(super) fn text(&mut self) -> Read<String> {
        self.string()?.ok_or_else(|| self.reader.malformed(NAME))
    }
}
