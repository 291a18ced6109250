//! Codec `smile`: Jackson's binary JSON, as Redisson's `SmileJacksonCodec` writes it.
//!
//! Format: <https://github.com/FasterXML/smile-format-specification>. Four bytes of header, `3a 29 0a` and flags; then
//! one value. Field names, and short texts if a flag says so, are numbered and may be referred to.

use serde_json::Value;

use super::error::DecodeProblem;
use super::reader::{Read, Reader};
use super::value::{self, Item};

/// The header of every payload, without the flags.
pub(super) const MAGIC: &[u8] = b":)\n";

const NAME: &str = "Smile";
const FLAG_SHARED_TEXTS: u8 = 0x02;
/// Maximum number of shared texts; after it the numbers start at zero again.
const MOST_SHARED: usize = 1024;
const END_OF_TEXT: u8 = 0xfc;
const END_OF_CONTENT: u8 = 0xff;

pub(super) fn decode(payload: &[u8], budget: usize) -> Read<Item> {
    let mut reader = Reader::new(payload, budget);
    let header = reader.array::<4>()?;
    if !header.starts_with(MAGIC) || header[3] >> 4 != 0 {
        return Err(reader.malformed(NAME));
    }
    let texts = (header[3] & FLAG_SHARED_TEXTS != 0).then(Vec::new);
    let mut smile = Smile { reader, names: Vec::new(), texts };
    let item = smile.value()?;
    if smile.reader.rest() != [END_OF_CONTENT] {
        smile.reader.end()?;
    }
    Ok(item)
}

struct Smile<'a> {
    reader: Reader<'a>,
    names: Vec<String>,
    texts: Option<Vec<String>>,
}

impl Smile<'_> {
    fn value(&mut self) -> Read<Item> {
        let token = self.reader.u8()?;
        self.reader.pay()?;
        Ok(match token {
            0x01..=0x1f => self.text(usize::from(token) - 1)?,
            0x20 => String::new().into(),
            0x21 => Value::Null.into(),
            0x22 => false.into(),
            0x23 => true.into(),
            // 32 and 64 bits are the same in JSON.
            0x24 | 0x25 => self.signed()?.into(),
            0x26 => {
                let bytes = self.sevens()?;
                Item::from_number(value::signed_integer(&mut self.reader, &bytes)?)
            }
            0x28 => value::float(f32::from_bits(u32::try_from(self.bits(5)?).map_err(|_| self.malformed())?)),
            0x29 => value::double(f64::from_bits(self.bits(10)?)),
            0x2a => {
                let scale = self.signed()?;
                let bytes = self.sevens()?;
                let unscaled = value::signed_integer(&mut self.reader, &bytes)?;
                Item::from_number(value::decimal(&mut self.reader, &unscaled, scale)?)
            }
            0x40..=0x5f => self.short(usize::from(token & 0x1f) + 1)?,
            0x60..=0x7f => self.short(usize::from(token & 0x1f) + 33)?,
            0x80..=0x9f => self.short(usize::from(token & 0x1f) + 2)?,
            0xa0..=0xbf => self.short(usize::from(token & 0x1f) + 34)?,
            0xc0..=0xdf => value::zigzag(u64::from(token & 0x1f)).into(),
            0xe0 | 0xe4 => self.long()?.into(),
            0xe8 => Item::Bytes(self.sevens()?),
            0xec..=0xef => {
                let low = self.reader.u8()?;
                self.text(usize::from(token & 0x03) << 8 | usize::from(low))?
            }
            0xf8 => self.nested(Self::list)?,
            0xfa => self.nested(Self::object)?,
            0xfd => {
                let length = self.length()?;
                value::bytes(&mut self.reader, length)?
            }
            _ => return Err(self.malformed()),
        })
    }

    fn malformed(&self) -> super::error::Refusal {
        self.reader.malformed(NAME)
    }

    fn nested(&mut self, inner: fn(&mut Self) -> Read<Item>) -> Read<Item> {
        self.reader.enter()?;
        let item = inner(self);
        self.reader.leave();
        item
    }

    fn list(&mut self) -> Read<Item> {
        let mut items = Vec::new();
        while self.reader.peek() != Some(0xf9) {
            items.push(self.value()?.into_json());
        }
        self.reader.u8()?;
        Ok(Value::Array(items).into())
    }

    fn object(&mut self) -> Read<Item> {
        let mut entries = Vec::new();
        while let Some(name) = self.name()? {
            entries.push((Value::String(name), self.value()?.into_json()));
        }
        Ok(value::map(entries).into())
    }

    /// Reads the name of a field; `None` at the end of the object.
    fn name(&mut self) -> Read<Option<String>> {
        let token = self.reader.u8()?;
        let length = match token {
            0xfb => return Ok(None),
            0x20 => return Ok(Some(String::new())),
            0x30..=0x33 => {
                let low = self.reader.u8()?;
                return self.name_before(usize::from(token & 0x03) << 8 | usize::from(low)).map(Some);
            }
            0x34 => return self.long().map(Some),
            0x40..=0x7f => return self.name_before(usize::from(token & 0x3f)).map(Some),
            0x80..=0xbf => usize::from(token & 0x3f) + 1,
            0xc0..=0xf7 => usize::from(token & 0x3f) + 2,
            _ => return Err(self.malformed()),
        };
        let name = value::utf8(&mut self.reader, length)?;
        share(&mut self.names, &name);
        Ok(Some(name))
    }

    fn name_before(&mut self, number: usize) -> Read<String> {
        let name = self.names.get(number).ok_or_else(|| self.malformed())?.clone();
        self.reader.pay_for(name.len())?;
        Ok(name)
    }

    /// Reads a text that may be referred to later.
    fn short(&mut self, length: usize) -> Read<Item> {
        let text = value::utf8(&mut self.reader, length)?;
        if let Some(texts) = &mut self.texts {
            share(texts, &text);
        }
        Ok(text.into())
    }

    /// Returns a text that was read before.
    fn text(&mut self, number: usize) -> Read<Item> {
        let text = self.texts.as_ref().and_then(|texts| texts.get(number));
        let text = text.ok_or_else(|| self.malformed())?.clone();
        self.reader.pay_for_text(text.as_bytes())?;
        Ok(text.into())
    }

    /// Reads text up to its end mark, a byte that UTF-8 does not contain.
    fn long(&mut self) -> Read<String> {
        let end = self.reader.rest().iter().position(|&byte| byte == END_OF_TEXT);
        let length = end.unwrap_or(self.reader.rest().len());
        let text = value::utf8(&mut self.reader, length)?;
        self.reader.u8()?;
        Ok(text)
    }

    /// Reads a varint: groups of seven bits, the highest first; the last has six bits, and the top bit set.
    fn varint(&mut self) -> Read<u64> {
        let mut number: u64 = 0;
        for _ in 0..10 {
            let byte = self.reader.u8()?;
            if byte & 0x80 != 0 {
                return Ok(number << 6 | u64::from(byte & 0x3f));
            }
            number = number << 7 | u64::from(byte);
        }
        Err(self.malformed())
    }

    fn signed(&mut self) -> Read<i64> {
        self.varint().map(value::zigzag)
    }

    fn length(&mut self) -> Read<usize> {
        self.varint().map(|length| usize::try_from(length).unwrap_or(usize::MAX))
    }

    /// Reads a number of this many groups of seven bits.
    fn bits(&mut self, groups: usize) -> Read<u64> {
        let groups = self.reader.take(groups)?;
        Ok(groups.iter().fold(0, |number, group| number << 7 | u64::from(group & 0x7f)))
    }

    /// Reads bytes packed as seven bits a byte; the last group has the remaining bits in its low bits.
    fn sevens(&mut self) -> Read<Vec<u8>> {
        let length = self.length()?;
        let groups = length.checked_mul(8).ok_or_else(|| self.reader.refuse(DecodeProblem::TooLarge))?.div_ceil(7);
        let taken = self.reader.take(groups)?;
        self.reader.pay_for(length / 3 * 4 + 4)?;
        let mut bytes = Vec::with_capacity(length);
        let mut held = 0u32;
        let mut bits = 0;
        for (number, group) in taken.iter().enumerate() {
            let left = length * 8 - number * 7;
            let size = left.min(7);
            held = held << size | u32::from(group & 0x7f);
            bits += size;
            if bits >= 8 {
                bits -= 8;
                bytes.push((held >> bits & 0xff) as u8);
            }
        }
        Ok(bytes)
    }
}

fn share(shared: &mut Vec<String>, text: &str) {
    if shared.len() == MOST_SHARED {
        shared.clear();
    }
    shared.push(text.to_owned());
}
