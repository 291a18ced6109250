//! `AtomicInteger` and its like.
//!
//! Redisson has serializers for them since 3.46.0: numbers of a fixed length, a flag of one byte, a value of any class.
//! Before, Kryo wrote them as objects of one field: a number as a varint, also for the flag, and a value of the type
//! variable. A declaration of the class says which form it is; without one, both are tried.

use std::sync::{Arc, LazyLock};

use super::form::Form;
use super::{Doubt, Era, Kryo, NAME};
use crate::classes::{Base, Body, Own, Type, Written};
use crate::reader::Read;
use crate::value::Item;

/// `AtomicReference` as a class with a field.
static REFERENCE: LazyLock<(Own, Arc<Type>)> = LazyLock::new(|| {
    let variable: Arc<str> = "java.util.concurrent.atomic.AtomicReference#V".into();
    let own = Own {
        name: "java.util.concurrent.atomic.AtomicReference".into(),
        body: Body::Abstract,
        is_final: false,
        variables: vec![vec![variable.clone()]],
        own_variables: 1,
    };
    (own, Arc::new(Type { base: Base::Variable { name: variable, array: false }, arguments: None }))
});

impl Kryo<'_> {
    /// Reads one in the form of the version that is tried.
    ///
    /// A varint of four bytes is also an int, one of eight bytes a long. So such numbers stay in doubt, except for the
    /// greatest of all: they are far more common than -2^27 and -2^55, whose varints have the same bytes.
    pub(super) fn atomic(&mut self, form: Form) -> Read<Item> {
        if self.is_before(Era::BeforeAtomics, Doubt::Form) {
            return self.atomic_in(form, Written::AsFields);
        }
        let item = self.atomic_in(form, Written::BySerializer)?;
        let is_in_doubt = match form {
            Form::AtomicInteger => item != i32::MAX.into(),
            Form::AtomicLong => item != i64::MAX.into(),
            _ => false,
        };
        if is_in_doubt {
            self.doubt = Doubt::Number;
        }
        Ok(item)
    }

    /// Reads an atomic value in a known form.
    pub(super) fn atomic_in(&mut self, form: Form, written: Written) -> Read<Item> {
        Ok(match (form, written) {
            (Form::AtomicBoolean, Written::BySerializer) => self.flag()?.into(),
            (Form::AtomicInteger, Written::BySerializer) => self.fixed_int()?.into(),
            (Form::AtomicLong, Written::BySerializer) => self.fixed_long()?.into(),
            (_, Written::BySerializer) => self.nested(Self::value)?,
            (Form::AtomicBoolean, Written::AsFields) => match self.int()? {
                0 => false.into(),
                1 => true.into(),
                _ => return Err(self.reader.malformed(NAME)),
            },
            (Form::AtomicInteger, Written::AsFields) => self.shortest(Self::int)?.into(),
            (Form::AtomicLong, Written::AsFields) => self.shortest(Self::long)?.into(),
            (_, Written::AsFields) => {
                let (class, field) = &*REFERENCE;
                self.nested(|kryo| kryo.with_arguments(class, |kryo| kryo.field(field)))?
            }
        })
    }

    /// Reads a varint that does not end with a group of zeros, which Kryo never writes.
    fn shortest<T>(&mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        let before = self.reader.rest();
        let start = self.reader.at();
        let number = read(self)?;
        let length = self.reader.at() - start;
        if length > 1 && before.get(length - 1) == Some(&0) { Err(self.reader.malformed(NAME)) } else { Ok(number) }
    }
}
