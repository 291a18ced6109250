//! Records: bytes with named fields, as programs keep their jobs and the members of their buckets.
//!
//! Fields are read by name, never by class or order: the class of a Java object differs from team to team. A value keeps its
//! bytes; numbers become their decimal text.

mod field;
mod msgpack;
mod protobuf;

pub use self::field::Field;

use bytes::Bytes;
use redisson_codecs::{Codec, Coding, JavaTypes};
use serde_json::Value;

use delaybridge_ledger::Junk;
use delaybridge_settings::words::words;

words! {
    /// The format of a record.
    pub enum Format {
        /// No fields: all of the record is the body.
        Raw = "raw",
        /// A JSON object, or one behind the name of its Java class: `["demo.Job",{...}]`.
        Json = "json",
        /// A map of MessagePack.
        Msgpack = "msgpack",
        /// A message of Protocol Buffers; the names of its fields are their numbers.
        Protobuf = "protobuf",
        /// A serialized Java object.
        Java = "java",
        /// `TTR;BODY`: the fields `ttr` and `body`.
        Ttr = "ttr",
    }
}

/// A record that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// Names and values, in their order.
    Fields(Vec<(Bytes, Field)>),
    /// A value with fields below it.
    Tree(Value),
}

impl Record {
    /// Reads a record of named fields; [`Format::Raw`] has none.
    ///
    /// # Errors
    ///
    /// For bytes of another format. The message quotes none of them.
    pub fn read(format: Format, bytes: &Bytes) -> Result<Record, Junk> {
        match format {
            Format::Raw => Ok(Record::Fields(Vec::new())),
            Format::Json => match serde_json::from_slice(bytes) {
                Ok(value) => Ok(Record::Tree(without_class(value))),
                Err(error) => Err(Junk(format!("not JSON: line {}, column {}", error.line(), error.column()))),
            },
            Format::Java => {
                let coding = Coding { java_types: JavaTypes::Strip, ..Codec::Java.into() };
                let payload = redisson_codecs::decode(coding, bytes).map_err(|error| Junk(error.to_string()))?;
                match payload.view() {
                    redisson_codecs::View::Json(value) => Ok(Record::Tree(value.clone())),
                    _ => Err(Junk("not a serialized Java object with fields".to_owned())),
                }
            }
            Format::Msgpack => msgpack::fields(bytes).map(Record::Fields),
            Format::Protobuf => protobuf::fields(bytes).map(Record::Fields),
            Format::Ttr => ttr(bytes).map(Record::Fields),
        }
    }

    /// Returns the field of this name; of several the last.
    pub fn field(&self, name: &str) -> Option<Field> {
        match self {
            Record::Fields(fields) => {
                fields.iter().rev().find(|(field, _)| field == name.as_bytes()).map(|(_, value)| value.clone())
            }
            Record::Tree(value) => match without_class(value.get(name)?.clone()) {
                Value::Null => None,
                Value::String(text) => Some(Field::Bytes(text.into())),
                Value::Number(number) => Some(Field::Number(number.to_string())),
                other => Some(Field::Other(other.to_string().into())),
            },
        }
    }
}

impl Record {
    /// Builds the record with this text in a field that it has.
    pub(super) fn with(&self, name: &str, text: &str) -> Record {
        let mut changed = self.clone();
        match &mut changed {
            Record::Fields(fields) => {
                if let Some((_, value)) = fields.iter_mut().rev().find(|(field, _)| field == name.as_bytes()) {
                    *value = Field::Bytes(text.to_owned().into());
                }
            }
            Record::Tree(value) => {
                if let Some(value) = value.get_mut(name) {
                    *value = Value::String(text.to_owned());
                }
            }
        }
        changed
    }
}

impl Record {
    /// Builds the record with this number in a field that it has.
    pub(super) fn with_number(&self, name: &str, number: i64) -> Record {
        let mut changed = self.clone();
        match &mut changed {
            Record::Fields(fields) => {
                if let Some((_, value)) = fields.iter_mut().rev().find(|(field, _)| field == name.as_bytes()) {
                    *value = Field::Number(number.to_string());
                }
            }
            Record::Tree(value) => match value.get_mut(name) {
                // Behind the name of its class.
                Some(Value::Array(pair)) if pair.len() == 2 => pair[1] = number.into(),
                Some(value) => *value = number.into(),
                None => {}
            },
        }
        changed
    }
}

/// Removes the name of a class that Jackson may write in front: `["java.lang.Long",7]`.
fn without_class(value: Value) -> Value {
    match value {
        Value::Array(mut pair) if pair.len() == 2 && pair[0].is_string() && !pair[1].is_string() => pair.remove(1),
        value => value,
    }
}

/// Reads `300;BODY`.
fn ttr(bytes: &Bytes) -> Result<Vec<(Bytes, Field)>, Junk> {
    let junk = || Junk("not a number of seconds, a semicolon and a body".to_owned());
    let mark = bytes.iter().take(20).position(|byte| *byte == b';').ok_or_else(junk)?;
    let digits =
        std::str::from_utf8(&bytes[..mark]).ok().filter(|text| text.parse::<u64>().is_ok()).ok_or_else(junk)?;
    Ok(vec![
        (Bytes::from_static(b"ttr"), Field::Number(digits.to_owned())),
        (Bytes::from_static(b"body"), Field::Bytes(bytes.slice(mark + 1..))),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use delaybridge_settings::words::Words as _;

    fn field(format: Format, record: &[u8], name: &str) -> Option<Field> {
        Record::read(format, &Bytes::copy_from_slice(record)).expect("a record").field(name)
    }

    fn text(value: &str) -> Option<Field> {
        Some(Field::Bytes(value.to_owned().into()))
    }

    fn number(value: i64) -> Option<Field> {
        Some(Field::Number(value.to_string()))
    }

    #[test]
    fn json_is_read_with_and_without_classes() {
        for record in [
            r#"{"id":7,"message":"{\"a\":1}","nested":{"b":2},"gone":null}"#,
            r#"{"@class":"demo.Job","id":7,"message":"{\"a\":1}","nested":{"b":2}}"#,
            r#"["demo.Job",{"id":["java.lang.Long",7],"message":"{\"a\":1}","nested":{"b":2}}]"#,
        ] {
            let field = |name| field(Format::Json, record.as_bytes(), name);
            assert_eq!((field("id"), field("message"), field("gone")), (number(7), text(r#"{"a":1}"#), None));
            assert_eq!(field("nested"), Some(Field::Other(Bytes::from_static(br#"{"b":2}"#))));
        }
    }

    #[test]
    fn what_stands_behind_the_time_to_run_is_the_body() {
        assert_eq!(field(Format::Ttr, b"300;a;b", "body"), text("a;b"));
        assert_eq!(field(Format::Ttr, b"300;a;b", "ttr"), number(300));
        for junk in ["", "300", ";a", "-1;a", "x;a", "1 ;a", "999999999999999999999;a"] {
            assert!(Record::read(Format::Ttr, &Bytes::from_static(junk.as_bytes())).is_err(), "{junk}");
        }
    }

    /// The bytes that a Spring `RedisTemplate` writes without configured serializers, recorded with JDK 17.
    #[test]
    fn java_objects_are_read_by_the_names_of_their_fields() {
        let job = hex::decode(concat!(
            "aced00057372000864656d6f2e4a6f62857c36a0e6fcfc5d0200074a000964656c617954696d6549000a7265747279436f756e744a0007",
            "74747254696d654c000269647400104c6a6176612f6c616e672f4c6f6e673b4c00076d6573736167657400124c6a6176612f6c616e672f",
            "537472696e673b4c00067374617475737400104c64656d6f2f4a6f625374617475733b4c0005746f70696371007e000278700000000000",
            "0075300000000300000000000013887372000e6a6176612e6c616e672e4c6f6e673b8be490cc8f23df0200014a000576616c7565787200",
            "106a6176612e6c616e672e4e756d62657286ac951d0b94e08b02000078700000011f71fb04cb74000d7b226f726465724964223a377d7e",
            "72000e64656d6f2e4a6f6253746174757300000000000000001200007872000e6a6176612e6c616e672e456e756d000000000000000012",
            "0000787074000544454c41597400056f72646572",
        ))
        .expect("hex");
        let field = |name| field(Format::Java, &job, name);
        assert_eq!((field("id"), field("message")), (number(1_234_567_890_123), text(r#"{"orderId":7}"#)));
        assert_eq!((field("topic"), field("status")), (text("order"), text("DELAY")));
        assert_eq!(
            (field("ttrTime"), field("retryCount"), field("delayTime")),
            (number(5_000), number(3), number(30_000))
        );
    }

    /// Any bytes give fields or an answer that they do not, and never a panic.
    #[test]
    fn no_bytes_make_a_reader_panic() {
        let mut random = fastrand::Rng::with_seed(5);
        let samples: [&[u8]; 4] = [
            b"\x85\xa11\xa5order\xa12\xa115\xa13\xce\x6b\x02\x94\xd0\xa14\x03\xa15\xb1{\"orderId\":123456}",
            b"\x0a\x05email\x12\x04body\x18\x96\x01\x22\x00",
            br#"["demo.Job",{"id":["java.lang.Long",7]}]"#,
            b"300;body",
        ];
        for _ in 0..20_000 {
            let mut bytes = samples[random.usize(..samples.len())].to_vec();
            for _ in 0..random.usize(..6) {
                let at = random.usize(..bytes.len());
                bytes[at] = random.u8(..);
            }
            bytes.truncate(random.usize(..=bytes.len()));
            let bytes = Bytes::from(bytes);
            for &(_, format) in Format::VALUES {
                if let Ok(record) = Record::read(format, &bytes) {
                    let _ = (record.field("1"), record.field("id").and_then(|field| field.number()));
                }
            }
        }
    }
}
