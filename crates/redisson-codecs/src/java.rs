//! Codec `java`: Java serialization, as Redisson's `SerializationCodec` writes it.
//!
//! Format: the Java Object Serialization Specification, chapter 6. A stream describes its classes with their fields, so
//! that objects can be read without them, except for data that a class writes with its own method (see `objects`).
//! Existing parsers build a tree of unbounded size, so that two levels of references can fill any memory.

use std::rc::Rc;

use bytes::Bytes;
use serde_json::Value;

use super::error::DecodeProblem;
use super::objects::{self, Part, Written};
use super::payload::Answer;
use super::reader::{MAX_DEPTH, Read, Reader};
use super::value::{self, Item};
use crate::coding::JavaTypes;

/// The header of every payload: `STREAM_MAGIC` and `STREAM_VERSION`.
pub(super) const MAGIC: &[u8] = b"\xac\xed\x00\x05";

const NAME: &str = "Java serialization";
/// The first handle (`baseWireHandle`).
const FIRST_HANDLE: u32 = 0x7e_0000;

mod token {
    pub(super) const NULL: u8 = 0x70;
    pub(super) const REFERENCE: u8 = 0x71;
    pub(super) const CLASS_DESC: u8 = 0x72;
    pub(super) const OBJECT: u8 = 0x73;
    pub(super) const STRING: u8 = 0x74;
    pub(super) const ARRAY: u8 = 0x75;
    pub(super) const CLASS: u8 = 0x76;
    pub(super) const BLOCK: u8 = 0x77;
    pub(super) const END_BLOCK: u8 = 0x78;
    pub(super) const LONG_BLOCK: u8 = 0x7a;
    pub(super) const LONG_STRING: u8 = 0x7c;
    pub(super) const ENUM: u8 = 0x7e;
}

pub(super) fn decode(payload: &Bytes, budget: usize, types: JavaTypes) -> Answer {
    let mut reader = Reader::new(payload, budget);
    if reader.array::<4>()? != MAGIC {
        return Err(reader.refuse_at(0, DecodeProblem::Malformed(NAME)));
    }
    let mut java = Java { reader, types, handles: Vec::new() };
    let item = java.value()?;
    java.reader.end()?;
    Ok(item.into_decoded())
}

/// The state between two values of one stream: the targets of references.
#[derive(Default)]
pub(super) struct Stream(Vec<Handle>);

/// Reads the next value of a stream inside of another format, after its header.
pub(super) fn embedded(reader: &mut Reader<'_>, stream: &mut Stream, types: JavaTypes) -> Read<Item> {
    let handles = std::mem::take(&mut stream.0);
    let mut java = Java { reader: std::mem::replace(reader, Reader::new(&[], 0)), types, handles };
    let item = java.value();
    *reader = java.reader;
    stream.0 = java.handles;
    item
}

struct Java<'a> {
    reader: Reader<'a>,
    types: JavaTypes,
    /// The targets of references.
    handles: Vec<Handle>,
}

enum Handle {
    Open,
    Class(Rc<Class>),
    Value(Item),
}

/// A class as the stream describes it.
struct Class {
    name: Rc<str>,
    /// Whether it has fields (`SC_SERIALIZABLE`).
    serializable: bool,
    /// Whether the class wrote data with its own method (`SC_WRITE_METHOD`).
    writes: bool,
    /// Whether the class wrote everything itself (`SC_EXTERNALIZABLE`).
    external: bool,
    fields: Vec<Field>,
    parent: Option<Rc<Class>>,
    /// Number of superclasses. Bounded, because a chain is dropped by recursion.
    depth: usize,
}

struct Field {
    name: String,
    /// The first letter of the type: `B C D F I J S Z`, `L` for objects, `[` for arrays.
    kind: u8,
}

impl Java<'_> {
    fn value(&mut self) -> Read<Item> {
        let start = self.reader.at();
        self.reader.pay()?;
        match self.reader.u8()? {
            token::NULL => Ok(Value::Null.into()),
            token::REFERENCE => self.reference(),
            token::STRING => {
                let length = self.reader.u16()?.into();
                self.text(length)
            }
            token::LONG_STRING => {
                let length = usize::try_from(self.reader.u64()?).unwrap_or(usize::MAX);
                self.text(length)
            }
            token::OBJECT => self.nested(|java| java.object(start)),
            token::ARRAY => self.nested(|java| java.array(start)),
            token::ENUM => self.nested(Self::constant),
            token::CLASS => self.nested(Self::class_name),
            _ => Err(self.malformed()),
        }
    }

    fn malformed(&self) -> super::error::Refusal {
        self.reader.malformed(NAME)
    }

    fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        self.reader.enter()?;
        let answer = inner(self);
        self.reader.leave();
        answer
    }

    /// Assigns the next handle to a value that starts here.
    fn open(&mut self) -> usize {
        self.handles.push(Handle::Open);
        self.handles.len() - 1
    }

    /// Keeps a copy for references, and pays for it.
    fn close(&mut self, place: usize, item: Item) -> Read<Item> {
        value::pay_again(&mut self.reader, &item)?;
        self.handles[place] = Handle::Value(item.clone());
        Ok(item)
    }

    fn handle(&mut self) -> Read<&Handle> {
        let number = self.reader.u32()?.checked_sub(FIRST_HANDLE);
        let place = number.and_then(|number| usize::try_from(number).ok());
        place.and_then(|place| self.handles.get(place)).ok_or_else(|| self.reader.malformed(NAME))
    }

    fn reference(&mut self) -> Read<Item> {
        let item = match self.handle()? {
            Handle::Value(item) => item.clone(),
            Handle::Open => {
                return Err(self.reader.refuse(DecodeProblem::Unsupported("an object that contains itself")));
            }
            Handle::Class(_) => return Err(self.malformed()),
        };
        value::pay_again(&mut self.reader, &item)?;
        Ok(item)
    }

    fn text(&mut self, length: usize) -> Read<Item> {
        let place = self.open();
        let text = value::unit_bytes(&mut self.reader, length)?;
        self.close(place, text.into())
    }

    /// Reads a text where only text is allowed: a type, the name of a constant.
    fn plain_text(&mut self) -> Read<String> {
        match self.value()? {
            Item::Json(Value::String(text)) => Ok(text),
            _ => Err(self.malformed()),
        }
    }

    fn name(&mut self) -> Read<String> {
        let length = self.reader.u16()?.into();
        value::unit_bytes(&mut self.reader, length)
    }

    fn class(&mut self) -> Read<Option<Rc<Class>>> {
        match self.reader.u8()? {
            token::NULL => Ok(None),
            token::REFERENCE => match self.handle()? {
                Handle::Class(class) => Ok(Some(class.clone())),
                Handle::Open | Handle::Value(_) => Err(self.malformed()),
            },
            token::CLASS_DESC => self.nested(Self::new_class).map(Some),
            _ => Err(self.reader.refuse(DecodeProblem::Unsupported("a proxy class"))),
        }
    }

    fn new_class(&mut self) -> Read<Rc<Class>> {
        let start = self.reader.at();
        self.reader.pay()?;
        let name = self.name()?;
        let _version = self.reader.u64()?;
        let place = self.open();
        let flags = self.reader.u8()?;
        let writes = flags & 1 != 0;
        let serializable = flags & 2 != 0;
        let externalizable = flags & 4 != 0;
        // Without blocks, only the class knows where its content ends.
        if externalizable && (flags & 8 == 0 || !objects::is_external(&name)) {
            return Err(objects::opaque(&self.reader, start, &name));
        }
        let mut fields = Vec::new();
        for _ in 0..self.reader.u16()? {
            self.reader.pay()?;
            let kind = self.reader.u8()?;
            let name = self.name()?;
            if matches!(kind, b'L' | b'[') {
                self.plain_text()?;
            }
            fields.push(Field { name, kind });
        }
        // Class annotations are empty, except with class loaders of RMI.
        if self.reader.u8()? != token::END_BLOCK {
            return Err(self.reader.refuse(DecodeProblem::Unsupported("an annotated class")));
        }
        let parent = self.class()?;
        let depth = parent.as_ref().map_or(0, |parent| parent.depth + 1);
        if depth > MAX_DEPTH {
            return Err(self.reader.refuse(DecodeProblem::TooDeep));
        }
        let class =
            Rc::new(Class { name: name.into(), serializable, writes, external: externalizable, fields, parent, depth });
        self.handles[place] = Handle::Class(class.clone());
        Ok(class)
    }

    fn known_class(&mut self) -> Read<Rc<Class>> {
        self.class()?.ok_or_else(|| self.malformed())
    }

    fn object(&mut self, start: usize) -> Read<Item> {
        let class = self.known_class()?;
        let place = self.open();
        if class.external {
            let written = self.written()?;
            let item = objects::external(&mut self.reader, written, objects::TextLength::Two)?;
            return self.close(place, item);
        }
        let mut classes = vec![class.clone()];
        while let Some(parent) = classes.last().and_then(|class| class.parent.clone()) {
            self.reader.pay()?;
            classes.push(parent);
        }
        let mut parts = Vec::new();
        for class in classes.iter().rev().filter(|class| class.serializable) {
            if class.writes {
                objects::check_self_written(&self.reader, start, &class.name)?;
            }
            let mut fields = Vec::new();
            for field in &class.fields {
                let item =
                    if objects::is_lock(&class.name, &field.name) { self.lock()? } else { self.field(field.kind)? };
                self.reader.pay_for(field.name.len())?;
                fields.push((field.name.clone(), item));
            }
            let written = if class.writes { self.written()? } else { Vec::new() };
            parts.push(Part { class: class.name.clone(), fields, written });
        }
        let item = objects::value(&mut self.reader, start, parts, self.types)?;
        self.close(place, item)
    }

    /// Reads the lock of a collection: mostly the collection itself, which has no value yet.
    fn lock(&mut self) -> Read<Item> {
        if self.reader.peek() != Some(token::REFERENCE) {
            return self.value();
        }
        self.reader.u8()?;
        self.handle()?;
        Ok(Value::Null.into())
    }

    /// Reads a value of class `Class` as its name.
    fn class_name(&mut self) -> Read<Item> {
        let class = self.known_class()?;
        let place = self.open();
        self.reader.pay_for(class.name.len())?;
        self.close(place, Item::from(&*class.name))
    }

    /// Reads the data that a class wrote with its own method, up to the end mark.
    fn written(&mut self) -> Read<Vec<Written>> {
        let mut written = Vec::new();
        loop {
            let length = match self.reader.peek() {
                Some(token::END_BLOCK) => {
                    self.reader.u8()?;
                    return Ok(written);
                }
                Some(token::BLOCK) => {
                    self.reader.u8()?;
                    self.reader.u8()?.into()
                }
                Some(token::LONG_BLOCK) => {
                    self.reader.u8()?;
                    self.reader.count()?
                }
                _ => {
                    written.push(Written::Value(self.value()?));
                    continue;
                }
            };
            let block = self.reader.take(length)?.to_vec();
            self.reader.pay()?;
            self.reader.pay_for(length)?;
            written.push(Written::Block(block));
        }
    }

    /// Reads a value of a field or an array.
    fn field(&mut self, kind: u8) -> Read<Item> {
        if matches!(kind, b'L' | b'[') {
            return self.value();
        }
        self.reader.pay()?;
        let reader = &mut self.reader;
        Ok(match kind {
            b'B' => reader.u8()?.cast_signed().into(),
            b'C' => {
                let unit = reader.u16()?;
                value::letter(reader, unit)?
            }
            b'D' => value::double(f64::from_bits(reader.u64()?)),
            b'F' => value::float(f32::from_bits(reader.u32()?)),
            b'I' => reader.i32()?.into(),
            b'J' => reader.i64()?.into(),
            b'S' => reader.u16()?.cast_signed().into(),
            b'Z' => (reader.u8()? != 0).into(),
            _ => return Err(self.malformed()),
        })
    }

    fn array(&mut self, start: usize) -> Read<Item> {
        let class = self.known_class()?;
        let place = self.open();
        let count = self.reader.count()?;
        let kind = class.name.strip_prefix('[').and_then(|name| name.bytes().next());
        let item = match kind {
            Some(b'B') => value::bytes(&mut self.reader, count)?,
            Some(kind) => {
                let mut items = Vec::new();
                for _ in 0..count {
                    items.push(self.field(kind)?.into_json());
                }
                Value::Array(items).into()
            }
            None => return Err(objects::opaque(&self.reader, start, &class.name)),
        };
        self.close(place, item)
    }

    /// Reads an enum constant as its name.
    fn constant(&mut self) -> Read<Item> {
        self.known_class()?;
        let place = self.open();
        let name = self.plain_text()?;
        self.close(place, name.into())
    }
}
