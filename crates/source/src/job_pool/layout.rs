//! The layout of a pool: the id in a member of a bucket, the place of its job, and the fields that are read of the job.
//! Pure.

use std::sync::Arc;

use bytes::Bytes;

use super::java;
use super::record::{Field, Format, Record};
use delaybridge_core::message::Identity;
use delaybridge_ledger::claims::{Body, BodyAt};
use delaybridge_ledger::score::Unit;
use delaybridge_ledger::{AllBodies, Junk, NoPayload};
use delaybridge_link::Score;
use delaybridge_settings::words::words;

/// MessagePack's nil.
const NIL: Bytes = Bytes::from_static(b"\xc0");

/// Longest id in bytes.
const ID_MAX: usize = 1_024;
/// The placeholder for the id in the pattern of a key.
pub const ID: &str = "{id}";

/// The way in which an id is read in a member of a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdIn {
    /// The member is the id.
    Member,
    /// The member is this text and the id.
    Behind(String),
    /// The id ends at this text: `order-7#2`.
    Before(String),
    /// The member is a record, and this field of it is the id.
    Field(Format, String),
}

words! {
    /// The way in which names of keys and fields are written.
    pub enum Names {
        /// As they are.
        Plain = "plain",
        /// As serialized Java objects: a `RedisTemplate` without configured serializers.
        Java = "java",
    }
}

/// The place of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A string under this key, with the id in it.
    Value(String),
    /// A field of this hash, under the id.
    Shared(String),
    /// A field of a hash of the job's own, under a key with the id in it.
    Own(String, String),
}

/// The fields of a job's record that are read; none for what the record has not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The field that is delivered; all of the record if none.
    pub body: Option<String>,
    /// The job's topic.
    pub topic: Option<String>,
    /// The field with the job's own due time.
    pub due: Option<(String, Unit)>,
    /// The field with the number of attempts after the first.
    pub retries: Option<String>,
    /// Whether body and attempts are left out where they are empty and zero, as proto3 writes them. Elsewhere a record without the
    /// field is another program's, or the setting is wrong.
    pub left_out: bool,
}

/// A status, and how it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The place of the status.
    pub at: StatusAt,
    /// While the daemon has the job.
    pub reserved: String,
    /// While the job waits in a bucket.
    pub delay: String,
}

/// The place of a status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatusAt {
    /// In a field of the job's record.
    Record(String),
    /// In a field of the job's own hash, beside the record.
    Hash(String),
}

/// The layout of a pool.
#[derive(Debug, Clone)]
pub struct Layout {
    /// Of the ids.
    pub id: IdIn,
    /// Of the jobs.
    pub place: Place,
    /// The way in which names are written.
    pub names: Names,
    /// The format of a job.
    pub record: Format,
    /// The fields that are read of it.
    pub wanted: Wanted,
    /// The status that is written.
    pub status: Option<Box<Status>>,
}

/// An id, and whether it is a number: Java writes a number in another way than its digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobId {
    /// The bytes, a number in decimal digits.
    pub bytes: Bytes,
    number: Option<i64>,
}

impl JobId {
    /// Returns the identity of the job for others.
    pub fn identity(&self) -> Identity {
        std::str::from_utf8(&self.bytes)
            .ok()
            .and_then(Identity::named)
            .unwrap_or_else(|| delaybridge_ledger::junk_id(&self.bytes).into())
    }
}

impl Layout {
    /// Reads the id in a member.
    ///
    /// # Errors
    ///
    /// For a member of another layout. The message quotes nothing of it.
    pub fn id(&self, member: &Bytes) -> Result<JobId, Junk> {
        let plain = |bytes: Bytes| JobId { bytes, number: None };
        let id = match &self.id {
            IdIn::Member => plain(member.clone()),
            IdIn::Behind(prefix) => match member.strip_prefix(prefix.as_bytes()) {
                Some(id) => plain(member.slice_ref(id)),
                None => return Err(Junk(format!("the member does not begin with `{prefix}`"))),
            },
            IdIn::Before(mark) => match member.windows(mark.len().max(1)).position(|at| at == mark.as_bytes()) {
                Some(at) => plain(member.slice(..at)),
                None => return Err(Junk(format!("the member has no `{mark}`"))),
            },
            IdIn::Field(format, name) => {
                let field = Record::read(*format, member)?.field(name);
                match field.ok_or_else(|| Junk(format!("the member has no field `{name}`")))? {
                    Field::Bytes(bytes) => plain(bytes),
                    Field::Number(text) => JobId { number: text.parse().ok(), bytes: text.into() },
                    Field::Other(_) => return Err(Junk(format!("the field `{name}` is neither a text nor a number"))),
                }
            }
        };
        match id.bytes.len() {
            1..=ID_MAX => Ok(id),
            0 => Err(Junk("the id is empty".to_owned())),
            _ => Err(Junk(format!("the id is longer than {ID_MAX} bytes"))),
        }
    }

    /// Returns the place of the job with this id. `None` if its name cannot be written.
    pub fn place(&self, id: &JobId) -> Option<BodyAt> {
        Some(match &self.place {
            Place::Value(pattern) => BodyAt::Value { key: self.key(pattern, id)? },
            Place::Shared(key) => BodyAt::Shared { key: self.name(key)?, field: self.field(id)? },
            Place::Own(pattern, field) => BodyAt::Own { key: self.key(pattern, id)?, field: self.name(field)? },
        })
    }

    /// Returns the place of all jobs; `None` where the names of their keys cannot be told from others.
    pub fn all_places(&self) -> Option<AllBodies> {
        let around = |pattern: &str| {
            let (before, behind) = pattern.split_once(ID).unwrap_or((pattern, ""));
            let plain = self.names == Names::Plain && !before.is_empty();
            plain.then(|| (Bytes::from(before.to_owned()), Bytes::from(behind.to_owned())))
        };
        match &self.place {
            Place::Shared(key) => Some(AllBodies::Fields { key: self.name(key)? }),
            Place::Value(pattern) => {
                let (before, behind) = around(pattern)?;
                Some(AllBodies::Keys { before, behind, field: None })
            }
            Place::Own(pattern, field) => {
                let (before, behind) = around(pattern)?;
                Some(AllBodies::Keys { before, behind, field: Some(self.name(field)?) })
            }
        }
    }

    /// Returns the member of a bucket with this id; `None` where a member is more than the id.
    pub fn member(&self, id: &[u8]) -> Option<Bytes> {
        match (&self.id, self.names) {
            (IdIn::Member, Names::Plain) => Some(Bytes::copy_from_slice(id)),
            (IdIn::Behind(prefix), Names::Plain) => Some([prefix.as_bytes(), id].concat().into()),
            _ => None,
        }
    }

    /// Returns the bytes of a name.
    pub fn name(&self, name: &str) -> Option<Bytes> {
        match self.names {
            Names::Plain => Some(name.to_owned().into()),
            Names::Java => java::text(name),
        }
    }

    /// Returns the name of a field for this id.
    pub fn field(&self, id: &JobId) -> Option<Bytes> {
        match (self.names, id.number) {
            (Names::Plain, _) => Some(id.bytes.clone()),
            (Names::Java, Some(number)) => Some(java::long(number)),
            (Names::Java, None) => java::text(std::str::from_utf8(&id.bytes).ok()?),
        }
    }

    /// Returns the key that a pattern makes for this id.
    pub fn key(&self, pattern: &str, id: &JobId) -> Option<Bytes> {
        let (before, behind) = pattern.split_once(ID).unwrap_or((pattern, ""));
        let key = [before.as_bytes(), &id.bytes, behind.as_bytes()].concat();
        match self.names {
            Names::Plain => Some(key.into()),
            Names::Java => java::text(std::str::from_utf8(&key).ok()?),
        }
    }

    /// Reads the bytes of a job that are delivered.
    ///
    /// # Errors
    ///
    /// When there is nothing to deliver, or not now: it is due later by its own record.
    pub fn payload(&self, body: &Body) -> Result<Bytes, NoPayload> {
        let (bytes, read_ms) = match body {
            Body::Here { bytes, read_ms } => (bytes, *read_ms),
            Body::Missing => return Err(NoPayload::Missing),
            Body::NoRoom(_) => return Err(NoPayload::NoRoom),
            Body::WrongType => return Err(Junk("the job's key holds a value of another type".to_owned()).into()),
        };
        let Wanted { body, due, .. } = &self.wanted;
        if body.is_none() && due.is_none() {
            return Ok(bytes.clone());
        }
        let record = Record::read(self.record, bytes)?;
        let field = |name: &str| record.field(name).ok_or_else(|| Junk(format!("the job has no field `{name}`")));
        if let Some((name, unit)) = due {
            let digits = field(name)?.into_bytes();
            let score = std::str::from_utf8(&digits).ok().and_then(Score::parse);
            let due_ms = unit.due_ms(score.ok_or_else(|| Junk(format!("the field `{name}` is no number")))?);
            if due_ms > read_ms {
                return Err(NoPayload::NotDue(due_ms));
            }
        }
        match body {
            Some(name) if self.is_left_out(&record, name) => Ok(Bytes::new()),
            Some(name) => Ok(field(name)?.into_bytes()),
            None => Ok(bytes.clone()),
        }
    }

    /// Returns whether a field has the value of nothing: `null` in JSON, nil in MessagePack, and what was left out.
    fn is_left_out(&self, record: &Record, name: &str) -> bool {
        match record {
            Record::Tree(value) => value.get(name).is_some_and(serde_json::Value::is_null),
            Record::Fields(_) => match self.record {
                Format::Msgpack => record.field(name) == Some(Field::Other(NIL)),
                _ => self.wanted.left_out && record.field(name).is_none(),
            },
        }
    }

    /// Returns the number of attempts that a job may have, where its record says so.
    pub fn tries(&self, body: &Body) -> Option<u32> {
        let (name, Body::Here { bytes, .. }) = (self.wanted.retries.as_ref()?, body) else { return None };
        let record = Record::read(self.record, bytes).ok()?;
        let retries = match record.field(name) {
            Some(field) => field.number()?,
            None if self.wanted.left_out => 0,
            None => return None,
        };
        Some(u32::try_from(retries.max(0)).unwrap_or(u32::MAX).saturating_add(1))
    }

    /// Returns the topic of a job, where its record has one.
    pub fn topic(&self, body: &Body) -> Option<Arc<str>> {
        let (name, Body::Here { bytes, .. }) = (self.wanted.topic.as_ref()?, body) else { return None };
        let topic = Record::read(self.record, bytes).ok()?.field(name)?.into_bytes();
        String::from_utf8(topic.into()).ok().map(Arc::from)
    }
}
