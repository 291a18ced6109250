//! Codec `marshalling`: JBoss Marshalling with the protocol River, as Redisson's `MarshallingCodec` writes it, the
//! default from 3.13.0 to 3.18.1.
//!
//! ```text
//! payload     04, the version; then one value, big-endian throughout
//! text        3d empty   3e u8 (0 is 256)   3f u16 (0 is 65536)   40 i32: so many UTF-16 units of one to three bytes
//! number      49 Byte  4a Short  4b Integer  4c Long  4d Character  4e Float  4f Double  50 true  51 false  01 null
//! array       41 empty   42 u8   43 u16   44 i32, then the class of the elements, then the elements
//! list        52 empty   53 u8   54 u16   55 i32, then the kind of collection, then its elements
//! object      04, its class, then for each class from the topmost down its fields and what it wrote with its own method
//! class       09 or 38 (has a write method): name, u64, i32 fields (name, class, u8), the class above
//! block       32 u8   33 u16   34 i32 bytes; 35 ends what a class wrote with its own method
//! again       39 u8   3a u16 counted back, 02 i32 counted from the front: a value; 3b, 3c, 06: a class
//! ```
//!
//! Constants from `org.jboss.marshalling.river.Protocol` of JBoss Marshalling 2.0.

mod class;
mod classes;

use bytes::Bytes;
use serde_json::Value;

use self::class::Class;
use super::error::{DecodeProblem, Refusal};
use super::objects::{self, Part, Written};
use super::payload::Answer;
use super::reader::{Read, Reader};
use super::value::{self, Item};
use crate::coding::JavaTypes;

/// The version that every payload starts with.
pub(super) const VERSION: u8 = 4;

const NAME: &str = "JBoss Marshalling";

pub(super) fn decode(payload: &Bytes, budget: usize, types: JavaTypes) -> Answer {
    let mut reader = Reader::new(payload, budget);
    if reader.u8()? != VERSION {
        return Err(reader.malformed(NAME));
    }
    let mut river = River { reader, types, instances: Vec::new(), classes: Vec::new() };
    let item = river.value()?;
    river.reader.end()?;
    Ok(item.into_decoded())
}

struct River<'a> {
    reader: Reader<'a>,
    types: JavaTypes,
    /// The values that can be referred to; `None` while being read.
    instances: Vec<Option<Item>>,
    /// The classes that can be referred to; `None` while being read.
    classes: Vec<Option<Class>>,
}

impl River<'_> {
    fn value(&mut self) -> Read<Item> {
        let start = self.reader.at();
        self.reader.pay()?;
        let code = self.reader.u8()?;
        Ok(match code {
            // The order of a sorted collection is not shown.
            0x01 | 0x79 => Value::Null.into(),
            0x02 => {
                let place = self.reader.count()?;
                self.instance(Some(place))?
            }
            0x39 => {
                let back = 0x100 - usize::from(self.reader.u8()?);
                self.instance(self.instances.len().checked_sub(back))?
            }
            0x3a => {
                let back = 0x1_0000 - usize::from(self.reader.u16()?);
                self.instance(self.instances.len().checked_sub(back))?
            }
            0x04 => self.nested(|river| river.object(start))?,
            // The empty text is never referred to.
            0x3d => String::new().into(),
            0x3e..=0x40 => {
                let units = self.count(code - 0x3d)?;
                let place = self.open();
                let text = value::units(&mut self.reader, units)?;
                self.close(place, text.into())?
            }
            0x41..=0x44 => {
                let count = self.count(code - 0x41)?;
                self.nested(|river| river.array(count))?
            }
            0x49 => self.reader.u8()?.cast_signed().into(),
            0x4a => self.reader.u16()?.cast_signed().into(),
            0x4b => self.reader.i32()?.into(),
            0x4c => self.reader.i64()?.into(),
            0x4d => {
                let unit = self.reader.u16()?;
                value::letter(&self.reader, unit)?
            }
            0x4e => value::float(f32::from_bits(self.reader.u32()?)),
            0x4f => value::double(f64::from_bits(self.reader.u64()?)),
            0x50 => true.into(),
            0x51 => false.into(),
            0x52..=0x55 => {
                let count = self.count(code - 0x52)?;
                self.nested(|river| river.collection(count))?
            }
            0x5c | 0x61 => self.nested(|river| river.elements(1))?,
            0x5d | 0x62 => Value::Array(Vec::new()).into(),
            0x68 => self.nested(|river| river.entries(1))?,
            0x69 => value::map(Vec::new()).into(),
            0x7c..=0x82 => self.nested(Self::view)?,
            _ if let Some(name) = class::known(code) => {
                self.reader.pay_for(name.len())?;
                name.into()
            }
            _ => return Err(self.unread(code)),
        })
    }

    fn malformed(&self) -> Refusal {
        self.reader.malformed(NAME)
    }

    /// Returns the refusal of a code: unsupported if it exists in the protocol, else malformed.
    fn unread(&self, code: u8) -> Refusal {
        match code {
            0x03 | 0x05 | 0x07..=0x82 => self.reader.refuse(DecodeProblem::Unsupported("a kind of object")),
            _ => self.malformed(),
        }
    }

    fn nested(&mut self, inner: impl FnOnce(&mut Self) -> Read<Item>) -> Read<Item> {
        self.reader.enter()?;
        let item = inner(self);
        self.reader.leave();
        item
    }

    fn open(&mut self) -> usize {
        self.instances.push(None);
        self.instances.len() - 1
    }

    /// Keeps a copy for references, and pays for it.
    fn close(&mut self, place: usize, item: Item) -> Read<Item> {
        value::pay_again(&mut self.reader, &item)?;
        self.instances[place] = Some(item.clone());
        Ok(item)
    }

    fn instance(&mut self, place: Option<usize>) -> Read<Item> {
        let item = match place.and_then(|place| self.instances.get(place)) {
            Some(Some(item)) => item.clone(),
            Some(None) => return Err(self.reader.refuse(DecodeProblem::Unsupported("an object that contains itself"))),
            None => return Err(self.malformed()),
        };
        value::pay_again(&mut self.reader, &item)?;
        Ok(item)
    }

    /// Reads a count whose length follows from the code. Zero in a short form means one more than its maximum.
    fn count(&mut self, form: u8) -> Read<usize> {
        let or = |count: usize, zero| if count == 0 { zero } else { count };
        match form {
            0 => Ok(0),
            1 => self.reader.u8().map(|count| or(count.into(), 0x100)),
            2 => self.reader.u16().map(|count| or(count.into(), 0x1_0000)),
            _ => self.reader.count(),
        }
    }

    fn array(&mut self, count: usize) -> Read<Item> {
        let place = self.open();
        let item = match self.reader.u8()? {
            0x21 => value::bytes(&mut self.reader, count)?,
            0x20 => self.flags(count)?,
            kind @ 0x22..=0x27 => {
                let mut items = Vec::new();
                for _ in 0..count {
                    items.push(self.primitive(kind)?.into_json());
                }
                Value::Array(items).into()
            }
            code => {
                self.class(code)?;
                let mut items = Vec::new();
                for _ in 0..count {
                    items.push(self.value()?.into_json());
                }
                Value::Array(items).into()
            }
        };
        self.close(place, item)
    }

    /// Reads an array of booleans, eight to a byte, the lowest bit first.
    fn flags(&mut self, count: usize) -> Read<Item> {
        let bytes = self.reader.take(count.div_ceil(8))?;
        let mut flags = Vec::new();
        for at in 0..count {
            self.reader.pay()?;
            flags.push(Value::Bool(bytes[at / 8] >> (at % 8) & 1 != 0));
        }
        Ok(Value::Array(flags).into())
    }

    /// Reads a field or an element of a primitive type.
    fn primitive(&mut self, kind: u8) -> Read<Item> {
        self.reader.pay()?;
        let reader = &mut self.reader;
        Ok(match kind {
            0x20 => (reader.u8()? != 0).into(),
            0x21 => reader.u8()?.cast_signed().into(),
            0x22 => reader.u16()?.cast_signed().into(),
            0x23 => reader.i32()?.into(),
            0x24 => reader.i64()?.into(),
            0x25 => {
                let unit = reader.u16()?;
                value::letter(reader, unit)?
            }
            0x26 => value::float(f32::from_bits(reader.u32()?)),
            0x27 => value::double(f64::from_bits(reader.u64()?)),
            _ => return Err(self.malformed()),
        })
    }

    fn collection(&mut self, count: usize) -> Read<Item> {
        match self.reader.u8()? {
            // ArrayList, LinkedList, HashSet, LinkedHashSet; CopyOnWrite..., Vector, Stack, ArrayDeque.
            0x5a | 0x5b | 0x5e | 0x5f | 0x73..=0x76 | 0x78 => self.elements(count),
            // IdentityHashMap, HashMap, Hashtable, LinkedHashMap; ConcurrentHashMap.
            0x63..=0x66 | 0x72 => self.entries(count),
            // TreeSet and TreeMap, with a comparator before them.
            0x60 => self.natural_order().and_then(|()| self.elements(count)),
            0x67 => self.natural_order().and_then(|()| self.entries(count)),
            // EnumSet and EnumMap, with the class of the enum before them.
            0x6a => self.enum_class().and_then(|()| self.elements(count)),
            0x6c => self.enum_class().and_then(|()| self.entries(count)),
            0x7b => self.copies(count),
            code => Err(self.unread(code)),
        }
    }

    fn enum_class(&mut self) -> Read<()> {
        let code = self.reader.u8()?;
        match self.class(code)? {
            Class::Enum => Ok(()),
            _ => Err(self.malformed()),
        }
    }

    /// Reads the result of `Collections.nCopies`; each copy is paid for.
    fn copies(&mut self, count: usize) -> Read<Item> {
        let place = self.open();
        let item = self.value()?;
        let copies = value::copies(&mut self.reader, item, count)?;
        self.close(place, copies)
    }

    /// Reads a collection that wraps another one.
    fn view(&mut self) -> Read<Item> {
        let place = self.open();
        let item = self.value()?;
        self.close(place, item)
    }

    /// Reads the lock of a collection: mostly the collection itself, which has no value yet.
    fn lock(&mut self) -> Read<Item> {
        match self.reader.peek() {
            Some(0x02) => self.reader.array::<5>().map(drop)?,
            Some(0x39) => self.reader.array::<2>().map(drop)?,
            Some(0x3a) => self.reader.array::<3>().map(drop)?,
            _ => return self.value(),
        }
        Ok(Value::Null.into())
    }

    /// Reads the natural order, or its reverse.
    fn natural_order(&mut self) -> Read<()> {
        match self.reader.u8()? {
            0x01 | 0x79 => Ok(()),
            _ => Err(self.reader.refuse(DecodeProblem::Unsupported("a collection with a comparator"))),
        }
    }

    fn elements(&mut self, count: usize) -> Read<Item> {
        let place = self.open();
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(self.value()?.into_json());
        }
        self.close(place, Value::Array(items).into())
    }

    fn entries(&mut self, count: usize) -> Read<Item> {
        let place = self.open();
        let mut entries = Vec::new();
        for _ in 0..count {
            let key = self.value()?.into_json();
            entries.push((key, self.value()?.into_json()));
        }
        self.close(place, Item::Entries(entries))
    }

    fn object(&mut self, start: usize) -> Read<Item> {
        let code = self.reader.u8()?;
        let class = match self.class(code)? {
            Class::Object(class) => class,
            Class::Enum => {
                let name = self.old_name()?;
                let place = self.open();
                return self.close(place, name.into());
            }
            Class::External => {
                let place = self.open();
                let written = self.written()?;
                let item = objects::external(&mut self.reader, written, objects::TextLength::Four)?;
                return self.close(place, item);
            }
            // CopyOnWriteArrayList, and the set that wraps it.
            Class::Simple(0x73) => {
                let place = self.open();
                let items = objects::values(self.written()?);
                return self.close(place, items.into());
            }
            Class::Simple(0x74) => return self.view(),
            Class::Simple(_) | Class::Array => return Err(self.unread(code)),
        };
        let place = self.open();
        let mut classes = vec![class.clone()];
        while let Some(parent) = classes.last().and_then(|class| class.parent.clone()) {
            self.reader.pay()?;
            classes.push(parent);
        }
        let mut parts = Vec::new();
        for class in classes.iter().rev() {
            if class.writes {
                objects::check_self_written(&self.reader, start, &class.name)?;
            }
            let mut fields = Vec::new();
            for (name, kind) in &class.fields {
                let item = match kind {
                    0x20..=0x27 => self.primitive(*kind)?,
                    _ if objects::is_lock(&class.name, name) => self.lock()?,
                    _ => self.value()?,
                };
                self.reader.pay_for(name.len())?;
                fields.push((name.clone(), item));
            }
            let written = if class.writes { self.written()? } else { Vec::new() };
            parts.push(Part { class: class.name.clone(), fields, written });
        }
        let item = objects::value(&mut self.reader, start, parts, self.types)?;
        self.close(place, item)
    }

    /// Reads the data that a class wrote with its own method, up to the end mark.
    fn written(&mut self) -> Read<Vec<Written>> {
        let mut written = Vec::new();
        loop {
            match self.reader.peek() {
                Some(0x35) => {
                    self.reader.u8()?;
                    return Ok(written);
                }
                Some(code @ 0x32..=0x34) => {
                    self.reader.u8()?;
                    let length = self.count(code - 0x31)?;
                    let block = self.reader.take(length)?.to_vec();
                    self.reader.pay()?;
                    self.reader.pay_for(length)?;
                    written.push(Written::Block(block));
                }
                _ => written.push(Written::Value(self.value()?)),
            }
        }
    }
}
