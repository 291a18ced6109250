//! Codecs `kryo5` and `kryo5_refs`: what Redisson's `Kryo5Codec` writes, the default since 3.19.0.
//!
//! ```text
//! value       class, then its content
//! class       varint: 0 null   1 by name   2.. registered: Integer String Float Boolean Byte Character Short Long Double
//! by name     varint number of the name; the name itself as a string where the number is new
//! string      80 null   81 empty   ASCII with the top bit set in its last byte (2 to 32 characters)
//!             else flag-varint of characters + 1, then UTF-16 units of one to three bytes
//! byte[]      varint length + 1, then the bytes
//! list        flag-varint size + 1; with the flag one class for all, then whether nulls are among them; elements
//! map         varint size + 1, then keys and values in turn
//! ```
//!
//! Varints are little-endian groups of seven bits; those of Integer and Long are zigzag. A flag-varint has its flag in
//! the top bit of the first byte, and six bits of the number. With references on, everything but boxed numbers has a
//! varint in front of its content: 1 for a new object, else 2 + the number of one that was written before.
//!
//! The fields of an object have neither names nor, where the class fixes them, types: only its class can read it. So
//! strings, numbers, booleans, byte arrays, and the lists and maps of the JDK with these in them are read; any other
//! class is named and refused.

mod class;

use bytes::Bytes;
use serde_json::Value;

use self::class::Class;
use super::Answer;
use super::error::{ClassName, DecodeProblem};
use super::reader::{Read, Reader};
use super::value::{self, Item};

/// Whether the codec was made with `useReferences`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum References {
    Off,
    On,
}

/// Reads the payload.
pub(super) fn decode(payload: &Bytes, budget: usize, references: References) -> Answer {
    let mut kryo = Kryo { reader: Reader::new(payload, budget), references, classes: Vec::new(), written: Vec::new() };
    let item = kryo.value()?;
    kryo.reader.end()?;
    Ok(item.into_decoded())
}

struct Kryo<'a> {
    reader: Reader<'a>,
    references: References,
    /// Classes that were named so far.
    classes: Vec<Class>,
    /// What references can point at, in the order of its beginning; none while it is read.
    written: Vec<Option<Item>>,
}

impl Kryo<'_> {
    /// A value behind its class.
    fn value(&mut self) -> Read<Item> {
        match self.class()? {
            None => self.null(),
            Some(class) => self.of(class),
        }
    }

    fn null(&mut self) -> Read<Item> {
        self.reader.pay()?;
        Ok(Value::Null.into())
    }

    fn class(&mut self) -> Read<Option<Class>> {
        let start = self.reader.at();
        let number = match self.varint()? {
            0 => return Ok(None),
            1 => return self.named_class(start).map(Some),
            number => number - 2,
        };
        Class::registered(number).map(Some).ok_or_else(|| {
            let what = "an object of a class that only the application has registered";
            self.reader.refuse_at(start, DecodeProblem::Unsupported(what))
        })
    }

    fn named_class(&mut self, start: usize) -> Read<Class> {
        let number = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
        if number > self.classes.len() {
            return Err(self.reader.malformed("Kryo 5"));
        }
        if let Some(&class) = self.classes.get(number) {
            return Ok(class);
        }
        let name = self.string()?.unwrap_or_default();
        let class = Class::named(&name);
        let class = class.ok_or_else(|| self.reader.refuse_at(start, DecodeProblem::Opaque(ClassName::of(&name))))?;
        self.classes.push(class);
        Ok(class)
    }

    /// The content of a value that is not null.
    fn of(&mut self, class: Class) -> Read<Item> {
        if self.references == References::Off || class.is_boxed() {
            return self.content(class);
        }
        match self.varint()? {
            0 => self.null(),
            1 => self.referable(class),
            number => self.written_before(number - 2),
        }
    }

    /// The content of a value that others may refer to.
    fn referable(&mut self, class: Class) -> Read<Item> {
        let place = self.written.len();
        self.written.push(None);
        let item = self.content(class)?;
        value::pay_again(&mut self.reader, &item)?;
        self.written[place] = Some(item.clone());
        Ok(item)
    }

    fn written_before(&mut self, number: u64) -> Read<Item> {
        let written = usize::try_from(number).ok().and_then(|number| self.written.get(number));
        match written {
            Some(Some(item)) => {
                let item = item.clone();
                value::pay_again(&mut self.reader, &item)?;
                Ok(item)
            }
            Some(None) => Err(self.reader.refuse(DecodeProblem::Unsupported("an object that contains itself"))),
            None => Err(self.reader.malformed("Kryo 5")),
        }
    }

    fn content(&mut self, class: Class) -> Read<Item> {
        self.reader.pay()?;
        Ok(match class {
            Class::Integer => {
                // More bits than an Integer has are nothing that Kryo writes.
                let number =
                    i32::try_from(value::zigzag(self.varint()?)).map_err(|_| self.reader.malformed("Kryo 5"))?;
                number.into()
            }
            Class::Long => value::zigzag(self.varint()?).into(),
            Class::Byte => i8::from_le_bytes(self.reader.array()?).into(),
            Class::Short => i16::from_le_bytes(self.reader.array()?).into(),
            Class::Character => {
                let unit = u16::from_le_bytes(self.reader.array()?);
                value::letter(&self.reader, unit)?
            }
            Class::Float => value::float(f32::from_le_bytes(self.reader.array()?)),
            Class::Double => value::double(f64::from_le_bytes(self.reader.array()?)),
            Class::Boolean => self.flag()?.into(),
            Class::Text => self.string()?.into(),
            Class::Bytes => match self.size()? {
                None => Value::Null.into(),
                Some(length) => value::bytes(&mut self.reader, length)?,
            },
            Class::List | Class::ImmutableList | Class::SortedList => self.nested(|kryo| kryo.list(class))?,
            Class::Map | Class::SortedMap => self.nested(|kryo| kryo.map(class))?,
            Class::EmptyList => Value::Array(Vec::new()).into(),
            Class::EmptyMap => value::map(Vec::new()).into(),
        })
    }

    fn nested(&mut self, inner: impl FnOnce(&mut Self) -> Read<Item>) -> Read<Item> {
        self.reader.enter()?;
        let item = inner(self);
        self.reader.leave();
        item
    }

    fn list(&mut self, class: Class) -> Read<Item> {
        let (same, size) = self.flag_varint()?;
        let Some(size) = size.checked_sub(1) else { return Ok(Value::Null.into()) };
        if class == Class::SortedList {
            self.natural_order()?;
        }
        let mut items = Vec::new();
        if !same || size == 0 {
            for _ in 0..size {
                items.push(self.value()?.into_json());
            }
            return Ok(Value::Array(items).into());
        }
        let immutable = class == Class::ImmutableList;
        let Some(class) = self.class()? else {
            for _ in 0..size {
                items.push(self.null()?.into_json());
            }
            return Ok(Value::Array(items).into());
        };
        let nulls = !immutable && self.flag()?;
        for _ in 0..size {
            items.push(self.element(class, nulls)?.into_json());
        }
        Ok(Value::Array(items).into())
    }

    /// An element of a known class, which may be null.
    fn element(&mut self, class: Class, nulls: bool) -> Read<Item> {
        let marked = nulls && !class.has_null();
        match marked && !self.flag()? {
            true => self.null(),
            false => self.of(class),
        }
    }

    fn map(&mut self, class: Class) -> Read<Item> {
        let Some(size) = self.size()? else { return Ok(Value::Null.into()) };
        if class == Class::SortedMap {
            self.natural_order()?;
        }
        let mut entries = Vec::new();
        for _ in 0..size {
            let key = self.value()?.into_json();
            entries.push((key, self.value()?.into_json()));
        }
        Ok(value::map(entries).into())
    }

    /// Where a sorted collection has its comparator, there is none.
    fn natural_order(&mut self) -> Read<()> {
        match self.class()? {
            None => Ok(()),
            Some(_) => Err(self.reader.malformed("Kryo 5")),
        }
    }

    fn flag(&mut self) -> Read<bool> {
        match self.reader.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.reader.malformed("Kryo 5")),
        }
    }

    /// A length that is stored plus one; none is null.
    fn size(&mut self) -> Read<Option<usize>> {
        let size = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
        Ok(size.checked_sub(1))
    }

    /// At most nine bytes; the ninth has eight bits.
    fn varint(&mut self) -> Read<u64> {
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

    /// At most five bytes; the first has a flag and six bits.
    fn flag_varint(&mut self) -> Read<(bool, usize)> {
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
        match more {
            true => Err(self.reader.malformed("Kryo 5")),
            false => Ok((first & 0x80 != 0, usize::try_from(number).unwrap_or(usize::MAX))),
        }
    }

    fn string(&mut self) -> Read<Option<String>> {
        if self.reader.peek().is_none_or(|first| first & 0x80 != 0) {
            let (_, length) = self.flag_varint()?;
            return match length.checked_sub(1) {
                None => Ok(None),
                Some(length) => value::units(&mut self.reader, length).map(Some),
            };
        }
        let rest = self.reader.rest();
        let length = rest.iter().position(|byte| byte & 0x80 != 0).map_or(rest.len() + 1, |last| last + 1);
        let mut text = self.reader.take(length)?.to_vec();
        self.reader.pay_for(length)?;
        for byte in &mut text {
            *byte &= 0x7f;
        }
        Ok(Some(String::from_utf8_lossy(&text).into_owned()))
    }
}
