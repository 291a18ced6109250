//! The status that programs of this design keep in a job: it says `reserved` while the daemon has the job, and `delay` again when
//! the job goes back.
//!
//! Nothing depends on it. A status that cannot be written stays as it is, and the job is delivered all the same.
//!
//! The status is written after the bodies are read and before the claim is answered, only if the record is still what was
//! read. The hash that settling compares is that of the record with the new status.

use std::sync::LazyLock;

use bytes::Bytes;

use super::JobPool;
use super::layout::{Layout, Status, StatusAt};
use super::record::{Field, Format, Record};
use delaybridge_ledger::claims::{Body, BodyAt, Element};
use delaybridge_ledger::{StatusWrite, StoreError, text};
use delaybridge_link::{BadReply, Conn, LinkError, Script};

/// Writes the status of jobs, each only if it still is what was read.
pub(super) static NOTE: LazyLock<Script> =
    LazyLock::new(|| Script::new("job_status", include_str!("scripts/status.lua").to_owned()));

/// A larger record keeps its status: it would be sent back as a whole.
const LARGEST: usize = 1 << 20;
/// Places in a record where the text of a status is tried.
const PLACES: usize = 16;

/// The bytes to write.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Write {
    Record(Bytes),
    /// A field of the job's own hash.
    Field(Bytes, Bytes),
}

impl Layout {
    fn write(&self, body: &Body, noted: StatusWrite) -> Option<Write> {
        let (Some(status), Body::Here { bytes, .. }) = (&self.status, body) else { return None };
        let value = match noted {
            StatusWrite::Reserved => &status.reserved,
            StatusWrite::Back => &status.delay,
        };
        // What cannot be delivered stays as its program wrote it.
        if noted == StatusWrite::Reserved && self.payload(body).is_err() {
            return None;
        }
        match &status.at {
            StatusAt::Record(field) => restated(self.record, bytes, field, value).map(Write::Record),
            StatusAt::Hash(field) => Some(Write::Field(self.name(field)?, value.clone().into())),
        }
    }

    /// Returns the record with the status of a job that waits.
    pub fn waiting(&self, record: Bytes) -> Bytes {
        match self.status.as_deref() {
            Some(Status { at: StatusAt::Record(field), delay, .. }) => {
                restated(self.record, &record, field, delay).unwrap_or(record)
            }
            _ => record,
        }
    }
}

/// Returns the record with another text in this field, and no other change. `None` if it has that text already, has no
/// such field, or has none of a kind that can be written.
pub fn restated(format: Format, record: &Bytes, field: &str, value: &str) -> Option<Bytes> {
    if record.len() > LARGEST {
        return None;
    }
    let before = Record::read(format, record).ok()?;
    let Field::Bytes(old) = before.field(field)? else { return None };
    if old == value.as_bytes() {
        return None;
    }
    let from = written(format, std::str::from_utf8(&old).ok()?)?;
    let to = written(format, value)?;
    let wanted = before.with(field, value);
    // The same text may be somewhere else in the record. Right is the place where nothing but this field changes.
    let places = record.windows(from.len()).enumerate().filter(|(_, at)| *at == from).take(PLACES);
    let mut changed = places.map(|(at, _)| Bytes::from([&record[..at], &to, &record[at + from.len()..]].concat()));
    changed.find(|changed| Record::read(format, changed).is_ok_and(|after| after == wanted))
}

/// Returns a text as a value in a record of this format.
fn written(format: Format, value: &str) -> Option<Vec<u8>> {
    let length = value.len();
    Some(match format {
        Format::Json => serde_json::to_vec(value).ok()?,
        // A string, and the name of an enum's constant alike.
        Format::Java => [b"t", &u16::try_from(length).ok()?.to_be_bytes()[..], value.as_bytes()].concat(),
        Format::Msgpack if length < 32 => [&[0xa0 | u8::try_from(length).ok()?][..], value.as_bytes()].concat(),
        Format::Msgpack => [&[0xd9, u8::try_from(length).ok()?][..], value.as_bytes()].concat(),
        Format::Raw | Format::Ttr | Format::Protobuf => return None,
    })
}

impl JobPool {
    /// Writes the status of these jobs, and takes over what their records are then.
    pub(super) async fn write_status(
        &self,
        conn: &Conn,
        elements: &mut [Element],
        noted: StatusWrite,
    ) -> Result<(), StoreError> {
        let mut keys = Vec::new();
        let mut args = Vec::new();
        let mut written = Vec::new();
        for (place, element) in elements.iter().enumerate() {
            let Some(body @ Body::Here { bytes, .. }) = element.body.as_deref() else { continue };
            let member = element.bytes();
            let places = self.spec.layout.id(&member).ok().and_then(|id| self.spec.layout.place(&id));
            let (Some(at), Some(write)) = (places, self.spec.layout.write(body, noted)) else { continue };
            if keys.last() != Some(at.key()) {
                keys.push(at.key().clone());
            }
            let kind = if matches!(at, BodyAt::Value { .. }) { "s" } else { "h" };
            let field = at.field().cloned().unwrap_or_default();
            let sha1 = sha1_smol::Sha1::from(bytes).digest().to_string();
            args.extend([text(keys.len()), Bytes::from_static(kind.as_bytes()), field, sha1.into()]);
            match write {
                Write::Record(record) => {
                    args.extend([Bytes::new(), record.clone()]);
                    written.push((place, Some(record)));
                }
                Write::Field(field, value) => {
                    args.extend([field, value]);
                    written.push((place, None));
                }
            }
        }
        if written.is_empty() {
            return Ok(());
        }
        let answer = match conn.script(&NOTE, &keys, &args).await {
            Ok(answer) => answer,
            // Nothing was written, and no job waits for that.
            Err(LinkError::Server { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let letters = match answer {
            redis::Value::BulkString(letters) if letters.len() == written.len() => letters,
            _ => return Err(BadReply { script: "job_status", expected: "a letter for each" }.into()),
        };
        for ((place, record), letter) in written.into_iter().zip(letters) {
            if let (Some(record), b'y', Some(Body::Here { bytes, .. })) =
                (record, letter, elements[place].body.as_deref_mut())
            {
                *bytes = record;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_field_changes_wherever_its_text_is() {
        let json = |from: &str, value: &str| {
            let after = restated(Format::Json, &Bytes::from(from.to_owned()), "status", value);
            after.map(|after| String::from_utf8(after.to_vec()).expect("JSON"))
        };
        let wrapped =
            r#"["demo.Job",{"topic":"DELAY","message":"\"DELAY\"", "status" : "DELAY","n":{"status":"DELAY"}}]"#;
        let expected =
            r#"["demo.Job",{"topic":"DELAY","message":"\"DELAY\"", "status" : "RESERVED","n":{"status":"DELAY"}}]"#;
        assert_eq!(json(wrapped, "RESERVED").as_deref(), Some(expected));
        // There already, missing, of another kind, and no record at all.
        for none in [r#"{"status":"RESERVED"}"#, r#"{"topic":"DELAY"}"#, r#"{"status":1}"#, "no JSON", ""] {
            assert_eq!(json(none, "RESERVED"), None, "{none}");
        }
        let msgpack = Bytes::from_static(b"\x82\xa6status\xa5DELAY\xa1a\xa5DELAY");
        let after = restated(Format::Msgpack, &msgpack, "status", "RESERVED").expect("a change");
        assert_eq!(&after[..], b"\x82\xa6status\xa8RESERVED\xa1a\xa5DELAY");
        assert_eq!(restated(Format::Msgpack, &after, "status", "DELAY"), Some(msgpack));
        assert_eq!(restated(Format::Ttr, &Bytes::from_static(b"300;body"), "body", "x"), None);
    }

    /// The enum of the port that is recorded in the vectors.
    #[test]
    fn the_constant_of_a_java_enum_changes_and_the_object_is_read_as_before() {
        let vectors = include_str!("../../../../tests/vectors/job_pools.jsonl");
        let line = vectors.lines().find(|line| line.contains("\"youzan\"")).expect("a recording");
        let vector: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let job = Bytes::from(hex::decode(vector["job"]["hex"].as_str().expect("digits")).expect("hex"));
        let reserved = restated(Format::Java, &job, "status", "RESERVED").expect("a change");
        let field = |job: &Bytes, name| Record::read(Format::Java, job).expect("a record").field(name);
        assert_eq!(field(&reserved, "status"), Some(Field::Bytes(Bytes::from_static(b"RESERVED"))));
        for name in ["id", "topic", "message", "retryCount", "ttrTime", "delayTime"] {
            assert_eq!(field(&reserved, name), field(&job, name), "{name}");
        }
        assert_eq!(restated(Format::Java, &reserved, "status", "DELAY"), Some(job));
    }
}
