//! The foreign half of a queue that is a topic of the job queue: its part of the scripts, its members and its records.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::config::JobsSpec;
use super::{SCRIPTS, SCRIPTS_ON_TEST_CLOCK};
use crate::zset::{Body as Payload, Naming, ZsetSource, ZsetSpec};
use delaybridge_core::carried::{CONTENT_TYPE, Carried};
use delaybridge_core::message::{Identity, MessageId, Origin};
use delaybridge_jobs::{KINDS, Keys, Record, wake};
use delaybridge_ledger::score::Unit;
use delaybridge_ledger::{
    Activity, AllBodies, Announcement, Announcements, Bodies, Body, BodyAt, ClaimAdded, CompanionKey, Depths, Hints,
    Junk, NoPayload, Packed, Repair, Search, Shape, Source, glob_literal, junk_id, millis,
};
use delaybridge_link::rights::Grant;
use delaybridge_link::{BadReply, Fields};

/// A topic.
#[derive(Clone)]
pub struct JobsSource {
    pub(super) spec: JobsSpec,
    pub(super) keys: Keys,
    set: ZsetSource,
    wake: Arc<str>,
    scripts: &'static delaybridge_ledger::Scripts,
}

impl JobsSource {
    /// Creates the topic that a configuration names.
    pub fn of(spec: &JobsSpec) -> Self {
        let prefix = &spec.space.prefix;
        let keys = Keys::named(prefix, &spec.topic);
        let due = ZsetSpec {
            key: spec.key.clone(),
            score: Unit::Millis,
            id: Naming::Hash,
            body: Payload::Member,
            bytes: None,
            space: spec.space.clone(),
        };
        let set = ZsetSource::of(&due);
        JobsSource { spec: spec.clone(), keys, set, wake: wake(prefix).into(), scripts: &SCRIPTS }
    }

    /// Puts the topic under the test clock.
    pub fn on_test_clock(self) -> Self {
        JobsSource { scripts: &SCRIPTS_ON_TEST_CLOCK, ..self }
    }

    /// Returns the id of a job as its clients know it, `TOPIC~ID`; of one that is too long for a header, what is behind
    /// the topic.
    fn identity_of(&self, member: &[u8]) -> Option<Identity> {
        let local = std::str::from_utf8(member).ok()?;
        Identity::named(&format!("{}~{local}", self.spec.topic)).or_else(|| Identity::named(local))
    }

    /// Returns the part of an id behind the topic.
    fn local<'a>(&self, text: &'a str) -> &'a str {
        text.strip_prefix(&*self.spec.topic).and_then(|rest| rest.strip_prefix('~')).unwrap_or(text)
    }
}

impl Source for JobsSource {
    fn ledger_keys(&self) -> delaybridge_ledger::Keys {
        self.set.ledger_keys()
    }

    fn keys(&self) -> Vec<Bytes> {
        [self.keys.due(), self.keys.topic(), self.keys.urgent()].map(Clone::clone).into()
    }

    fn is_ours(&self) -> bool {
        true
    }

    fn scripts(&self) -> &'static delaybridge_ledger::Scripts {
        self.scripts
    }

    fn claim_args(&self, hints: &Hints, ahead: Duration) -> Vec<Bytes> {
        self.set.claim_args(hints, ahead)
    }

    fn claim_added(&self, added: Fields) -> Result<ClaimAdded, BadReply> {
        self.set.claim_added(added)
    }

    fn depth_args(&self) -> Vec<Bytes> {
        self.set.depth_args()
    }

    fn depths(&self, added: Fields) -> Result<Depths, BadReply> {
        self.set.depths(added)
    }

    fn open(&self, _origin: Origin, _given: MessageId, member: &Bytes) -> (Identity, Result<Bytes, Junk>) {
        let junk = Err(Junk("the id is not one of the job queue".to_owned()));
        (self.identity_of(member).unwrap_or_else(|| junk_id(member).into()), junk)
    }

    fn schedules(&self) -> Vec<Bytes> {
        vec![self.keys.due().clone()]
    }

    fn rights(&self, activity: Activity) -> Vec<Grant> {
        self.to_do(activity)
    }

    fn search(&self) -> &dyn Search {
        self
    }

    fn repair(&self) -> &dyn Repair {
        self
    }

    fn announcements(&self) -> Option<&dyn Announcements> {
        Some(self)
    }

    fn bodies(&self) -> Option<&dyn Bodies> {
        Some(self)
    }
}

impl Search for JobsSource {
    fn read(&self, _given: MessageId, start: &Bytes, size: usize) -> Packed {
        let whole = (start.len() == size).then(|| self.identity_of(start));
        let shape = if matches!(whole, Some(None)) { Shape::Junk } else { Shape::Bare };
        let id = whole.map(|id| id.unwrap_or_else(|| junk_id(start).into()));
        Packed { id, shape, size, payload: start.clone() }
    }

    fn identity(&self, text: &str) -> Option<Identity> {
        self.identity_of(self.local(text).as_bytes())
    }

    fn patterns(&self, wanted: &Identity) -> Vec<Vec<u8>> {
        let text = wanted.text.as_deref().unwrap_or_default();
        vec![glob_literal(self.local(text).as_bytes())]
    }

    fn patterns_inside(&self, wanted: &Identity) -> Vec<Vec<u8>> {
        let text = wanted.text.as_deref().unwrap_or_default();
        vec![[b"*", &glob_literal(self.local(text).as_bytes())[..]].concat()]
    }
}

impl Repair for JobsSource {
    fn typed_keys(&self) -> Vec<(Bytes, &'static str)> {
        self.keys.of_waiting().iter().cloned().zip(KINDS.map(|(_, kind)| kind)).collect()
    }
}

impl Announcements for JobsSource {
    fn channel(&self) -> &Arc<str> {
        &self.wake
    }

    fn announcement(&self, payload: &[u8]) -> Option<Announcement> {
        (payload == self.spec.topic.as_bytes()).then_some(Announcement::Changed)
    }
}

/// Reads the body of a job; of a message of an input, the message's own.
fn payload(record: &Record) -> Result<Bytes, NoPayload> {
    if record.content_type == CONTENT_TYPE {
        Carried::open(&record.body).map(|(_, body)| body).map_err(|error| Junk(error.to_string()).into())
    } else {
        Ok(record.body.clone())
    }
}

impl Bodies for JobsSource {
    fn body_at(&self, member: &Bytes) -> Option<BodyAt> {
        self.identity_of(member)?;
        Some(BodyAt::Shared { key: self.keys.records().clone(), field: member.clone() })
    }

    fn open_body(&self, member: &Bytes, body: &Body) -> (Identity, Result<Bytes, NoPayload>) {
        let id = self.identity_of(member).unwrap_or_else(|| junk_id(member).into());
        let payload = match body {
            Body::Here { bytes, read_ms } => match Record::read(bytes) {
                // The clock of the job queue removes the record, and counts the job.
                Some(record) if record.expires_ms.is_some_and(|ends_ms| ends_ms <= *read_ms) => Err(NoPayload::Missing),
                Some(record) => payload(&record),
                None => Err(Junk("the record of the job is damaged, or of a newer version".to_owned()).into()),
            },
            Body::Missing => Err(NoPayload::Missing),
            Body::NoRoom(_) => Err(NoPayload::NoRoom),
            Body::WrongType => Err(Junk("the records of the topic are in no hash".to_owned()).into()),
        };
        (id, payload)
    }

    fn companions(&self, member: &Bytes, record: &Bytes) -> Vec<CompanionKey> {
        let mut beside = vec![CompanionKey::Field { key: self.keys.state().clone(), field: member.clone() }];
        let record = Record::read(record);
        if record.as_ref().is_none_or(|record| record.expires_ms.is_some()) {
            beside.push(CompanionKey::Member { key: self.keys.expiry().clone(), member: member.clone() });
        }
        // The id of its client's is known for a while, so that a repeated `add` does not make a second job of it.
        if let (Some(true), Some(remember)) = (record.map(|record| record.own_id), self.spec.remember) {
            let key = self.keys.gone().clone();
            let member = member.clone();
            beside.push(CompanionKey::Remembered { key, member, ms: millis(remember) });
        }
        beside
    }

    fn remembers_cancelled(&self) -> bool {
        true
    }

    fn cancelled(&self, member: &Bytes, record: &Bytes) -> Vec<CompanionKey> {
        let record = Record::read(record).filter(|record| record.own_id && record.content_type == CONTENT_TYPE);
        let Some(record) = record else { return Vec::new() };
        let body = sha1_smol::Sha1::from(&record.body[..]).digest().to_string();
        // As in the job queue's `delete.lua`. What is remembered until now is forgotten.
        let mark = |letter: &[u8], ms| CompanionKey::Remembered {
            key: self.keys.gone().clone(),
            member: [letter, &member[..], b" ", body.as_bytes()].concat().into(),
            ms,
        };
        let deleted = self.spec.remember.map(|remember| mark(b"!", millis(remember)));
        deleted.into_iter().chain([mark(b"=", 0)]).collect()
    }

    fn revived(&self, record: Bytes) -> Bytes {
        Record::for_ever(record)
    }

    fn are_certain(&self) -> bool {
        true
    }

    fn carried(&self, body: &Body) -> Option<Carried> {
        let Body::Here { bytes, .. } = body else { return None };
        let record = Record::read(bytes).filter(|record| record.content_type == CONTENT_TYPE)?;
        Some(Carried::open(&record.body).ok()?.0)
    }

    fn topic(&self, _body: &Body) -> Option<Arc<str>> {
        Some(self.spec.topic.as_str().into())
    }

    fn all_bodies(&self) -> Option<AllBodies> {
        Some(AllBodies::Fields { key: self.keys.records().clone() })
    }

    fn member_of_body(&self, name: &Bytes) -> Option<Bytes> {
        Some(name.clone())
    }

    fn other_ids(&self) -> Vec<Bytes> {
        vec![self.keys.reserved().clone(), self.keys.dead().clone()]
    }
}
