//! The destinations of one sink: which work, which are in trouble, and what their elements are to do.
//!
//! A part that fails is not the whole: a topic whose broker is down, a full queue or a missing exchange holds its own
//! elements, for any length of time, and no others. An element whose destination is in trouble goes back to Redis with a
//! time to come back, uncounted. One at a time is sent to find out whether the destination works again.
//!
//! Bounded: so many destinations are remembered, and one that is not used for an hour is forgotten. Beyond the bound those that
//! were not used for the longest time are forgotten, whether they work or not; if all have elements in flight, new ones share one
//! state.
//!
//! Times to come back are spread, so that a million held elements cost at most 2,000 claims a second. Destinations that
//! answer nothing may take three quarters of a queue's room together. A partition is a destination of its own while brokers
//! report trouble in a part of its topic.

mod lane;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::time::Duration;

use self::lane::{DestinationLane, LaneDecision, Pass, Returns, Share};
use crate::limits::budget::Room;
use crate::limits::circuit::{Allow, Transition};
use crate::limits::rate::Bucket;
use delaybridge_core::clock::Instant;
use delaybridge_core::message::Class;
use delaybridge_sink::Destination;

/// Destinations that are remembered.
const MOST: usize = 10_000;
/// The time for which an unused destination is remembered.
const IDLE: Duration = Duration::from_secs(3600);
/// A destination that has confirmed something within this time shows that its sink works.
const RECENT: Duration = Duration::from_secs(60);
/// The interval between scans for idle destinations.
const LOOK: Duration = Duration::from_secs(60);

/// A destination, or a part of one, as the pipeline tells it apart from others: nothing that came out of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DestinationKey {
    id: u64,
    /// That of the whole destination: its own, if it is no part.
    whole: u64,
}

impl DestinationKey {
    /// All that are beyond the bound.
    const REST: DestinationKey = DestinationKey::whole(0);

    const fn whole(id: u64) -> DestinationKey {
        DestinationKey { id, whole: id }
    }

    /// Returns the number that identifies the destination on the board of probes.
    pub fn id(self) -> u64 {
        self.id
    }

    fn is_part(self) -> bool {
        self.id != self.whole
    }

    /// Returns the key of this destination, or of a part of it that can fail by itself.
    pub fn of(destination: &Destination, part: Option<u32>) -> DestinationKey {
        // Random for each process: payloads cannot aim at the key of another destination.
        static HASH: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        let id = |part: Option<u32>| HASH.hash_one((destination.lane(), part)).max(1);
        DestinationKey { id: id(part), whole: id(None) }
    }
}

/// The permission for one element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Go to the sink.
    Send,
    /// Go, alone, to find out whether the destination works again.
    Probe,
    /// Go back to Redis, and come back after this time.
    Hold(Duration),
}

/// A question for one element.
#[derive(Debug, Clone, Copy)]
pub struct Ask {
    /// The destination of the element.
    pub lane: DestinationKey,
    /// The bytes of the element.
    pub size: u64,
    /// The time after which it is not held any more by a destination that has never worked.
    pub gives_up: Option<Duration>,
}

/// The trouble of a destination, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DestinationTrouble {
    /// The time for which it has lasted.
    pub lasted: Duration,
    /// The destination has worked in this process, or another one that has is in trouble as well.
    pub worked: bool,
}

/// A destination that works again: others wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Works {
    /// The destination.
    pub lane: DestinationKey,
    /// Whether its trouble was reported, so that this is too.
    pub shown: bool,
}

/// The destinations of one sink.
#[derive(Debug)]
pub struct SinkDestinations {
    lanes: HashMap<DestinationKey, DestinationLane>,
    /// A part of a destination may be in trouble.
    parts: bool,
    looked: Instant,
    /// The last confirmation of any of them.
    worked: Option<Instant>,
    /// The times at which elements come back that had to wait for the pace of the sink.
    returns: Returns,
    /// Destinations that were forgotten to make room, and were shown as in trouble.
    forgotten: Vec<DestinationKey>,
}

impl SinkDestinations {
    /// Creates an empty list.
    pub fn new(now: Instant) -> Self {
        SinkDestinations {
            lanes: HashMap::new(),
            parts: false,
            looked: now,
            worked: None,
            returns: Returns::new(now),
            forgotten: Vec::new(),
        }
    }

    /// Decides about elements of a queue with this room, one by one: `ask` is called until it has none left. `pace`: that of all
    /// that is tried, if there is one now.
    pub fn admit<'a>(
        &'a mut self,
        room: Room,
        mut pace: Option<&'a mut Bucket>,
        now: Instant,
    ) -> impl FnMut(Ask) -> Admission + use<'a> {
        let taken = self.lanes.values().fold(Room::default(), |sum, lane| {
            let silent = lane.silent(now);
            Room { count: sum.count + silent.count, bytes: sum.bytes + silent.bytes }
        });
        let mut share = Share::of(room, taken);
        move |ask| {
            let mut is_paced = || pace.as_mut().is_some_and(|bucket| bucket.take(now, 1).granted == 0);
            let pass = Pass { share: &mut share, is_paced: &mut is_paced, size: ask.size, gives_up: ask.gives_up };
            match self.lane(ask.lane, now).pass(pass, now) {
                LaneDecision::Send => Admission::Send,
                LaneDecision::Probe => Admission::Probe,
                LaneDecision::Wait(wait) => Admission::Hold(wait),
                // One after the other over all destinations: of many, each would come back at once.
                LaneDecision::Paced => Admission::Hold(self.returns.crowded(now)),
            }
        }
    }

    /// Releases what an admitted element held: its answer was recorded before, or it never came.
    pub fn left(&mut self, key: DestinationKey, size: u64, probe: bool, now: Instant) {
        if let Some(lane) = self.find(key) {
            lane.left(size);
            if probe {
                lane.probe_abandoned(now);
            }
        }
    }

    /// Records that the destination has confirmed something. Returns the destinations that work again because of it.
    pub fn confirmed(&mut self, key: DestinationKey, redis_ms: i64, now: Instant) -> Vec<Works> {
        self.worked = Some(now);
        let mut over = self.related(key, now);
        let lane = self.lane(key, now);
        let works = lane.confirmed(redis_ms, now).is_some();
        let shown = std::mem::take(&mut lane.shown);
        over.extend(works.then_some(Works { lane: key, shown }));
        over
    }

    /// Ends the trouble that a confirmation elsewhere disproves. A destination and its parts are kept apart only while some
    /// parts fail, so what failed at one of them may be confirmed at the other: a part that works shows that not the whole
    /// destination fails, and the whole is confirmed when its parts are no longer kept apart.
    fn related(&mut self, key: DestinationKey, now: Instant) -> Vec<Works> {
        let mut over = Vec::new();
        let mut works = |key: DestinationKey, lane: &mut DestinationLane| {
            lane.works_elsewhere(now);
            over.push(Works { lane: key, shown: std::mem::take(&mut lane.shown) });
        };
        if key.is_part() {
            let whole = DestinationKey::whole(key.whole);
            if let Some(lane) = self.lanes.get_mut(&whole).filter(|lane| lane.is_in_trouble()) {
                works(whole, lane);
            }
        } else if self.parts {
            self.parts = false;
            for (part, lane) in self.lanes.iter_mut().filter(|(key, lane)| key.is_part() && lane.is_in_trouble()) {
                if part.whole == key.whole { works(*part, lane) } else { self.parts = true }
            }
        }
        over
    }

    /// Frees the destinations that failed as a part of the sink, which answers again. Those with trouble of their own
    /// stay in it.
    pub fn sink_answers(&mut self) {
        for lane in self.lanes.values_mut().filter(|lane| lane.is_in_trouble() && !lane.shown) {
            lane.sink_answers();
        }
    }

    /// Records a failure that may be the destination's fault, and returns whether its trouble is to be reported. `show`
    /// is false where the sink or the queue as a whole is reported instead.
    pub fn failed(&mut self, key: DestinationKey, class: Class, show: bool, now: Instant, draw: f64) -> bool {
        let lane = self.lane(key, now);
        let opened = matches!(lane.failed(class, now, draw), Some(Transition::Opened(_)));
        let news = show && lane.is_in_trouble() && (opened || !lane.shown);
        lane.shown |= news;
        self.parts |= key.is_part();
        news
    }

    /// Records a failure that is not the destination's fault: its probe was inconclusive.
    pub fn inconclusive(&mut self, key: DestinationKey, now: Instant, draw: f64) {
        if let Some(lane) = self.find(key) {
            lane.inconclusive(now, draw);
        }
    }

    /// Returns whether another destination works, so that a failure at this one says nothing about the sink.
    pub fn others_work(&self, key: DestinationKey, now: Instant) -> bool {
        let recently = self.worked.is_some_and(|at| now.since(at) <= RECENT);
        // Not each of ten thousand, at each failure of an outage.
        recently && self.lanes.iter().any(|(other, lane)| *other != key && lane.works(RECENT, now))
    }

    /// Returns the permission of the destination.
    pub fn allows(&self, key: DestinationKey, now: Instant) -> Allow {
        self.lanes.get(&self.known(key)).map_or(Allow::Free, |lane| lane.allows(now))
    }

    /// Takes the probe, if there is one to take.
    pub fn start_probe(&mut self, key: DestinationKey, now: Instant) -> bool {
        self.find(key).is_some_and(|lane| lane.start_probe(now))
    }

    /// Ends a probe that got no answer.
    pub fn abandon_probe(&mut self, key: DestinationKey, now: Instant) {
        if let Some(lane) = self.find(key) {
            lane.probe_abandoned(now);
        }
    }

    /// Returns whether the destination has confirmed anything since this Redis time.
    pub fn moved_since(&self, key: DestinationKey, redis_ms: i64) -> bool {
        self.lanes.get(&self.known(key)).is_some_and(|lane| lane.moved_since(redis_ms))
    }

    /// Returns the trouble of the destination, for an element that it refused.
    pub fn trouble(&self, key: DestinationKey, now: Instant) -> DestinationTrouble {
        let key = self.known(key);
        let neighbours =
            self.lanes.iter().any(|(other, lane)| *other != key && lane.is_in_trouble() && lane.has_worked());
        let lane = self.lanes.get(&key);
        DestinationTrouble {
            lasted: lane.and_then(|lane| lane.troubled_for(now)).unwrap_or_default(),
            worked: neighbours || lane.is_some_and(DestinationLane::has_worked),
        }
    }

    /// Computes the wait of an element that it refused.
    pub fn wait(&mut self, key: DestinationKey, now: Instant) -> Duration {
        self.lane(key, now).wait(now)
    }

    /// Counts the destinations whose trouble is shown. One that fails beside its whole sink is not shown by itself.
    pub fn in_trouble(&self) -> usize {
        self.lanes.values().filter(|lane| lane.shown).count()
    }

    /// Returns the key under which it is remembered.
    fn known(&self, key: DestinationKey) -> DestinationKey {
        if self.lanes.contains_key(&key) { key } else { DestinationKey::REST }
    }

    fn find(&mut self, key: DestinationKey) -> Option<&mut DestinationLane> {
        let key = self.known(key);
        self.lanes.get_mut(&key)
    }

    fn lane(&mut self, key: DestinationKey, now: Instant) -> &mut DestinationLane {
        let mut key = key;
        if !self.lanes.contains_key(&key) && self.lanes.len() >= MOST {
            self.make_room();
            if self.lanes.len() >= MOST {
                key = DestinationKey::REST;
            }
        }
        self.lanes.entry(key).or_insert_with(|| DestinationLane::new(now))
    }

    /// Forgets a part of those with nothing in flight, the longest unused first.
    fn make_room(&mut self) {
        let quiet = self.lanes.iter().filter(|(_, lane)| lane.may_be_forgotten());
        let mut quiet: Vec<_> = quiet.map(|(key, lane)| (lane.used(), *key)).collect();
        quiet.sort_by_key(|(used, _)| *used);
        for (_, key) in quiet.into_iter().take(MOST / 4) {
            let was_shown = self.lanes.remove(&key).is_some_and(|lane| lane.shown);
            self.forgotten.extend(was_shown.then_some(key));
        }
    }

    /// Forgets what was not used for long, now and then. Returns those that are forgotten since the last time, for whatever
    /// reason, and were shown as in trouble.
    pub fn forget_idle(&mut self, now: Instant) -> Vec<DestinationKey> {
        let mut forgotten = std::mem::take(&mut self.forgotten);
        if now.since(self.looked) >= LOOK {
            self.looked = now;
            let shown = self.lanes.extract_if(|_, lane| lane.is_idle(IDLE, now)).filter(|(_, lane)| lane.shown);
            forgotten.extend(shown.map(|(key, _)| key));
        }
        forgotten
    }
}

#[cfg(test)]
mod tests;
