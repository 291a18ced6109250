//! Redisson's half of a queue: its part of the scripts, its elements and its announcements.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::{Keys, ListCleanup, Overdue, RedissonSpec, SCRIPTS, SCRIPTS_ON_TEST_CLOCK, Scripts, layout, rescue_end};
use delaybridge_core::message::{Identity, MessageId, Origin};
use delaybridge_core::metric::SourceTerms;
use delaybridge_ledger::fsck::{Check, Found, Held};
use delaybridge_ledger::{
    Activity, Ahead, Announcement, Announcements, ClaimAdded, Depths, Hints, Junk, Leftovers, Packed, Repair, Rescued,
    Search, Source, StoreError, Transfer, Upkeep, UpkeepRequest, Upkept, large_head, millis, text,
};
use delaybridge_link::rights::Grant;
use delaybridge_link::{BadReply, Conn, Fields, KeySpace, Score, Script};
use delaybridge_offers::{Call, Keys as OfferKeys};

/// A queue as Redisson keeps it.
#[derive(Clone)]
pub struct RedissonSource {
    /// The keys.
    pub keys: Keys,
    /// Elements of the sorted set are claimed.
    pub(super) delayed: bool,
    /// The ready list is drained.
    pub(super) ready: bool,
    pub(super) cleanup: ListCleanup,
    pub(super) scripts: &'static Scripts,
}

impl RedissonSource {
    /// Creates the queue with this mapped name, in a Redis where our keys and channels have the names of `space`.
    pub fn new(space: &KeySpace, name: &str, delayed: bool, ready: bool, cleanup: ListCleanup) -> Self {
        RedissonSource { keys: Keys::of(space, name), delayed, ready, cleanup, scripts: &SCRIPTS }
    }

    /// Creates the queue that a configuration describes.
    pub fn of(spec: &RedissonSpec) -> Self {
        RedissonSource::new(&spec.space, &spec.name, spec.consume.delayed, spec.consume.ready, spec.list_cleanup)
    }

    /// Puts the queue under the test clock.
    pub(super) fn on_test_clock(&self) -> Self {
        RedissonSource { scripts: &SCRIPTS_ON_TEST_CLOCK, ..self.clone() }
    }

    pub(super) fn with_scripts(&self, scripts: &'static Scripts) -> Self {
        RedissonSource { scripts, ..self.clone() }
    }

    /// Returns the way in which the list is cleaned up, in the word of the scripts.
    pub(super) fn cleanup_word(&self) -> Bytes {
        Bytes::from_static(match self.cleanup {
            ListCleanup::Auto => b"auto",
            ListCleanup::Exact => b"exact",
        })
    }

    /// Offers one packed element as Redisson and the other producers do, `delay` from now by Redis's clock; returns the due
    /// time in ms, that of the first offer if an element with exactly these bytes is there already.
    ///
    /// # Errors
    ///
    /// On [`LinkError::Unknown`] it may have been offered; sent again it could be offered twice, if it has been
    /// delivered in between.
    pub async fn offer(&self, conn: &Conn, element: Bytes, delay: Duration) -> Result<i64, StoreError> {
        let unreadable = BadReply { script: "offer", expected: "a due time" };
        let time = format!("+{}", millis(delay));
        let call = Call::offer(&OfferKeys::of(&self.keys.tag), [(time, element.into(), None)]);
        let reply = conn.script(&self.scripts.offer, &call.keys, &call.args).await?;
        let due = Fields::of("offer", reply)?.text()?.parse();
        Ok(due.map_err(|_| unreadable)?)
    }
}

fn score(score: Option<Score>) -> Bytes {
    score.map(text).unwrap_or_default()
}

fn leftovers(count: i64, of: i64, oldest_ms: i64) -> Leftovers {
    let natural = |n: i64| u64::try_from(n).unwrap_or(0);
    Leftovers { count: natural(count), of: natural(of), oldest: Duration::from_millis(natural(oldest_ms)) }
}

impl Source for RedissonSource {
    fn ledger_keys(&self) -> delaybridge_ledger::Keys {
        (*self.keys).clone()
    }

    fn keys(&self) -> Vec<Bytes> {
        let [delayed, list, ready, ghosts, turn, sweep] = self.keys.in_scripts();
        // A key that is not consumed may hold anything, and nobody has to grant a right to it: in its place is one of its type that
        // the scripts look at anyway.
        let (ready, permits) = if self.ready { (ready, &self.keys.permits) } else { (list, list) };
        [delayed, list, ready, ghosts, turn, sweep, permits].map(Bytes::clone).to_vec()
    }

    fn left_behind(&self) -> &'static [&'static str] {
        &["ghosts:", "ghosts-turn:"]
    }

    fn scripts(&self) -> &'static delaybridge_ledger::Scripts {
        &self.scripts.ledger
    }

    fn own_scripts(&self) -> Vec<&'static Script> {
        self.scripts.own().to_vec()
    }

    fn claim_args(&self, hints: &Hints, ahead: Duration) -> Vec<Bytes> {
        let consumed: &'static [u8] = match (self.delayed, self.ready) {
            (true, false) => b"d",
            (false, true) => b"r",
            _ => b"dr",
        };
        vec![Bytes::from_static(consumed), self.cleanup_word(), score(hints.large_due), text(millis(ahead))]
    }

    fn claim_added(&self, mut added: Fields) -> Result<ClaimAdded, BadReply> {
        let next = added.score()?;
        let size = added.int()?;
        let listed = added.int()?;
        let ghosts = added.int()?;
        let oldest_ms = added.int()?;
        // A claim of one or two near an end of the list does not look at what other claims have left there.
        let leftovers = (listed >= 0).then(|| leftovers(ghosts, listed, oldest_ms));
        Ok(ClaimAdded { next_ms: next.map(Score::ceil_ms), large: large_head(next, size), leftovers })
    }

    fn depths(&self, mut added: Fields) -> Result<Depths, BadReply> {
        let scheduled = added.int()?;
        let due = added.int()?;
        let ready = added.int()?;
        let head = added.score()?;
        let listed = added.int()?;
        let ghosts = added.int()?;
        let oldest_ms = added.int()?;
        let orphans = added.int()?;
        let ahead = Ahead::read(added.array()?)?;
        Ok(Depths {
            scheduled,
            due,
            ready: if self.ready { ready } else { 0 },
            head_ms: head.map(Score::ceil_ms),
            ahead,
            leftovers: leftovers(ghosts, listed, oldest_ms),
            // Z gone while L is not shows at once, without waiting for a turn of the sweep.
            orphans: orphans.max(listed - scheduled - ghosts).max(0),
        })
    }

    fn open(&self, origin: Origin, given: MessageId, element: &Bytes) -> (Identity, Result<Bytes, Junk>) {
        let (id, payload) = super::open(origin, given, element);
        (id.into(), payload.map_err(|junk| Junk(junk.to_string())))
    }

    fn schedules(&self) -> Vec<Bytes> {
        vec![self.keys.delayed.clone()]
    }

    fn ready_lists(&self) -> Vec<Bytes> {
        vec![self.keys.ready.clone()]
    }

    fn claimed_from(&self) -> (Vec<Bytes>, Vec<Bytes>) {
        let delayed = self.delayed.then(|| self.keys.delayed.clone());
        (delayed.into_iter().collect(), self.unannounced().into_iter().collect())
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

    fn upkeep(&self) -> Option<&dyn Upkeep> {
        Some(self)
    }

    fn transfer(&self) -> Option<&dyn Transfer> {
        Some(self)
    }
}

impl Search for RedissonSource {
    fn read(&self, _given: MessageId, start: &Bytes, size: usize) -> Packed {
        super::read(start, size)
    }

    fn overhead(&self) -> usize {
        layout::FIXED
    }

    /// Builds one pattern for both layouts, because each takes a pass over the whole queue: a byte at the beginning is
    /// that of the layout with a length byte before the id, or that of the layout without. The few others that match
    /// have another id.
    fn patterns(&self, wanted: &Identity) -> Vec<Vec<u8>> {
        let id = wanted.id.0;
        let either = std::iter::once(8).chain(id).zip(id).map(|(new, old)| [b'[', b'\\', new, b'\\', old, b']']);
        vec![either.flatten().chain(*b"*").collect()]
    }
}

impl Repair for RedissonSource {
    fn removal(&self) -> (Vec<Bytes>, Bytes) {
        let k = &self.keys;
        (vec![k.list.clone(), k.ghosts.clone(), k.sweep.clone()], self.cleanup_word())
    }

    fn typed_keys(&self) -> Vec<(Bytes, &'static str)> {
        let types = ["zset", "list", "list", "set", "set", "hash"];
        let all = self.keys.in_scripts().into_iter().cloned().zip(types);
        all.filter(|(key, _)| self.ready || *key != self.keys.ready).collect()
    }

    fn elements_are_unique(&self) -> bool {
        true
    }

    fn unschedule(&self, element: &Bytes, kept_key: &Bytes, kept: &Bytes) -> Option<Check> {
        Some(self.unscheduled(element, kept_key, kept))
    }

    fn look_for_faults<'a>(
        &'a self,
        conn: &'a Conn,
        held: &'a Held,
        found: &'a mut Found<'_>,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.faults(conn, held, found).boxed()
    }
}

impl Announcements for RedissonSource {
    fn channel(&self) -> &Arc<str> {
        &self.keys.channel
    }

    fn announcement(&self, payload: &[u8]) -> Option<Announcement> {
        Some(match std::str::from_utf8(payload).ok().and_then(|text| text.parse::<f64>().ok()) {
            Some(due_ms) => Announcement::DueAt(due_ms.ceil() as i64), // `as` saturates
            None => Announcement::Changed,
        })
    }

    fn unannounced(&self) -> Option<Bytes> {
        self.ready.then(|| self.keys.ready.clone())
    }

    fn announce(&self, due_ms: i64) -> Option<Bytes> {
        Some(text(due_ms))
    }
}

impl Upkeep for RedissonSource {
    fn step<'a>(
        &'a self,
        conn: &'a Conn,
        owner: [u8; 8],
        request: &'a UpkeepRequest,
    ) -> BoxFuture<'a, Result<Upkept, StoreError>> {
        self.sweep(conn, owner, request).boxed()
    }

    fn metric_names(&self) -> &'static SourceTerms {
        &super::METRIC_NAMES
    }
}

impl Transfer for RedissonSource {
    fn rescue<'a>(
        &'a self,
        conn: &'a Conn,
        after: Duration,
        elements: &'a [Bytes],
    ) -> BoxFuture<'a, Result<Rescued, StoreError>> {
        async move {
            let batch: Vec<_> = elements.iter().filter_map(|element| Overdue::of(element.clone()).ok()).collect();
            let mut rescued = Rescued { moved: 0, junk: (elements.len() - batch.len()) as u64 };
            let mut rest = batch.as_slice();
            while !rest.is_empty() {
                let (now, later) = rest.split_at(rescue_end(rest));
                rescued.moved += RedissonSource::rescue(self, conn, after, now).await? as u64;
                rest = later;
            }
            Ok(rescued)
        }
        .boxed()
    }
}
