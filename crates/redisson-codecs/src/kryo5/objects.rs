//! Objects of the application's own classes.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::form::Form;
use super::{Class, Doubt, Era, Kryo, NAME};
use crate::classes::{Base, Body, Field, Kind, Own, Primitive, Type};
use crate::coding::JavaTypes;
use crate::error::{ClassName, DecodeProblem};
use crate::java_types::CLASS;
use crate::reader::Read;
use crate::value::{self, Item};

/// The index of a class that the payload does not name.
const UNNAMED: usize = usize::MAX;

impl Kryo<'_> {
    pub(super) fn own(&mut self, number: usize, place: usize) -> Read<Item> {
        let classes = self.classes;
        let class = classes.at(number);
        match &class.body {
            Body::Constants(names) => self.constant(names.len(), |place| names[place].clone()),
            Body::Like(like) => self.content(like, place),
            Body::Atomic(form, written) => self.atomic_in(*form, *written),
            Body::Fields(fields) => self.nested(|kryo| kryo.fields(class, fields)),
            Body::Record(fields) => self.nested(|kryo| kryo.record(class, fields)),
            Body::Abstract => Err(self.reader.refuse(DecodeProblem::Opaque(ClassName::of(&class.name)))),
        }
    }

    /// Reads what `FieldSerializer` writes.
    fn fields(&mut self, class: &Own, fields: &[Field]) -> Read<Item> {
        self.with_arguments(class, |kryo| {
            let mut object = kryo.begin(class)?;
            for field in fields {
                let item = match &field.kind {
                    Kind::Primitive(primitive) => kryo.primitive(*primitive)?,
                    Kind::Object(of) => kryo.field(of)?,
                };
                kryo.insert(&mut object, field, item)?;
            }
            Ok(Value::Object(object).into())
        })
    }

    /// Reads fields of a class whose type variables have the arguments of the surrounding type.
    pub(super) fn with_arguments(&mut self, class: &Own, inner: impl FnOnce(&mut Self) -> Read<Item>) -> Read<Item> {
        let arguments = self.generics.next(self.depth);
        let before = arguments.as_ref().map(|arguments| self.generics.enter(class, arguments));
        if let Some(last) = arguments.and_then(|mut arguments| arguments.pop()) {
            self.generics.push(last, self.depth);
        }
        let item = inner(self)?;
        if let Some(before) = before {
            self.generics.leave(before);
        }
        self.generics.pop(self.depth);
        Ok(item)
    }

    pub(super) fn field(&mut self, of: &Arc<Type>) -> Read<Item> {
        let fixed = self.final_class(of);
        let is_array = matches!(&of.base, Base::Variable { array: true, .. });
        if let Some(Class::Known(Form::Text)) = fixed
            && is_array
            && self.reader.peek() == Some(0x80)
            && self.is_before(Era::BeforeArrays, Doubt::Form)
        {
            self.reader.u8()?;
            return self.null();
        }
        let fixed = fixed.map(|class| if is_array { Class::Array(Arc::new(class)) } else { class });
        let item = match fixed {
            Some(class) => {
                self.generics.push(of.clone(), self.depth);
                self.object_or_null(&class, UNNAMED)
            }
            None => {
                let Some((class, place)) = self.class()? else { return self.null() };
                self.generics.push(of.clone(), self.depth);
                self.object(&class, place)
            }
        };
        self.generics.pop(self.depth);
        item
    }

    /// Reads what `RecordSerializer` writes, which ignores type arguments.
    fn record(&mut self, class: &Own, fields: &[Field]) -> Read<Item> {
        let mut object = self.begin(class)?;
        for field in fields {
            let item = match &field.kind {
                Kind::Primitive(primitive) => self.primitive(*primitive)?,
                Kind::Object(of) => match &of.base {
                    Base::Class(class) if self.classes.is_final(class) => self.object_or_null(class, UNNAMED)?,
                    _ => self.value()?,
                },
            };
            self.insert(&mut object, field, item)?;
        }
        Ok(Value::Object(object).into())
    }

    fn begin(&mut self, class: &Own) -> Read<Map<String, Value>> {
        let mut object = Map::new();
        if self.types == JavaTypes::Keep {
            self.reader.pay()?;
            self.reader.pay_for(class.name.len())?;
            object.insert(CLASS.to_owned(), Value::from(&*class.name));
        }
        Ok(object)
    }

    fn insert(&mut self, object: &mut Map<String, Value>, field: &Field, item: Item) -> Read<()> {
        self.reader.pay_for(field.name.len())?;
        match object.insert(field.name.clone(), item.into_json()) {
            None => Ok(()),
            Some(_) => Err(self.reader.malformed(NAME)),
        }
    }

    fn primitive(&mut self, primitive: Primitive) -> Read<Item> {
        self.reader.pay()?;
        Ok(match primitive {
            Primitive::Boolean => self.flag()?.into(),
            Primitive::Byte => self.reader.u8()?.cast_signed().into(),
            Primitive::Char => self.letter()?,
            Primitive::Short => i16::from_le_bytes(self.reader.array()?).into(),
            Primitive::Int => self.int()?.into(),
            Primitive::Long => self.long()?.into(),
            Primitive::Float => value::float(f32::from_le_bytes(self.reader.array()?)),
            Primitive::Double => value::double(f64::from_le_bytes(self.reader.array()?)),
        })
    }
}
