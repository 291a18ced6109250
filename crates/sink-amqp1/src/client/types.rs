//! The types of AMQP 1.0: values taken out of a buffer, lists put at the end of one. Pure.
//!
//! Nothing of the peer is believed to be small: every value is within its frame, and a list has a limit. Nothing is read by
//! recursion; what nobody asks for stays bytes.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Fields of a list, and symbols of an array, that are looked at, at most.
const MOST: usize = 64;

/// The peer does not speak the protocol; the text says where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotAmqp(pub(super) &'static str);

const CUT: NotAmqp = NotAmqp("a value that is longer than its frame");

/// A value: its descriptor, its constructor, and the bytes behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WireValue {
    /// The number of a described type; the largest for one with a name.
    pub(super) descriptor: Option<u64>,
    code: u8,
    bytes: Bytes,
}

impl WireValue {
    pub(super) fn take(from: &mut Bytes) -> Result<WireValue, NotAmqp> {
        if from.first() != Some(&0) {
            return plain(from);
        }
        from.advance(1);
        let descriptor = plain(from)?.number().unwrap_or(u64::MAX);
        Ok(WireValue { descriptor: Some(descriptor), ..plain(from)? })
    }

    /// Returns the value of an unsigned number of any width.
    pub(super) fn number(&self) -> Option<u64> {
        match self.code {
            0x43 | 0x44 => Some(0),
            0x50 | 0x52 | 0x53 | 0x60 | 0x70 | 0x80 => {
                Some(self.bytes.iter().fold(0, |number, byte| (number << 8) | u64::from(*byte)))
            }
            _ => None,
        }
    }

    /// Returns the value of a number of 32 bits.
    pub(super) fn uint(&self) -> Option<u32> {
        self.number().and_then(|number| u32::try_from(number).ok())
    }

    /// Returns the value of a boolean.
    pub(super) fn flag(&self) -> Option<bool> {
        match (self.code, self.bytes.first()) {
            (0x41, _) => Some(true),
            (0x42, _) => Some(false),
            (0x56, Some(byte)) => Some(*byte != 0),
            _ => None,
        }
    }

    /// Returns the text of a string or a symbol.
    pub(super) fn text(&self) -> Option<String> {
        matches!(self.code, 0xa1 | 0xa3 | 0xb1 | 0xb3).then(|| String::from_utf8_lossy(&self.bytes).into_owned())
    }

    pub(super) fn is_null(&self) -> bool {
        self.code == 0x40
    }

    pub(super) fn fields(&self) -> Result<WireFields, NotAmqp> {
        let mut bytes = self.bytes.clone();
        let count = match self.code {
            0x45 => 0,
            0xc0 if !bytes.is_empty() => usize::from(bytes.get_u8()),
            0xd0 if bytes.len() >= 4 => bytes.get_u32() as usize,
            _ => return Err(NotAmqp("a value that is no list")),
        };
        if count > MOST {
            return Err(NotAmqp("a list with too many fields"));
        }
        (0..count).map(|_| WireValue::take(&mut bytes)).collect::<Result<Vec<_>, _>>().map(WireFields)
    }

    /// Returns the text under this key of a map.
    pub(super) fn entry(&self, key: &str) -> Option<String> {
        let mut bytes = self.bytes.clone();
        let count = match self.code {
            0xc1 => usize::from(bytes.try_get_u8().ok()?),
            0xd1 => bytes.try_get_u32().ok()? as usize,
            _ => return None,
        };
        for _ in 0..count.min(MOST) / 2 {
            let name = WireValue::take(&mut bytes).ok()?;
            let value = WireValue::take(&mut bytes).ok()?;
            if name.text().as_deref() == Some(key) {
                return value.text();
            }
        }
        None
    }

    /// Returns the symbols of an array, or the only one.
    pub(super) fn symbols(&self) -> Vec<String> {
        let mut bytes = self.bytes.clone();
        let count = match self.code {
            0xa3 | 0xb3 => return self.text().into_iter().collect(),
            0xe0 if !bytes.is_empty() => usize::from(bytes.get_u8()),
            0xf0 if bytes.len() >= 4 => bytes.get_u32() as usize,
            _ => return Vec::new(),
        };
        let Some(code) = bytes.first().copied().filter(|code| matches!(code, 0xa3 | 0xb3)) else { return Vec::new() };
        bytes.advance(1);
        let symbol = |_| body(code, &mut bytes).ok().map(|text| String::from_utf8_lossy(&text).into_owned());
        (0..count.min(MOST)).map_while(symbol).collect()
    }
}

/// The fields of a list, by their places; those that are missing at the end are null.
#[derive(Debug)]
pub(super) struct WireFields(Vec<WireValue>);

impl WireFields {
    /// Returns the field at this place, unless it is null.
    pub(super) fn get(&self, place: usize) -> Option<&WireValue> {
        self.0.get(place).filter(|value| !value.is_null())
    }

    /// Returns the number of 32 bits at this place.
    pub(super) fn uint(&self, place: usize) -> Option<u32> {
        self.get(place).and_then(WireValue::uint)
    }

    /// Returns whether the truth at this place is there, and true.
    pub(super) fn flag(&self, place: usize) -> bool {
        self.get(place).and_then(WireValue::flag).unwrap_or(false)
    }
}

fn plain(from: &mut Bytes) -> Result<WireValue, NotAmqp> {
    let code = *from.first().ok_or(CUT)?;
    from.advance(1);
    Ok(WireValue { descriptor: None, code, bytes: body(code, from)? })
}

/// Takes the bytes behind a constructor, whose upper half says how many they are.
fn body(code: u8, from: &mut Bytes) -> Result<Bytes, NotAmqp> {
    let length = match code >> 4 {
        4 => 0,
        5 => 1,
        6 => 2,
        7 => 4,
        8 => 8,
        9 => 16,
        0xa | 0xc | 0xe => usize::from(from.try_get_u8().map_err(|_| CUT)?),
        0xb | 0xd | 0xf => from.try_get_u32().map_err(|_| CUT)? as usize,
        _ => return Err(NotAmqp("a value of no known type")),
    };
    if length > from.len() {
        return Err(CUT);
    }
    Ok(from.split_to(length))
}

/// Puts the constructor of a described type at the end.
pub(super) fn describe(out: &mut BytesMut, descriptor: u8) {
    out.put_slice(&[0x00, 0x53, descriptor]);
}

/// Puts a text at the end, as `codes` say: the constructor of a short one, and that of a long one.
fn put_text(out: &mut BytesMut, text: &[u8], (short, long): (u8, u8)) {
    match u8::try_from(text.len()) {
        Ok(length) => out.put_slice(&[short, length]),
        Err(_) => {
            out.put_u8(long);
            out.put_u32(text.len() as u32);
        }
    }
    out.put_slice(text);
}

/// A list or a map, while it is put at the end of a buffer.
pub(super) struct WireWriter<'a> {
    out: &'a mut BytesMut,
    begin: usize,
    count: u32,
}

/// Puts a described list at the end.
pub(super) fn list(out: &mut BytesMut, descriptor: u8, fields: impl FnOnce(&mut WireWriter<'_>)) {
    describe(out, descriptor);
    compound(out, 0xd0, fields);
}

/// Puts a described map at the end: its keys and values are fields in turn.
pub(super) fn map(out: &mut BytesMut, descriptor: u8, fields: impl FnOnce(&mut WireWriter<'_>)) {
    describe(out, descriptor);
    compound(out, 0xd1, fields);
}

fn compound(out: &mut BytesMut, code: u8, fields: impl FnOnce(&mut WireWriter<'_>)) {
    out.put_u8(code);
    let begin = out.len();
    out.put_u64(0);
    let mut writer = WireWriter { out, begin, count: 0 };
    fields(&mut writer);
    let WireWriter { out, begin, count } = writer;
    let size = (out.len() - begin - 4) as u32;
    out[begin..begin + 4].copy_from_slice(&size.to_be_bytes());
    out[begin + 4..begin + 8].copy_from_slice(&count.to_be_bytes());
}

impl WireWriter<'_> {
    fn next(&mut self) -> &mut BytesMut {
        self.count += 1;
        self.out
    }

    /// Writes an absent field.
    pub(super) fn null(&mut self) -> &mut Self {
        self.next().put_u8(0x40);
        self
    }

    /// Writes absent fields.
    pub(super) fn nulls(&mut self, count: usize) -> &mut Self {
        (0..count).fold(self, |writer, _| writer.null())
    }

    /// Writes a boolean.
    pub(super) fn flag(&mut self, flag: bool) -> &mut Self {
        self.next().put_u8(if flag { 0x41 } else { 0x42 });
        self
    }

    /// Writes a number of 8 bits.
    pub(super) fn ubyte(&mut self, number: u8) -> &mut Self {
        self.next().put_slice(&[0x50, number]);
        self
    }

    /// Writes a number of 16 bits.
    pub(super) fn ushort(&mut self, number: u16) -> &mut Self {
        let out = self.next();
        out.put_u8(0x60);
        out.put_u16(number);
        self
    }

    /// Writes a number of 32 bits.
    pub(super) fn uint(&mut self, number: u32) -> &mut Self {
        let out = self.next();
        match u8::try_from(number) {
            Ok(number) => out.put_slice(&[0x52, number]),
            Err(_) => {
                out.put_u8(0x70);
                out.put_u32(number);
            }
        }
        self
    }

    /// Writes milliseconds since the epoch.
    pub(super) fn timestamp(&mut self, ms: i64) -> &mut Self {
        let out = self.next();
        out.put_u8(0x83);
        out.put_i64(ms);
        self
    }

    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        put_text(self.next(), text.as_bytes(), (0xa1, 0xb1));
        self
    }

    /// Writes a word of the protocol.
    pub(super) fn symbol(&mut self, text: &str) -> &mut Self {
        put_text(self.next(), text.as_bytes(), (0xa3, 0xb3));
        self
    }

    pub(super) fn binary(&mut self, bytes: &[u8]) -> &mut Self {
        put_text(self.next(), bytes, (0xa0, 0xb0));
        self
    }

    pub(super) fn list(&mut self, descriptor: u8, fields: impl FnOnce(&mut WireWriter<'_>)) -> &mut Self {
        list(self.next(), descriptor, fields);
        self
    }
}

/// Fields that only brokers write.
#[cfg(test)]
impl WireWriter<'_> {
    pub(super) fn map(&mut self, fields: impl FnOnce(&mut WireWriter<'_>)) -> &mut Self {
        compound(self.next(), 0xd1, fields);
        self
    }

    /// Writes words of the protocol.
    pub(super) fn symbols(&mut self, symbols: &[&str]) -> &mut Self {
        let out = self.next();
        out.put_u8(0xf0);
        out.put_u32(symbols.iter().map(|symbol| symbol.len() as u32 + 4).sum::<u32>() + 5);
        out.put_u32(symbols.len() as u32);
        out.put_u8(0xb3);
        for symbol in symbols {
            out.put_u32(symbol.len() as u32);
            out.put_slice(symbol.as_bytes());
        }
        self
    }
}

#[cfg(test)]
#[path = "types_tests.rs"]
mod tests;
