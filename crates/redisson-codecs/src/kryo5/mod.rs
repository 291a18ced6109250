//! Codecs `kryo5` and `kryo5_refs`: the format of Redisson's `Kryo5Codec`, the default since 3.19.0.
//!
//! ```text
//! value       class, then its content
//! class       varint: 0 null   1 by name   2.. registered: Integer String Float Boolean Byte Character Short Long Double
//! by name     varint number of the name; the name itself as a string where the number is new
//! string      80 null   81 empty   ASCII with the top bit set in its last byte (2 to 32 characters)
//!             else flag-varint of characters + 1, then UTF-16 units of one to three bytes
//! array       varint length + 1, then the elements
//! list        flag-varint size + 1; with the flag one class for all, then whether nulls are among them; elements
//! map         varint size + 1, then keys and values in turn
//! object      its fields in the order of their names; a field of a final class without the class
//! ```
//!
//! Varints are little-endian groups of seven bits; those of Integer and Long are zigzag. A flag-varint has its flag in
//! the top bit of the first byte, and six bits of the number. With references on, everything except boxed numbers and
//! enums has a varint before its content: 1 for a new object, else 2 + the number of a previous one.
//!
//! The fields of an object have no names, and no types if the class determines them: objects of the application's own
//! classes are read if these are declared ([`Classes`]). Any other class is named and refused.

mod atomic;
pub(crate) mod class;
mod collections;
mod content;
pub(crate) mod form;
mod generics;
mod input;
mod objects;

use std::collections::HashMap;
use std::rc::Rc;

use bytes::Bytes;
use serde_json::Value;

use self::class::Class;
use self::form::Form;
use self::generics::Generics;
use super::classes::Classes;
use super::error::{ClassName, DecodeProblem, Refusal};
use super::java;
use super::payload::Answer;
use super::reader::{Read, Reader};
use super::value::{self, Item};
use crate::coding::JavaTypes;

/// Whether the codec was created with `useReferences`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum References {
    Off,
    On,
}

const NAME: &str = "Kryo 5";

pub(super) fn decode(
    payload: &Bytes,
    budget: usize,
    references: References,
    classes: &Classes,
    types: JavaTypes,
) -> Answer {
    let read = |era| {
        let mut kryo = Kryo {
            reader: Reader::new(payload, budget),
            references,
            classes,
            types,
            names: Vec::new(),
            written: Vec::new(),
            generics: Generics::default(),
            depth: 0,
            streams: HashMap::new(),
            era,
            doubt: Doubt::None,
        };
        let item = kryo.value().and_then(|item| kryo.reader.end().map(|()| item));
        (item, kryo.doubt)
    };
    let (item, doubt) = read(Era::Today);
    let item = match (item, doubt) {
        (item, Doubt::None) => item,
        (Err(refusal), _) => {
            let eras = [Era::BeforeAtomics, Era::BeforeArrays, Era::BeforeUuids].into_iter();
            eras.map(|era| read(era).0).find(Result::is_ok).unwrap_or(Err(refusal))
        }
        (Ok(item), Doubt::Form) => Ok(item),
        // A number is never guessed.
        (Ok(item), Doubt::Number) => match read(Era::BeforeAtomics).0 {
            Ok(earlier) if earlier != item => {
                let what = "an AtomicInteger or AtomicLong of an undeclared class, whose bytes are two numbers by the version of Redisson";
                Err(Refusal::at(0, DecodeProblem::Unsupported(what)))
            }
            _ => Ok(item),
        },
    };
    item.map(Item::into_decoded)
}

/// The versions of the format. A payload does not name its version: it is read as one of an earlier version if it is
/// invalid in today's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Era {
    /// Without a serializer for `UUID`, which was two fields (Redisson before 3.20).
    BeforeUuids,
    /// With a null in a field `T[]`, where T is text, written as a null of type T (Kryo before 5.5).
    BeforeArrays,
    /// Without serializers for `AtomicInteger` and its like, which were objects of one field (Redisson before 3.46).
    BeforeAtomics,
    Today,
}

/// The doubt about a payload: it has values that an earlier version writes differently.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Doubt {
    None,
    Form,
    /// A number whose bytes may also be another number.
    Number,
}

struct Kryo<'a> {
    reader: Reader<'a>,
    references: References,
    classes: &'a Classes,
    types: JavaTypes,
    /// The classes named so far.
    names: Vec<Named>,
    /// The targets of references, in the order of their starts; `None` while being read.
    written: Vec<Option<Item>>,
    generics: Generics,
    /// Kryo's count of nested objects, by which it finds the type arguments of the surrounding one.
    depth: usize,
    /// The streams of Java serialization within the payload, one for each class by its index in `names`.
    streams: HashMap<usize, java::Stream>,
    era: Era,
    doubt: Doubt,
}

/// A class that the payload names.
#[derive(Clone)]
struct Named {
    name: Rc<str>,
    /// The class; `None` if it is unknown.
    class: Option<Class>,
}

/// The marker before a value.
enum Tag {
    Null,
    Registered(u64),
    Named(usize),
}

impl Kryo<'_> {
    /// Reads a value after its class.
    fn value(&mut self) -> Read<Item> {
        match self.class()? {
            None => self.null(),
            Some((class, place)) => self.object(&class, place),
        }
    }

    fn null(&mut self) -> Read<Item> {
        self.reader.pay()?;
        Ok(Value::Null.into())
    }

    /// Notes something that an earlier version writes in another way; returns whether this is such a version.
    fn is_before(&mut self, era: Era, doubt: Doubt) -> bool {
        self.doubt = self.doubt.max(doubt);
        self.era <= era
    }

    fn tag(&mut self) -> Read<Tag> {
        let number = match self.varint()? {
            0 => return Ok(Tag::Null),
            1 => usize::try_from(self.varint()?).unwrap_or(usize::MAX),
            number => return Ok(Tag::Registered(number - 2)),
        };
        if number == self.names.len() {
            self.reader.pay()?;
            let name = self.string()?.unwrap_or_default();
            let class = self.classes.named(&name);
            self.names.push(Named { name: name.into(), class });
        }
        if number < self.names.len() { Ok(Tag::Named(number)) } else { Err(self.reader.malformed(NAME)) }
    }

    /// Reads the class before a value, and its index in `names`; `None` is null.
    fn class(&mut self) -> Read<Option<(Class, usize)>> {
        let start = self.reader.at();
        match self.tag()? {
            Tag::Null => Ok(None),
            Tag::Registered(number) => {
                let class = Form::registered(number).map(Class::Known).or_else(|| self.classes.registered(number));
                class.map(|class| Some((class, usize::MAX))).ok_or_else(|| {
                    let what = "an object of a class that only the application has registered";
                    self.reader.refuse_at(start, DecodeProblem::Unsupported(what))
                })
            }
            Tag::Named(place) => {
                let Named { name, class } = &self.names[place];
                let class = class.clone();
                let opaque = || self.reader.refuse_at(start, DecodeProblem::Opaque(ClassName::of(name)));
                class.map(|class| Some((class, place))).ok_or_else(opaque)
            }
        }
    }

    /// Reads what Kryo's `writeObject` writes: a value other than null, after its class or of a known one.
    fn object(&mut self, class: &Class, place: usize) -> Read<Item> {
        self.depth += 1;
        let item = if self.references == References::On && self.classes.is_referable(class) {
            match self.varint()? {
                0 => Err(self.reader.malformed(NAME)),
                1 => self.referable(class, place),
                number => self.written_before(number - 2),
            }
        } else {
            self.content(class, place)
        };
        self.depth -= 1;
        item
    }

    /// Reads what Kryo's `writeObjectOrNull` writes.
    fn object_or_null(&mut self, class: &Class, place: usize) -> Read<Item> {
        self.depth += 1;
        let item = match (self.references, self.classes.is_referable(class)) {
            (References::On, true) => match self.varint()? {
                0 => self.null(),
                1 => self.referable(class, place),
                number => self.written_before(number - 2),
            },
            (References::Off, _) if self.classes.has_null(class) => self.content(class, place),
            _ => {
                if self.flag()? {
                    self.content(class, place)
                } else {
                    self.null()
                }
            }
        };
        self.depth -= 1;
        item
    }

    /// Reads the content of a value that others may refer to.
    fn referable(&mut self, class: &Class, place: usize) -> Read<Item> {
        let number = self.written.len();
        self.written.push(None);
        let item = self.content(class, place)?;
        value::pay_again(&mut self.reader, &item)?;
        self.written[number] = Some(item.clone());
        Ok(item)
    }

    fn written_before(&mut self, number: u64) -> Read<Item> {
        let written = usize::try_from(number).ok().and_then(|number| self.written.get(number));
        match written {
            Some(Some(item)) => {
                value::pay_again(&mut self.reader, item)?;
                Ok(item.clone())
            }
            Some(None) => Err(self.reader.refuse(DecodeProblem::Unsupported("an object that contains itself"))),
            None => Err(self.reader.malformed(NAME)),
        }
    }

    fn content(&mut self, class: &Class, place: usize) -> Read<Item> {
        self.reader.pay()?;
        match class {
            Class::Known(form) => self.known(*form, place),
            Class::Constants(names) => self.constant(names.len(), |place| names[place].into()),
            Class::Own(number) => self.own(*number, place),
            Class::Array(elements) => self.nested(|kryo| kryo.array(elements)),
            Class::Open => {
                let name = self.names.get(place).map_or("", |named| &named.name);
                Err(self.reader.refuse(DecodeProblem::Opaque(ClassName::of(name))))
            }
        }
    }

    fn nested(&mut self, inner: impl FnOnce(&mut Self) -> Read<Item>) -> Read<Item> {
        self.reader.enter()?;
        let item = inner(self);
        self.reader.leave();
        item
    }

    /// Reads an enum constant, which is written as its number.
    fn constant(&mut self, count: usize, name: impl FnOnce(usize) -> String) -> Read<Item> {
        match self.size()? {
            None => Ok(Value::Null.into()),
            Some(place) if place < count => {
                let name = name(place);
                self.reader.pay_for(name.len())?;
                Ok(name.into())
            }
            Some(_) => Err(self.reader.malformed(NAME)),
        }
    }
}
