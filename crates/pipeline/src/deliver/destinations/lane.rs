//! What is known of one destination of a sink: whether it works, what it has in flight, when its elements come back. Pure:
//! times and random numbers are arguments.

use std::time::Duration;

use crate::limits::budget::Room;
use crate::limits::circuit::{Allow, Circuit, Transition};
use delaybridge_core::clock::Instant;
use delaybridge_core::message::Class;

/// Elements in flight without any answer for this long: the destination is silent.
const SILENT: Duration = Duration::from_millis(100);
/// The wait of an element that found its destination silent, and its share of the room taken.
const CROWDED: Duration = Duration::from_millis(250);
/// The least wait of elements while a probe is on its way.
const PROBING: Duration = Duration::from_secs(1);
/// Elements that are held come back one after the other, this far apart: 2,000 a second, whatever their number.
const APART: Duration = Duration::from_micros(500);
/// Longest wait of a held element: how long a destination that works again may wait for it.
pub(super) const LONGEST: Duration = Duration::from_secs(300);

/// One destination.
#[derive(Debug)]
pub(super) struct DestinationLane {
    circuit: Circuit,
    /// Redis ms of its last confirmation, and when that came here.
    confirmed: Option<(i64, Instant)>,
    in_flight: Room,
    /// The last answer, or the beginning of what is in flight, if that is later.
    heard: Instant,
    returns: Returns,
    /// Since when it is in trouble.
    since: Option<Instant>,
    used: Instant,
    /// Whether its trouble is on the board.
    pub(super) shown: bool,
}

/// Decides what an element for this destination is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LaneDecision {
    /// Go.
    Send,
    /// Go, to find out whether it works again.
    Probe,
    /// Come back after this time.
    Wait(Duration),
    /// Come back when the pace of the sink may let it through.
    Paced,
}

/// A question of an element at its destination.
pub(super) struct Pass<'a> {
    /// The room of destinations that are silent.
    pub(super) share: &'a mut Share,
    /// Takes a place in the pace of the sink; whether there is none.
    pub(super) is_paced: &'a mut dyn FnMut() -> bool,
    /// The bytes of the element.
    pub(super) size: u64,
    /// The time after which it is not held any more, if its destination has not worked.
    pub(super) gives_up: Option<Duration>,
}

/// The times at which elements come back: one after the other.
#[derive(Debug)]
pub(super) struct Returns {
    /// The time at which the last of them comes back.
    last: Instant,
}

impl Returns {
    pub(super) fn new(now: Instant) -> Returns {
        Returns { last: now }
    }

    /// Computes the wait of the next one, which comes back at this time at the earliest.
    fn next(&mut self, first: Instant, now: Instant) -> Duration {
        self.last = self.last.after(APART).max(first).min(now.after(LONGEST));
        self.last.since(now)
    }

    /// Computes the wait of the next one that found no room.
    pub(super) fn crowded(&mut self, now: Instant) -> Duration {
        self.next(now.after(CROWDED), now)
    }
}

/// The part of a queue's room that silent destinations may take together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    /// The room that they may take.
    limit: Room,
    /// The room that they have.
    taken: Room,
}

impl Share {
    /// Returns the share of a queue with this room: three quarters of the elements, and half of the bytes, because a
    /// claim asks for a quarter of these.
    pub(super) fn of(room: Room, taken: Room) -> Share {
        Share { limit: Room { count: (room.count * 3 / 4).max(1), bytes: (room.bytes / 2).max(1) }, taken }
    }

    fn has_room(&self, used: Room) -> bool {
        used.count < self.limit.count && used.bytes < self.limit.bytes
    }
}

impl DestinationLane {
    pub(super) fn new(now: Instant) -> DestinationLane {
        DestinationLane {
            circuit: Circuit::destination(),
            confirmed: None,
            in_flight: Room::default(),
            heard: now,
            returns: Returns::new(now),
            since: None,
            used: now,
            shown: false,
        }
    }

    /// Decides about an element.
    pub(super) fn pass(&mut self, pass: Pass<'_>, now: Instant) -> LaneDecision {
        let Pass { share, is_paced, size, gives_up } = pass;
        self.used = now;
        let given_up = gives_up.is_some_and(|after| !self.has_worked() && self.troubled_for(now) >= Some(after));
        let pass = match self.circuit.allows(now) {
            _ if given_up => LaneDecision::Send,
            Allow::Free => LaneDecision::Send,
            Allow::Probe => LaneDecision::Probe,
            Allow::No { .. } => return LaneDecision::Wait(self.wait(now)),
        };
        let silent = self.is_silent(now);
        let used = if silent { share.taken } else { self.in_flight };
        if pass == LaneDecision::Send && !share.has_room(used) {
            return LaneDecision::Wait(self.returns.crowded(now));
        }
        if is_paced() {
            return LaneDecision::Paced;
        }
        if pass == LaneDecision::Probe {
            self.circuit.probe_started();
        }
        if self.in_flight.count == 0 {
            self.heard = now;
        }
        let more = Room { count: 1, bytes: size };
        self.in_flight = plus(self.in_flight, more);
        if silent {
            share.taken = plus(share.taken, more);
        }
        pass
    }

    /// Computes the wait of an element that may not be sent now.
    pub(super) fn wait(&mut self, now: Instant) -> Duration {
        let first = match self.circuit.allows(now) {
            Allow::No { retry_at: Some(at) } => at,
            Allow::No { retry_at: None } => now.after(PROBING),
            Allow::Free | Allow::Probe => now.after(CROWDED),
        };
        self.returns.next(first, now)
    }

    /// Releases the room of an element that was answered or given up.
    pub(super) fn left(&mut self, size: u64) {
        self.in_flight.count = self.in_flight.count.saturating_sub(1);
        self.in_flight.bytes = self.in_flight.bytes.saturating_sub(size);
    }

    /// Records that something was confirmed at this time of Redis.
    pub(super) fn confirmed(&mut self, redis_ms: i64, now: Instant) -> Option<Transition> {
        (self.used, self.heard, self.since) = (now, now, None);
        let latest = self.confirmed.map_or(redis_ms, |(ms, _)| ms.max(redis_ms));
        self.confirmed = Some((latest, now));
        let transition = self.circuit.on_success();
        if transition.is_some() {
            self.returns = Returns::new(now);
        }
        transition
    }

    /// Ends its trouble, because what it is a part of works, or a part of it: its own elements need not wait any more.
    pub(super) fn works_elsewhere(&mut self, now: Instant) {
        self.sink_answers();
        self.returns = Returns::new(now);
    }

    /// Lets it be tried, because its sink answers again; it has confirmed nothing.
    pub(super) fn sink_answers(&mut self) {
        self.since = None;
        self.circuit.on_success();
    }

    /// Records a failure that may be the destination's fault.
    pub(super) fn failed(&mut self, class: Class, now: Instant, draw: f64) -> Option<Transition> {
        (self.used, self.heard) = (now, now);
        let transition = self.circuit.on_failure(class, now, draw);
        if self.circuit.why().is_some() {
            self.since.get_or_insert(now);
        }
        transition
    }

    /// Records that a probe was inconclusive.
    pub(super) fn inconclusive(&mut self, now: Instant, draw: f64) {
        self.heard = now;
        self.circuit.on_failure(Class::MessagePermanent, now, draw);
    }

    /// Gives back the permission of a probe that was not sent or not answered.
    pub(super) fn probe_abandoned(&mut self, now: Instant) {
        self.circuit.probe_abandoned(now);
    }

    /// Takes the probe, if there is one to take.
    pub(super) fn start_probe(&mut self, now: Instant) -> bool {
        let allowed = self.circuit.allows(now) == Allow::Probe;
        if allowed {
            self.circuit.probe_started();
        }
        allowed
    }

    pub(super) fn allows(&self, now: Instant) -> Allow {
        self.circuit.allows(now)
    }

    /// Returns whether it has confirmed something in this process.
    pub(super) fn has_worked(&self) -> bool {
        self.confirmed.is_some()
    }

    /// Returns whether it has confirmed something since this Redis time.
    pub(super) fn moved_since(&self, redis_ms: i64) -> bool {
        self.confirmed.is_some_and(|(ms, _)| ms >= redis_ms)
    }

    /// Returns whether its last answer is a confirmation, not longer ago than this.
    pub(super) fn works(&self, within: Duration, now: Instant) -> bool {
        self.circuit.is_clean() && self.confirmed.is_some_and(|(_, at)| now.since(at) <= within)
    }

    pub(super) fn is_in_trouble(&self) -> bool {
        self.circuit.why().is_some()
    }

    /// Returns the time for which it has been in trouble.
    pub(super) fn troubled_for(&self, now: Instant) -> Option<Duration> {
        self.since.map(|since| now.since(since))
    }

    /// Returns whether it has no element whose answer would be missed.
    pub(super) fn may_be_forgotten(&self) -> bool {
        self.in_flight.count == 0
    }

    /// Returns whether it is no longer in use, whatever is known of it.
    pub(super) fn is_idle(&self, after: Duration, now: Instant) -> bool {
        self.in_flight.count == 0 && now.since(self.used) > after
    }

    pub(super) fn used(&self) -> Instant {
        self.used
    }

    /// Returns the elements in flight without any answer.
    pub(super) fn silent(&self, now: Instant) -> Room {
        if self.is_silent(now) { self.in_flight } else { Room::default() }
    }

    fn is_silent(&self, now: Instant) -> bool {
        self.in_flight.count > 0 && now.since(self.heard) >= SILENT
    }
}

fn plus(a: Room, b: Room) -> Room {
    Room { count: a.count + b.count, bytes: a.bytes + b.bytes }
}
