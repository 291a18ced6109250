//! One claim of this process: its lease, the room of its elements, and how far each of them is.
//!
//! | stage of an element | who has the duty for it | what moves it on | what a crash leaves in Redis |
//! |---|---|---|---|
//! | in hand, not sent | its `ClaimBatch`; off the common way a `ClaimedElement` | the door of its sinks | the element |
//! | in hand, at its sinks | its `ClaimDelivery`, or a `ClaimedElement` in a round | their last answer | the element, perhaps delivered |
//! | in hand, judged | its `ClaimedElement`, beside the verdict | the settler, or first the answer of the audit trail | the same |
//! | unwritten: confirmed by all sinks | the claim | the last of the claim, or a flush | the same |
//! | on its way: its verdict is queued or sent | the settler | the answer of Redis | the same, or the verdict |
//! | ended | nobody | nothing | the verdict |
//! | stale: its lease was over before it was sent | nobody | nothing | the element, for whoever takes the claim over |
//!
//! A duty that is dropped in hand releases its elements; those at their sinks, as possibly delivered. Later nothing is left to be
//! released: what is not written stays under its lease. The room of an element is given back when it comes to one of the last two
//! stages. Most claims end as a whole: every element confirmed, one command.
//!
//! That one command removes whatever is under the name. The server may have an older state than this process has seen: then what
//! left the claim is in it again. So a claim ends as a whole only if nothing has left it in another way than by a confirmation.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};

use crate::claim::differences::{self, ClaimDifferences};
use crate::claim::stages::{ElementStage, Ending, StageCounts};
use crate::limits::budget::Room;
use crate::limits::reserved::RoomReserved;
use crate::queue::Queue;
use delaybridge_core::clock::Instant;
use delaybridge_ledger::claims::{ClaimName, Element, Part, Whole, Writer};
use delaybridge_link::History;
use delaybridge_spans::Traces;

/// Whether neighbours are taken along, which the rule above forbids: for the tests of those that must notice it.
#[cfg(debug_assertions)]
pub(crate) use crate::fault_injection::takes_neighbours_along;

/// Returns `false`: no release build takes neighbours along.
#[cfg(not(debug_assertions))]
pub(crate) const fn takes_neighbours_along() -> bool {
    false
}

/// A claim that this process holds.
pub struct Claim {
    /// The context of its queue.
    pub queue: Arc<Queue>,
    /// The name of the claim.
    pub name: ClaimName,
    /// Redis time in ms after which it cannot run again.
    pub not_after_ms: i64,
    /// Whether a sink may have what it holds: it was taken over, or turned up again.
    pub may_repeat: bool,
    /// The elements that it took.
    pub elements: Vec<Element>,
    /// The time at which its reply was read.
    pub since: Instant,
    /// The traces of its elements; none where elements are not traced. Boxed, because most daemons have none.
    pub traces: Option<Box<Traces>>,
    state: Mutex<ClaimState>,
}

/// The contents of a claim or a takeover, as its reply or a look for it brought them.
#[derive(Debug)]
pub struct ClaimContents {
    /// Name of the claim.
    pub name: ClaimName,
    /// Redis time in ms after which it cannot run again.
    pub not_after_ms: i64,
    /// Whether a sink may have its elements: another owner, or this process, may have sent them.
    pub may_repeat: bool,
    /// The elements of the claim.
    pub elements: Vec<Element>,
    /// Whether these are all that was ever under the name: not if there are entries beside them that this version cannot read, or
    /// if it was found by its name, when something may have left it already.
    pub complete: bool,
    /// End of the lease.
    pub deadline: Instant,
    /// The history of the server from before the claim was sent; `None` if it could not be asked then.
    pub history: Option<History>,
}

#[derive(Debug)]
struct ClaimState {
    /// End of the lease.
    deadline: Instant,
    /// Another process took the claim over, or Redis has lost it.
    lost: bool,
    /// Whether all that was ever under its name was confirmed, or is still here.
    only_confirmed: bool,
    /// The history of the server in which its elements are known to be under its name.
    history: Option<History>,
    stages: Vec<ElementStage>,
    counts: StageCounts,
    /// The elements that were written back under another header, by their places, as they are now.
    rewritten: BTreeMap<usize, Element>,
    /// The number of headers on their way.
    rewriting: usize,
    /// A task is going to write what is confirmed.
    flushing: bool,
    room: RoomReserved,
}

impl ClaimState {
    /// Returns whether the claim waits for something else than the writing of what is confirmed.
    fn is_waiting(&self) -> bool {
        self.counts.in_hand > 0 || self.counts.on_its_way > 0 || self.rewriting > 0
    }

    fn on_their_way(&self) -> impl Iterator<Item = usize> {
        (0..self.stages.len()).filter(|at| matches!(self.stages[*at], ElementStage::OnItsWay(_)))
    }

    /// Moves an element on, if it is at the stage that the caller takes it from.
    fn move_on(&mut self, place: usize, from: ElementStage, to: ElementStage) -> bool {
        match self.stages.get_mut(place) {
            Some(stage) if *stage == from => *stage = to,
            _ => return false,
        }
        if let Some(count) = self.counts.of(from) {
            *count -= 1;
        }
        if let Some(count) = self.counts.of(to) {
            *count += 1;
        }
        true
    }
}

/// The state of a claim after some of its elements have left it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClaimEnd {
    /// Elements are in hand, or have verdicts to be written.
    Open,
    /// Nothing is left in it.
    Empty,
    /// Elements that were dropped as stale are left in it.
    Left,
}

impl std::fmt::Debug for Claim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Claim({})", self.name)
    }
}

impl Claim {
    /// Creates the claim of these contents. `room` is what was reserved for it: what is not needed is released, what is
    /// missing is taken all the same.
    pub(crate) fn new(queue: &Arc<Queue>, taken: ClaimContents, mut room: RoomReserved) -> Arc<Claim> {
        let ClaimContents { name, not_after_ms, may_repeat, elements, complete, deadline, history } = taken;
        let bytes = elements.iter().map(|element| element.room()).sum();
        // Bodies go with their elements, each by a verdict of its own.
        let only_confirmed = complete && elements.iter().all(|element| element.body.is_none());
        room.set(Room { count: elements.len() as u64, bytes });
        let counts = StageCounts { in_hand: elements.len(), ..StageCounts::default() };
        let stages = vec![ElementStage::InHand; elements.len()];
        let state = ClaimState {
            deadline,
            lost: false,
            only_confirmed,
            history,
            stages,
            counts,
            rewritten: BTreeMap::new(),
            rewriting: 0,
            flushing: false,
            room,
        };
        let since = Instant::now();
        let claim = Claim {
            traces: queue.process.tracer.as_ref().map(|tracer| Box::new(tracer.claim(since))),
            queue: queue.clone(),
            name,
            not_after_ms,
            may_repeat,
            elements,
            since,
            state: Mutex::new(state),
        };
        Arc::new(claim)
    }

    /// Returns the element at this place, as it is in Redis now.
    pub fn element(&self, place: usize) -> Element {
        self.lock().rewritten.get(&place).unwrap_or(&self.elements[place]).clone()
    }

    /// Notes that an element is about to be written back under a new header. Until that is
    /// [answered](Claim::rewritten), the claim does not end as a whole: which of its keys has the element is not known.
    pub fn rewriting(&self) {
        self.lock().rewriting += 1;
    }

    /// Notes the answer to a rewrite: the element as it is now, or `None` if it was refused.
    pub fn rewritten(&self, place: usize, element: Option<Element>) {
        let mut state = self.lock();
        state.rewriting = state.rewriting.saturating_sub(1);
        state.rewritten.extend(element.map(|element| (place, element)));
    }

    /// Returns whether there are confirmations without a writer. If so, the caller becomes the writer.
    pub fn begin_flush(&self) -> bool {
        let mut state = self.lock();
        state.counts.unwritten > 0 && !std::mem::replace(&mut state.flushing, true)
    }

    /// Ends that: another writes what is confirmed from here on.
    pub fn end_flush(&self) {
        self.lock().flushing = false;
    }

    /// Returns the number of this attempt for whoever receives an element of it, with this many attempts that counted
    /// before: 1 only if no sink has had it before. So it can be larger than what counts towards `max_attempts`.
    pub fn attempt(&self, attempts: u32, doubt: bool) -> u32 {
        let attempt = attempts.saturating_add(u32::from(self.name.expiries)).saturating_add(1);
        attempt.max(1 + u32::from(doubt || self.may_repeat))
    }

    /// Returns the writer of a new header of the element at this place.
    pub fn writer(&self, place: usize) -> Writer {
        let place = u32::try_from(place + 1).unwrap_or(u32::MAX);
        Writer { owner: self.queue.store.owner(), claim: self.name.number, place }
    }

    /// Returns until when sinks may begin to send what is in hand; `None` if too little of the lease is left, or if it
    /// is lost.
    pub fn fresh(&self) -> Option<Instant> {
        let state = self.lock();
        let latest = state.deadline.before(self.queue.spec.lease_margin());
        (!state.lost && Instant::now() < latest).then_some(latest)
    }

    /// Returns the end of the lease.
    pub fn deadline(&self) -> Instant {
        self.lock().deadline
    }

    /// Returns whether it was lost.
    pub fn is_lost(&self) -> bool {
        self.lock().lost
    }

    /// Returns whether another process may have taken it over.
    pub fn is_over(&self, now: Instant) -> bool {
        let state = self.lock();
        state.lost || state.deadline <= now
    }

    /// Moves the end of the lease to a later time; an earlier one is ignored.
    pub fn extended(&self, deadline: Instant) {
        let mut state = self.lock();
        state.deadline = state.deadline.max(deadline);
    }

    /// Marks the claim as lost: Redis says that its lease is gone. Returns the number of elements without an end for
    /// which that is new.
    pub fn set_lost(&self) -> usize {
        let mut state = self.lock();
        if std::mem::replace(&mut state.lost, true) { 0 } else { state.counts.open() }
    }

    /// Counts the elements that have not ended.
    pub fn open(&self) -> usize {
        self.lock().counts.open()
    }

    /// Returns the bytes that the foreign program wrote, of the elements that have not ended.
    pub fn in_hand(&self) -> Vec<Bytes> {
        let state = self.lock();
        let open = |stage: &ElementStage| !matches!(stage, ElementStage::Ended(_) | ElementStage::Stale);
        let places = self.elements.iter().zip(&state.stages);
        places.filter(|(_, stage)| open(stage)).map(|(element, _)| element.bytes()).collect()
    }

    /// Returns the due time in Redis ms of the oldest element that has not ended.
    pub fn oldest_due_ms(&self) -> Option<i64> {
        let state = self.lock();
        let open =
            self.elements.iter().zip(&state.stages).filter(|(_, stage)| !matches!(stage, ElementStage::Ended(_)));
        open.filter_map(|(element, _)| element.due_ms()).min()
    }

    /// Notes that the element has a verdict of its own, which is written separately.
    pub fn decided(&self, place: usize) {
        let mut state = self.lock();
        state.move_on(place, ElementStage::InHand, ElementStage::OnItsWay(Ending::Moved));
        state.only_confirmed = false;
    }

    /// Notes that every sink has confirmed these elements. Returns the places of all that are confirmed and not written, which are on
    /// their way from here on, and whether the claim is complete with them: nothing else is left of it. `None` if there are none, or
    /// if others of the claim are still in hand, and not `partly`.
    pub fn confirmed(&self, places: impl IntoIterator<Item = usize>, partly: bool) -> Option<(Vec<usize>, bool)> {
        let mut state = self.lock();
        for place in places {
            state.move_on(place, ElementStage::InHand, ElementStage::Unwritten);
        }
        let waits = state.is_waiting();
        if state.counts.unwritten == 0 || waits && !partly {
            return None;
        }
        let places: Vec<usize> =
            (0..state.stages.len()).filter(|at| state.stages[*at] == ElementStage::Unwritten).collect();
        for &place in &places {
            state.move_on(place, ElementStage::Unwritten, ElementStage::OnItsWay(Ending::Confirmed));
        }
        Some((places, !waits && (state.only_confirmed || takes_neighbours_along())))
    }

    /// Returns the places with a verdict on its way.
    pub fn on_their_way(&self) -> Vec<usize> {
        self.lock().on_their_way().collect()
    }

    /// Returns what removes its name with whatever is under it, if a call that is over before this point may do that: nothing has
    /// left it in another way than by a confirmation, no other process can have taken a part of it, and the server is the one that
    /// it was claimed at. Only the confirmations that it removes may be on their way.
    pub fn whole(&self, until: Instant) -> Option<Whole> {
        let state = self.lock();
        let history = self.queue.home().history();
        let only_confirmed = state.only_confirmed && history.is_some() && state.history == history;
        if !(only_confirmed || takes_neighbours_along()) || state.lost || state.deadline <= until {
            return None;
        }
        let is_entry =
            |place: usize| state.rewritten.contains_key(&place) || self.elements[place].part() == Part::Entries;
        let entries = state.on_their_way().filter(|place| is_entry(*place)).count();
        Some(Whole { name: self.name, bare: state.counts.on_its_way - entries, entries })
    }

    /// Compares what is under its name with what it is believed to hold, after the server may have forgotten writes.
    /// Elements that are there under another header than was written last are known by the one that is there.
    pub fn differences(&self, contents: Vec<Element>) -> ClaimDifferences {
        let mut state = self.lock();
        // What has gone may come back with the next change.
        state.only_confirmed = false;
        let ClaimState { stages, rewritten, .. } = &mut *state;
        differences::found(&self.elements, stages, rewritten, contents)
    }

    /// Notes that its elements are known to be under its name in this history.
    pub fn known_in(&self, history: History) {
        self.lock().history = Some(history);
    }

    /// Returns the history of the server in which its elements are known to be under its name.
    pub fn history(&self) -> Option<History> {
        self.lock().history
    }

    /// Ends these elements, because their verdicts were answered, and releases their room.
    pub(crate) fn ended(&self, places: impl IntoIterator<Item = usize>) -> ClaimEnd {
        let end = |stage| match stage {
            ElementStage::OnItsWay(ending) => Some(ElementStage::Ended(ending)),
            _ => None,
        };
        let Some(traces) = &self.traces else { return self.leave(places, end) };
        let places: Vec<usize> = places.into_iter().collect();
        traces.ended(places.iter().copied(), self.queue.home().now_ms());
        self.leave(places, end)
    }

    /// Drops an element whose lease is over: it stays in Redis.
    pub(crate) fn stale(&self, place: usize) -> ClaimEnd {
        self.leave([place], |stage| (stage == ElementStage::InHand).then_some(ElementStage::Stale))
    }

    fn leave(
        &self,
        places: impl IntoIterator<Item = usize>,
        to: impl Fn(ElementStage) -> Option<ElementStage>,
    ) -> ClaimEnd {
        let mut state = self.lock();
        let mut room = Room::default();
        for place in places {
            let Some(from) = state.stages.get(place).copied() else { continue };
            let Some(to) = to(from) else { continue };
            state.only_confirmed &= to != ElementStage::Stale;
            if state.move_on(place, from, to) {
                room.count += 1;
                room.bytes += self.elements[place].room();
            }
        }
        state.room.release(room);
        match state.counts {
            counts if counts.open() > 0 => ClaimEnd::Open,
            StageCounts { stale: 0, .. } => ClaimEnd::Empty,
            _ => ClaimEnd::Left,
        }
    }

    fn lock(&self) -> MutexGuard<'_, ClaimState> {
        self.state.lock()
    }
}
