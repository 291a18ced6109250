//! The foreign half of a queue that is a sorted set: its part of the scripts, and its members.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::config::Body;
use super::identity::filled;
use super::scripts::{SCRIPTS, SCRIPTS_ON_TEST_CLOCK};
use super::{Keys, Naming, ZsetSpec};
use delaybridge_core::message::{Identity, MessageId, Origin};
use delaybridge_ledger::score::Unit;
use delaybridge_ledger::{
    Activity, Ahead, Announcement, Announcements, ClaimAdded, Depths, Hints, Junk, Leftovers, Packed, Repair, Search,
    Shape, Source, glob_literal, large_head, millis, text,
};
use delaybridge_link::rights::Grant;
use delaybridge_link::{BadReply, Fields, Score};

/// A sorted set that is a queue.
#[derive(Clone)]
pub struct ZsetSource {
    /// The keys.
    pub keys: Keys,
    pub(super) spec: ZsetSpec,
    pub(super) scripts: &'static delaybridge_ledger::Scripts,
}

impl ZsetSource {
    /// Creates the queue that a configuration describes.
    pub fn of(spec: &ZsetSpec) -> Self {
        ZsetSource {
            keys: Keys::of(&spec.key, spec.bytes.as_ref(), spec.space.database),
            spec: spec.clone(),
            scripts: &SCRIPTS,
        }
    }

    /// Puts the queue under the test clock.
    pub fn on_test_clock(self) -> Self {
        ZsetSource { scripts: &SCRIPTS_ON_TEST_CLOCK, ..self }
    }

    /// Returns the unit of the scores, in the words of the scripts.
    fn unit(&self) -> [Bytes; 3] {
        self.spec.score.factors().map(text)
    }

    fn payload(&self, member: &Bytes) -> Result<Bytes, Junk> {
        match &self.spec.body {
            Body::Member => Ok(member.clone()),
            Body::Text(template) => filled(template, member)
                .map(Bytes::from)
                .ok_or_else(|| Junk("the member is no JSON with all that `body` asks for".to_owned())),
        }
    }
}

fn score(score: Option<Score>) -> Bytes {
    score.map(text).unwrap_or_default()
}

impl Source for ZsetSource {
    fn ledger_keys(&self) -> delaybridge_ledger::Keys {
        delaybridge_ledger::Keys::of(&self.spec.space, &self.keys.tag)
    }

    fn keys(&self) -> Vec<Bytes> {
        vec![self.keys.zset.clone()]
    }

    fn scripts(&self) -> &'static delaybridge_ledger::Scripts {
        self.scripts
    }

    fn claim_args(&self, hints: &Hints, ahead: Duration) -> Vec<Bytes> {
        [score(hints.large_due), text(millis(ahead))].into_iter().chain(self.unit()).collect()
    }

    fn claim_added(&self, mut added: Fields) -> Result<ClaimAdded, BadReply> {
        let next = added.score()?;
        let size = added.int()?;
        let next_ms = next.map(|next| self.spec.score.due_ms(next));
        Ok(ClaimAdded { next_ms, large: large_head(next, size), leftovers: None })
    }

    fn depth_args(&self) -> Vec<Bytes> {
        self.unit().into_iter().collect()
    }

    fn depths(&self, mut added: Fields) -> Result<Depths, BadReply> {
        let scheduled = added.int()?;
        let due = added.int()?;
        let head_ms = added.score()?.map(|head| self.spec.score.due_ms(head));
        let ahead = Ahead::read(added.array()?)?;
        Ok(Depths { scheduled, due, ready: 0, head_ms, ahead, leftovers: Leftovers::default(), orphans: 0 })
    }

    fn open(&self, _origin: Origin, given: MessageId, member: &Bytes) -> (Identity, Result<Bytes, Junk>) {
        (self.spec.id.identity(given, member), self.payload(member))
    }

    fn unit(&self) -> Unit {
        self.spec.score
    }

    fn id_from_score(&self, score: Score) -> MessageId {
        MessageId(score.to_bytes())
    }

    fn schedules(&self) -> Vec<Bytes> {
        vec![self.keys.zset.clone()]
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
}

impl Search for ZsetSource {
    fn read(&self, given: MessageId, start: &Bytes, size: usize) -> Packed {
        if start.len() < size {
            return Packed { id: None, shape: Shape::Bare, size, payload: start.clone() };
        }
        let id = Some(self.spec.id.identity(given, start));
        match self.payload(start) {
            Ok(payload) => Packed { id, shape: Shape::Bare, size: payload.len(), payload },
            Err(_) => Packed { id, shape: Shape::Junk, size, payload: start.clone() },
        }
    }

    fn identity(&self, text: &str) -> Option<Identity> {
        match text.parse::<MessageId>() {
            Ok(id) => Some(id.into()),
            Err(_) => Identity::named(text).filter(|_| matches!(self.spec.id, Naming::Text(_))),
        }
    }

    fn patterns(&self, wanted: &Identity) -> Vec<Vec<u8>> {
        // A text is mostly in the member as it is, else it is escaped there. A hash is nowhere.
        let text = wanted.text.as_ref().map(|text| [b"*", &glob_literal(text.as_bytes())[..], b"*"].concat());
        text.into_iter().chain([b"*".to_vec()]).collect()
    }

    fn patterns_inside(&self, wanted: &Identity) -> Vec<Vec<u8>> {
        self.patterns(wanted)
    }
}

impl Repair for ZsetSource {}

impl Announcements for ZsetSource {
    fn channel(&self) -> &Arc<str> {
        &self.keys.channel
    }

    fn announcement(&self, payload: &[u8]) -> Option<Announcement> {
        // Other events take members away, or are our own.
        let adds = [&b"zadd"[..], b"zincr", b"zunionstore", b"zinterstore", b"zdiffstore", b"zrangestore"];
        let comes = [&b"rename_to"[..], b"restore", b"copy_to", b"move_to"];
        adds.iter().chain(&comes).any(|event| *event == payload).then_some(Announcement::Changed)
    }
}
