//! The foreign half of a queue that is a pool of jobs: its part of the scripts, its members and its jobs.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::config::JobPoolSpec;
use super::status::NOTE;
use super::{SCRIPTS, SCRIPTS_ON_TEST_CLOCK};
use crate::zset;
use delaybridge_core::message::{Identity, MessageId, Origin};
use delaybridge_ledger::claims::Element;
use delaybridge_ledger::score::Unit;
use delaybridge_ledger::{
    Activity, Ahead, AllBodies, Bodies, Body, BodyAt, BodyStatus, ClaimAdded, CompanionKey, Depths, Hints, Junk,
    Leftovers, NoPayload, Packed, Repair, Search, Shape, Source, StatusWrite, StoreError, glob_literal, junk_id,
    millis, text,
};
use delaybridge_link::rights::Grant;
use delaybridge_link::{BadReply, Conn, Fields, Score, Script};

/// A pool of jobs.
#[derive(Clone)]
pub struct JobPool {
    pub(super) spec: JobPoolSpec,
    pub(super) tag: String,
    pub(super) buckets: Vec<Bytes>,
    pub(super) ready: Vec<Bytes>,
    pub(super) beside: Option<Bytes>,
    scripts: &'static delaybridge_ledger::Scripts,
}

impl JobPool {
    /// Creates the pool that a configuration describes.
    pub fn of(spec: &JobPoolSpec) -> Self {
        // The configuration has refused names that cannot be written.
        let name = |key: &String| spec.layout.name(key).unwrap_or_default();
        JobPool {
            tag: zset::tag(spec.first_bucket()),
            buckets: spec.buckets.iter().map(name).collect(),
            ready: spec.ready.iter().map(name).collect(),
            beside: spec.beside.as_ref().map(name),
            scripts: &SCRIPTS,
            spec: spec.clone(),
        }
    }

    /// Puts the pool under the test clock.
    pub fn on_test_clock(self) -> Self {
        JobPool { scripts: &SCRIPTS_ON_TEST_CLOCK, ..self }
    }

    /// Returns the unit of the scores, in the words of the scripts.
    fn unit_args(&self) -> [Bytes; 3] {
        self.spec.score.factors().map(text)
    }

    fn identity_of(&self, member: &Bytes) -> Result<Identity, Junk> {
        Ok(self.spec.layout.id(member)?.identity())
    }
}

impl Source for JobPool {
    fn ledger_keys(&self) -> delaybridge_ledger::Keys {
        delaybridge_ledger::Keys::of(&self.spec.space, &self.tag)
    }

    fn keys(&self) -> Vec<Bytes> {
        self.buckets.iter().chain(&self.ready).cloned().collect()
    }

    fn scripts(&self) -> &'static delaybridge_ledger::Scripts {
        self.scripts
    }

    fn own_scripts(&self) -> Vec<&'static Script> {
        self.spec.layout.status.iter().map(|_| &*NOTE).collect()
    }

    fn claim_args(&self, _hints: &Hints, ahead: Duration) -> Vec<Bytes> {
        [text(self.buckets.len()), text(millis(ahead))].into_iter().chain(self.unit_args()).collect()
    }

    fn claim_added(&self, mut added: Fields) -> Result<ClaimAdded, BadReply> {
        let next_ms = added.score()?.map(|next| self.spec.score.due_ms(next));
        Ok(ClaimAdded { next_ms, large: None, leftovers: None })
    }

    fn depth_args(&self) -> Vec<Bytes> {
        [text(self.buckets.len())].into_iter().chain(self.unit_args()).collect()
    }

    fn depths(&self, mut added: Fields) -> Result<Depths, BadReply> {
        let scheduled = added.int()?;
        let due = added.int()?;
        let ready = added.int()?;
        let head_ms = added.score()?.map(|head| self.spec.score.due_ms(head));
        let ahead = Ahead::read(added.array()?)?;
        Ok(Depths { scheduled, due, ready, head_ms, ahead, leftovers: Leftovers::default(), orphans: 0 })
    }

    fn open(&self, _origin: Origin, _given: MessageId, member: &Bytes) -> (Identity, Result<Bytes, Junk>) {
        match self.identity_of(member) {
            Ok(id) => (id, Err(Junk("the name of the job's key cannot be written".to_owned()))),
            Err(junk) => (junk_id(member).into(), Err(junk)),
        }
    }

    fn unit(&self) -> Unit {
        self.spec.score
    }

    fn id_from_score(&self, score: Score) -> MessageId {
        MessageId(score.to_bytes())
    }

    fn schedules(&self) -> Vec<Bytes> {
        self.buckets.clone()
    }

    fn ready_lists(&self) -> Vec<Bytes> {
        self.ready.clone()
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

    fn bodies(&self) -> Option<&dyn Bodies> {
        Some(self)
    }
}

impl Search for JobPool {
    fn read(&self, _given: MessageId, start: &Bytes, size: usize) -> Packed {
        let id = (start.len() == size).then(|| self.identity_of(start));
        let shape = if matches!(id, Some(Err(_))) { Shape::Junk } else { Shape::Bare };
        let id = id.map(|id| id.unwrap_or_else(|_| junk_id(start).into()));
        Packed { id, shape, size, payload: start.clone() }
    }

    fn identity(&self, text: &str) -> Option<Identity> {
        Identity::named(text)
    }

    fn patterns(&self, wanted: &Identity) -> Vec<Vec<u8>> {
        // The id is in the member as it is, unless it is a number in a record, or escaped there.
        let text = wanted.text.as_ref().map(|text| [b"*", &glob_literal(text.as_bytes())[..], b"*"].concat());
        text.into_iter().chain([b"*".to_vec()]).collect()
    }

    fn patterns_inside(&self, wanted: &Identity) -> Vec<Vec<u8>> {
        self.patterns(wanted)
    }
}

impl Repair for JobPool {
    fn typed_keys(&self) -> Vec<(Bytes, &'static str)> {
        let lists = self.ready.iter().cloned().map(|key| (key, "list"));
        let jobs = match self.all_bodies() {
            Some(AllBodies::Fields { key }) => Some((key, "hash")),
            _ => None,
        };
        self.buckets.iter().cloned().map(|key| (key, "zset")).chain(lists).chain(jobs).collect()
    }
}

impl Bodies for JobPool {
    fn body_at(&self, member: &Bytes) -> Option<BodyAt> {
        let id = self.spec.layout.id(member).ok()?;
        self.spec.layout.place(&id)
    }

    fn open_body(&self, member: &Bytes, body: &Body) -> (Identity, Result<Bytes, NoPayload>) {
        let id = self.identity_of(member).unwrap_or_else(|_| junk_id(member).into());
        (id, self.spec.layout.payload(body))
    }

    fn companions(&self, member: &Bytes, _body: &Bytes) -> Vec<CompanionKey> {
        let layout = &self.spec.layout;
        let Ok(id) = layout.id(member) else { return Vec::new() };
        let beside = self.beside.clone().and_then(|key| Some(CompanionKey::Field { key, field: layout.field(&id)? }));
        let also = self.spec.also.iter().filter_map(|pattern| layout.key(pattern, &id));
        beside.into_iter().chain(also.map(|key| CompanionKey::Whole { key })).collect()
    }

    fn revived(&self, body: Bytes) -> Bytes {
        self.spec.layout.waiting(body)
    }

    fn topic(&self, body: &Body) -> Option<Arc<str>> {
        self.spec.layout.topic(body)
    }

    fn tries(&self, body: &Body) -> Option<u32> {
        self.spec.layout.tries(body)
    }

    fn due_anew(&self, body: &Bytes, due_ms: i64) -> Result<Option<Bytes>, &'static str> {
        self.spec.layout.due_anew(body, due_ms)
    }

    fn all_bodies(&self) -> Option<AllBodies> {
        self.spec.layout.all_places()
    }

    fn member_of_body(&self, name: &Bytes) -> Option<Bytes> {
        self.spec.layout.member(self.all_bodies()?.id_in(name)?)
    }

    fn status(&self) -> Option<&dyn BodyStatus> {
        self.spec.layout.status.as_ref().map(|_| self as &dyn BodyStatus)
    }
}

impl BodyStatus for JobPool {
    fn write<'a>(
        &'a self,
        conn: &'a Conn,
        elements: &'a mut [Element],
        status: StatusWrite,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.write_status(conn, elements, status).boxed()
    }
}
