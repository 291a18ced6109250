//! The content that Kryo's serializers write for the JDK's classes.

use serde_json::Value;

use super::form::{Form, REGISTERED_NAMES};
use super::{Doubt, Era, Kryo, NAME, Tag};
use crate::error::{ClassName, DecodeProblem};
use crate::java;
use crate::reader::Read;
use crate::time;
use crate::value::{self, Item};

impl Kryo<'_> {
    /// Reads the content of a JDK class; `place` is the index of its name.
    pub(super) fn known(&mut self, form: Form, place: usize) -> Read<Item> {
        Ok(match form {
            Form::Integer => self.int()?.into(),
            Form::Long => self.long()?.into(),
            Form::Byte => i8::from_le_bytes(self.reader.array()?).into(),
            Form::Short => i16::from_le_bytes(self.reader.array()?).into(),
            Form::Character => self.letter()?,
            Form::Float => value::float(f32::from_le_bytes(self.reader.array()?)),
            Form::Double => value::double(f64::from_le_bytes(self.reader.array()?)),
            Form::Boolean => self.flag()?.into(),
            Form::Text | Form::Words => self.string()?.into(),
            Form::Name | Form::Address => self.text()?.into(),
            Form::AtomicBoolean | Form::AtomicInteger | Form::AtomicLong | Form::AtomicReference => {
                self.atomic(form)?
            }
            Form::Bytes => match self.size()? {
                None => Value::Null.into(),
                Some(length) => value::bytes(&mut self.reader, length)?,
            },
            Form::Booleans => self.primitives(|kryo| kryo.flag().map(Item::from))?,
            Form::Characters => self.primitives(Self::letter)?,
            Form::Shorts => self.primitives(|kryo| Ok(i16::from_le_bytes(kryo.reader.array()?).into()))?,
            Form::Integers => self.primitives(|kryo| kryo.int().map(Item::from))?,
            Form::Longs => self.primitives(|kryo| kryo.long().map(Item::from))?,
            Form::Floats => self.primitives(|kryo| kryo.reader.array().map(f32::from_le_bytes).map(value::float))?,
            Form::Doubles => self.primitives(|kryo| kryo.reader.array().map(f64::from_le_bytes).map(value::double))?,
            Form::BigInteger | Form::BigDecimal => self.big(form)?,
            Form::Class => self.class_name()?,
            // Milliseconds since 1970, also for the classes of java.sql.
            Form::Date => self.varint()?.cast_signed().into(),
            Form::Calendar => self.calendar()?,
            Form::Locale => self.locale()?,
            Form::Pattern => {
                let text = self.text()?;
                self.varint()?;
                text.into()
            }
            Form::Uuid => self.uuid()?.into(),
            Form::BitSet => self.bit_set()?,
            Form::Optional => self.nested(Self::value)?,
            Form::OptionalInt => self.optional(|kryo| kryo.fixed_int().map(Item::from))?,
            Form::OptionalLong => self.optional(|kryo| kryo.fixed_long().map(Item::from))?,
            Form::OptionalDouble => {
                self.optional(|kryo| kryo.reader.array().map(f64::from_le_bytes).map(value::double))?
            }
            Form::Comparator => Value::Null.into(),
            Form::EnumSet => self.nested(Self::enum_set)?,
            Form::List | Form::ImmutableList | Form::SortedList => self.nested(|kryo| kryo.list(form))?,
            Form::Map | Form::ImmutableMap | Form::SortedMap => self.nested(|kryo| kryo.map(form))?,
            Form::JavaList | Form::JavaMap | Form::Host | Form::FinalHost | Form::Socket => {
                self.in_java(form, place)?
            }
            Form::EmptyList => Value::Array(Vec::new()).into(),
            Form::EmptyMap => value::map(Vec::new()).into(),
            Form::SingletonList => self.nested(|kryo| Ok(Value::Array(vec![kryo.value()?.into_json()]).into()))?,
            Form::SingletonMap => self.nested(|kryo| {
                let key = kryo.value()?.into_json();
                Ok(value::map(vec![(key, kryo.value()?.into_json())]).into())
            })?,
            Form::Duration
            | Form::Instant
            | Form::LocalDate
            | Form::LocalTime
            | Form::LocalDateTime
            | Form::ZoneOffset
            | Form::OffsetTime
            | Form::OffsetDateTime
            | Form::ZonedDateTime
            | Form::YearMonth
            | Form::MonthDay
            | Form::Period => {
                let text = self.of_time(form)?;
                let text = text.ok_or_else(|| self.reader.malformed(NAME))?;
                self.reader.pay_for(text.len())?;
                text.into()
            }
            Form::Year => self.positive()?.into(),
        })
    }

    pub(super) fn letter(&mut self) -> Read<Item> {
        let unit = u16::from_le_bytes(self.reader.array()?);
        value::letter(&self.reader, unit)
    }

    fn primitives(&mut self, one: impl Fn(&mut Self) -> Read<Item>) -> Read<Item> {
        let Some(length) = self.size()? else { return Ok(Value::Null.into()) };
        let mut items = Vec::new();
        for _ in 0..length {
            self.reader.pay()?;
            items.push(one(self)?.into_json());
        }
        Ok(Value::Array(items).into())
    }

    fn optional(&mut self, one: impl FnOnce(&mut Self) -> Read<Item>) -> Read<Item> {
        if self.flag()? { one(self) } else { Ok(Value::Null.into()) }
    }

    fn big(&mut self, form: Form) -> Read<Item> {
        let Some(length) = self.size()? else { return Ok(Value::Null.into()) };
        let bytes = self.reader.take(length)?;
        let number = value::signed_integer(&mut self.reader, bytes)?;
        if form == Form::BigInteger {
            return Ok(Item::from_number(number));
        }
        let scale = self.int()?;
        value::decimal(&mut self.reader, &number, scale.into()).map(Item::from_number)
    }

    /// Reads the name of a class, and for one that can be primitive, whether it is.
    fn class_name(&mut self) -> Read<Item> {
        let name: std::rc::Rc<str> = match self.tag()? {
            Tag::Null => return Ok(Value::Null.into()),
            Tag::Named(place) => self.names[place].name.clone(),
            Tag::Registered(number) => {
                let known = usize::try_from(number).ok().and_then(|number| REGISTERED_NAMES.get(number));
                match known {
                    Some((boxed, None)) => (*boxed).into(),
                    Some((boxed, Some(primitive))) => if self.flag()? { *primitive } else { *boxed }.into(),
                    None => return Err(self.reader.malformed(NAME)),
                }
            }
        };
        self.reader.pay_for(name.len())?;
        Ok(Item::from(&*name))
    }

    fn uuid(&mut self) -> Read<String> {
        if self.is_before(Era::BeforeUuids, Doubt::Form) {
            let least = self.long()?;
            let most = self.long()?;
            return Ok(value::uuid(most, least));
        }
        Ok(value::uuid(self.fixed_long()?, self.fixed_long()?))
    }

    /// Reads a calendar as a date; its zone and its rules for weeks are dropped.
    fn calendar(&mut self) -> Read<Item> {
        self.text()?;
        let time = self.varint()?.cast_signed();
        self.flag()?;
        self.varint()?;
        self.varint()?;
        self.varint()?;
        Ok(time.into())
    }

    fn locale(&mut self) -> Read<Item> {
        let language = self.text()?;
        let country = self.text()?;
        let variant = self.text()?;
        Ok(value::locale(&language, "", &country, &variant, "").into())
    }

    /// Reads a bit set as the numbers of its set bits.
    fn bit_set(&mut self) -> Read<Item> {
        let words = self.varint()?;
        let mut set = Vec::new();
        for word in 0..words {
            let bits = self.fixed_long()?.cast_unsigned();
            value::bits(&mut self.reader, word, bits, &mut set)?;
        }
        Ok(Value::Array(set).into())
    }

    /// Reads a value that Redisson passes to Java serialization. Earlier versions wrote lists and maps like any others,
    /// and nothing of addresses.
    fn in_java(&mut self, form: Form, place: usize) -> Read<Item> {
        // One serializer, with one stream, for all classes of addresses.
        let stream_of = if matches!(form, Form::Host | Form::FinalHost) { usize::MAX } else { place };
        let begun = self.streams.remove(&stream_of);
        if begun.is_none() && !self.reader.rest().starts_with(java::MAGIC) {
            return match form {
                Form::JavaMap => self.known(Form::Map, place),
                Form::JavaList => self.known(Form::List, place),
                _ => {
                    let name = self.names.get(place).map_or("", |named| &named.name);
                    Err(self.reader.refuse(DecodeProblem::Opaque(ClassName::of(name))))
                }
            };
        }
        let mut stream = match begun {
            Some(stream) => stream,
            None => {
                self.reader.take(java::MAGIC.len())?;
                java::Stream::default()
            }
        };
        let item = self.nested(|kryo| java::embedded(&mut kryo.reader, &mut stream, kryo.types));
        self.streams.insert(stream_of, stream);
        item
    }

    /// Reads a value of `java.time`; `None` if it is invalid in Java.
    fn of_time(&mut self, form: Form) -> Read<Option<String>> {
        Ok(match form {
            Form::Duration => time::duration(self.fixed_long()?, self.varint32()?),
            Form::Instant => time::instant(self.varint()?.cast_signed(), self.varint32()?),
            Form::LocalDate => self.date()?,
            Form::LocalTime => self.time()?,
            Form::ZoneOffset => self.offset()?,
            Form::OffsetTime => joined(self.time()?, "", self.offset()?),
            Form::LocalDateTime => self.date_time()?,
            Form::OffsetDateTime => joined(self.date_time()?, "", self.offset()?),
            Form::ZonedDateTime => {
                let date_time = self.date_time()?;
                let zone = self.text()?;
                date_time.map(|date_time| time::zoned(&date_time, None, &zone))
            }
            Form::YearMonth => time::year_month(self.positive()?, self.reader.u8()?),
            Form::MonthDay => time::month_day(self.reader.u8()?, self.reader.u8()?),
            Form::Period => Some(time::period(self.positive()?, self.positive()?, self.positive()?)),
            _ => None,
        })
    }

    fn date(&mut self) -> Read<Option<String>> {
        Ok(time::date(self.positive()?, self.reader.u8()?, self.reader.u8()?))
    }

    fn date_time(&mut self) -> Read<Option<String>> {
        Ok(joined(self.date()?, "T", self.time()?))
    }

    /// Reads a time of day. Its last part other than zero is written with all bits inverted.
    fn time(&mut self) -> Read<Option<String>> {
        let mut parts = [0; 3];
        for part in &mut parts {
            let byte = self.reader.u8()?;
            *part = byte;
            if byte & 0x80 != 0 {
                *part = !byte;
                return Ok(time::time(parts[0], parts[1], parts[2], 0));
            }
        }
        let nano = self.varint32()?;
        Ok(time::time(parts[0], parts[1], parts[2], nano))
    }

    fn offset(&mut self) -> Read<Option<String>> {
        Ok(match self.reader.u8()?.cast_signed() {
            127 => time::offset(self.fixed_int()?),
            quarters => time::offset(i32::from(quarters) * 900),
        })
    }
}

fn joined(first: Option<String>, between: &str, second: Option<String>) -> Option<String> {
    Some(format!("{}{between}{}", first?, second?))
}
