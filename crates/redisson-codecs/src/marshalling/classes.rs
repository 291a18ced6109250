//! The class descriptions before objects.

use std::rc::Rc;

use serde_json::Value;

use super::River;
use super::class::{Class, Described};
use crate::error::DecodeProblem;
use crate::objects;
use crate::reader::{MAX_DEPTH, Read};
use crate::value::{self, Item};

impl River<'_> {
    /// Reads the name of a class or a field, which is a text that may be referred to.
    fn name(&mut self) -> Read<String> {
        match self.value()? {
            Item::Json(Value::String(name)) => Ok(name),
            _ => Err(self.malformed()),
        }
    }

    /// Reads a name in the older form, with a length of four bytes.
    pub(super) fn old_name(&mut self) -> Read<String> {
        let units = self.reader.count()?;
        value::units(&mut self.reader, units)
    }

    /// Reads the class that starts with this code.
    pub(super) fn class(&mut self, code: u8) -> Read<Class> {
        self.reader.pay()?;
        match code {
            0x06 => {
                let place = self.reader.count()?;
                self.class_before(Some(place))
            }
            0x3b => {
                let back = 0x100 - usize::from(self.reader.u8()?);
                self.class_before(self.classes.len().checked_sub(back))
            }
            0x3c => {
                let back = 0x1_0000 - usize::from(self.reader.u16()?);
                self.class_before(self.classes.len().checked_sub(back))
            }
            0x07 => {
                self.old_name()?;
                self.keep_class(Class::Simple(code))
            }
            0x0c => {
                self.old_name()?;
                self.keep_class(Class::Enum)
            }
            0x0d => {
                self.reader.enter()?;
                let code = self.reader.u8()?;
                self.class(code)?;
                self.reader.leave();
                self.keep_class(Class::Array)
            }
            0x09 | 0x38 => self.described(code == 0x38),
            0x0a | 0x0b => {
                let start = self.reader.at();
                let name = self.old_name()?;
                if code == 0x0a && objects::is_external(&name) {
                    self.reader.u64()?;
                    return self.keep_class(Class::External);
                }
                Err(objects::opaque(&self.reader, start, &name))
            }
            0x14..=0x31 | 0x5a..=0x81 => Ok(Class::Simple(code)),
            _ => Err(self.unread(code)),
        }
    }

    fn keep_class(&mut self, class: Class) -> Read<Class> {
        self.classes.push(Some(class.clone()));
        Ok(class)
    }

    fn class_before(&mut self, place: Option<usize>) -> Read<Class> {
        match place.and_then(|place| self.classes.get(place)) {
            Some(Some(class)) => Ok(class.clone()),
            // A field of the class's own type, within its description.
            Some(None) => Ok(Class::Simple(0x16)),
            None => Err(self.malformed()),
        }
    }

    fn described(&mut self, writes: bool) -> Read<Class> {
        self.reader.enter()?;
        let place = self.classes.len();
        self.classes.push(None);
        let name = self.name()?;
        let _version = self.reader.u64()?;
        let mut fields = Vec::new();
        for _ in 0..self.reader.count()? {
            self.reader.pay()?;
            let name = self.name()?;
            let code = self.reader.u8()?;
            let kind = match self.class(code)? {
                Class::Simple(code @ 0x20..=0x27) => code,
                _ => 0x16,
            };
            let _unshared = self.reader.u8()?;
            fields.push((name, kind));
        }
        let code = self.reader.u8()?;
        let parent = match self.class(code)? {
            Class::Object(parent) => Some(parent),
            Class::Simple(_) | Class::Enum | Class::Array | Class::External => None,
        };
        self.reader.leave();
        let depth = parent.as_ref().map_or(0, |parent| parent.depth + 1);
        if depth > MAX_DEPTH {
            return Err(self.reader.refuse(DecodeProblem::TooDeep));
        }
        let class = Class::Object(Rc::new(Described { name: name.into(), writes, fields, parent, depth }));
        self.classes[place] = Some(class.clone());
        Ok(class)
    }
}
