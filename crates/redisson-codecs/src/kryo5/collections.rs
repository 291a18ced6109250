//! Lists, maps and arrays of objects.
//!
//! If the surrounding field says that all elements are of one final class, they are written without it.

use std::sync::Arc;

use serde_json::Value;

use super::form::Form;
use super::{Class, Kryo, NAME};
use crate::classes::{Body, Type};
use crate::error::{ClassName, DecodeProblem};
use crate::reader::Read;
use crate::value::{self, Item};

/// The index of a class that the payload does not name.
const UNNAMED: usize = usize::MAX;

impl Kryo<'_> {
    pub(super) fn list(&mut self, form: Form) -> Read<Item> {
        let immutable = form == Form::ImmutableList;
        let arguments = self.generics.next(self.depth);
        let fixed = arguments.as_ref().and_then(|arguments| self.final_class(arguments.first()?));
        let (flag, size) = if fixed.is_some() && immutable {
            (false, usize::try_from(self.varint()?).unwrap_or(usize::MAX))
        } else {
            self.flag_varint()?
        };
        let Some(size) = size.checked_sub(1) else { return Ok(Value::Null.into()) };
        if form == Form::SortedList {
            self.order()?;
        }
        if size == 0 {
            return Ok(Value::Array(Vec::new()).into());
        }
        self.push_last(arguments);
        let items = match fixed {
            Some(class) => self.same(&class, UNNAMED, flag, size),
            None if flag => self.of_one_class(immutable, size),
            None => self.of_any_class(size),
        };
        self.generics.pop(self.depth);
        Ok(Value::Array(items?).into())
    }

    fn of_any_class(&mut self, size: usize) -> Read<Vec<Value>> {
        let mut items = Vec::new();
        for _ in 0..size {
            items.push(self.value()?.into_json());
        }
        Ok(items)
    }

    fn of_one_class(&mut self, immutable: bool, size: usize) -> Read<Vec<Value>> {
        let Some((class, place)) = self.class()? else {
            let mut items = Vec::new();
            for _ in 0..size {
                items.push(self.null()?.into_json());
            }
            return Ok(items);
        };
        let nulls = !immutable && self.flag()?;
        self.same(&class, place, nulls, size)
    }

    fn same(&mut self, class: &Class, place: usize, nulls: bool, size: usize) -> Read<Vec<Value>> {
        let mut items = Vec::new();
        for _ in 0..size {
            let item = if nulls { self.object_or_null(class, place) } else { self.object(class, place) };
            items.push(item?.into_json());
        }
        Ok(items)
    }

    pub(super) fn map(&mut self, form: Form) -> Read<Item> {
        let Some(size) = self.size()? else { return Ok(Value::Null.into()) };
        if form == Form::SortedMap {
            self.order()?;
        }
        if size == 0 {
            return Ok(value::map(Vec::new()).into());
        }
        let nulls = form != Form::ImmutableMap;
        let arguments = self.generics.next(self.depth);
        let fixed = |kryo: &Self, place: usize| kryo.final_class(arguments.as_ref()?.get(place)?);
        let keys = fixed(self, 0);
        let values = fixed(self, 1);
        let of_key = arguments.as_ref().and_then(|arguments| arguments.first().cloned());
        self.push_last(arguments);
        let mut entries = Vec::new();
        for _ in 0..size {
            if let Some(of_key) = &of_key {
                self.generics.push(of_key.clone(), self.depth);
            }
            let key = self.part(keys.as_ref(), nulls)?.into_json();
            if of_key.is_some() {
                self.generics.pop(self.depth);
            }
            entries.push((key, self.part(values.as_ref(), nulls)?.into_json()));
        }
        self.generics.pop(self.depth);
        Ok(value::map(entries).into())
    }

    fn part(&mut self, fixed: Option<&Class>, nulls: bool) -> Read<Item> {
        match fixed {
            Some(class) if nulls => self.object_or_null(class, UNNAMED),
            Some(class) => self.object(class, UNNAMED),
            None => self.value(),
        }
    }

    pub(super) fn array(&mut self, elements: &Arc<Class>) -> Read<Item> {
        let Some(size) = self.size()? else { return Ok(Value::Null.into()) };
        // Java considers every array class final, whatever its elements are.
        let is_array =
            matches!(&**elements, Class::Array(_)) || matches!(&**elements, Class::Known(form) if form.is_array());
        let fixed = is_array || self.classes.is_final(elements);
        let mut items = Vec::new();
        for _ in 0..size {
            let item = if fixed { self.object_or_null(elements, UNNAMED) } else { self.value() };
            items.push(item?.into_json());
        }
        Ok(Value::Array(items).into())
    }

    /// Reads the constants of an enum set after their class, which even an empty set names.
    pub(super) fn enum_set(&mut self) -> Read<Item> {
        let start = self.reader.at();
        let Some((class, place)) = self.class()? else { return Err(self.reader.malformed(NAME)) };
        let is_enum = match &class {
            Class::Constants(_) => true,
            Class::Own(number) => matches!(self.classes.at(*number).body, Body::Constants(_)),
            _ => false,
        };
        if !is_enum {
            let name = self.names.get(place).map_or("", |named| &named.name);
            return Err(self.reader.refuse_at(start, DecodeProblem::Opaque(ClassName::of(name))));
        }
        let size = self.varint()?;
        let mut items = Vec::new();
        for _ in 0..size {
            items.push(self.content(&class, place)?.into_json());
        }
        Ok(Value::Array(items).into())
    }

    /// Reads the comparator of a sorted collection, which must have no settings.
    fn order(&mut self) -> Read<()> {
        match self.class()? {
            None => Ok(()),
            Some((class @ Class::Known(Form::Comparator), place)) => self.object(&class, place).map(drop),
            Some(_) => Err(self.reader.refuse(DecodeProblem::Unsupported("a collection with a comparator"))),
        }
    }

    pub(super) fn final_class(&self, of: &Type) -> Option<Class> {
        self.generics.resolve(of).filter(|class| self.classes.is_final(class))
    }

    fn push_last(&mut self, arguments: Option<Vec<Arc<Type>>>) {
        if let Some(last) = arguments.and_then(|mut arguments| arguments.pop()) {
            self.generics.push(last, self.depth);
        }
    }
}
