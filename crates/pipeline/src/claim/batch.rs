//! The elements of a claim on their way to the sinks.

use std::sync::Arc;
use std::time::Duration;

use crate::claim::claimed::ClaimedElement;
use crate::claim::isolation::Isolation;
use crate::claim::record::Claim;
use crate::gate::GateProbe;
use crate::limits::growth::Growth;
use crate::settle::Settler;

/// The elements of a claim that were not handed to a sink yet. Those that are left when it is dropped are released.
#[derive(Debug)]
pub struct ClaimBatch {
    claim: Arc<Claim>,
    settler: Arc<Settler>,
    /// `None` while it waits for room.
    isolation: Option<Isolation>,
    /// For the first element.
    probe: Option<GateProbe>,
    /// The places in the claim in the order of delivery; empty where that is their own.
    places: Vec<usize>,
    next: usize,
    /// Room that was waited for, for the next elements.
    growth: Option<Box<Growth>>,
    lack: Option<Lack>,
    /// Whether it has waited for a due time.
    waited: bool,
}

/// The reason why the rest of a batch is to be begun later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    /// The next element grows by this many bytes, and there is no room.
    Room(u64),
    /// The next element was claimed ahead, and is due at this Redis time in ms.
    Time(i64),
}

impl ClaimBatch {
    /// Creates a batch of all elements of a claim. Where they may wait for their due times, or for each other, they are
    /// in the order of these: a claim has entries before bare elements.
    pub fn new(settler: Arc<Settler>, claim: Arc<Claim>, isolation: Isolation, probe: Option<GateProbe>) -> Self {
        let spec = &claim.queue.spec;
        let elements = &claim.elements;
        let mut places = Vec::new();
        let is_by_due = spec.order.is_some() || !spec.claim_ahead.is_zero();
        if is_by_due && !elements.is_sorted_by_key(|element| element.due_ms()) {
            places.extend(0..elements.len());
            places.sort_by_key(|place: &usize| elements[*place].due_ms());
        }
        let isolation = Some(isolation);
        let next = 0;
        let growth = None;
        ClaimBatch { claim, settler, isolation, probe, places, next, growth, lack: None, waited: false }
    }

    /// Returns whether one of the elements is to find out if something works again.
    pub fn is_probe(&self) -> bool {
        self.probe.is_some()
    }

    /// Returns the guard of its elements; `None` while they wait for room.
    pub fn isolation(&self) -> Option<&Isolation> {
        self.isolation.as_ref()
    }

    /// Takes the place in the claim of the next element that is due at this Redis time, for a caller that takes over
    /// the duty for it.
    pub fn take_place(&mut self, now_ms: i64) -> Option<usize> {
        let place = self.place()?;
        let claim = &self.claim;
        // Our idea of Redis's clock is rounded: a whole millisecond more, so that it is never ahead (R9).
        if !claim.queue.spec.claim_ahead.is_zero()
            && let Some(due_ms) = claim.elements[place].due_ms().filter(|due_ms| *due_ms >= now_ms)
        {
            self.lack = Some(Lack::Time(due_ms));
            return None;
        }
        self.next += 1;
        Some(place)
    }

    /// Puts back the element that was taken last: it grows by this many bytes, for which there is no room.
    pub fn put_back(&mut self, bytes: u64) {
        self.next = self.next.saturating_sub(1);
        self.lack = Some(Lack::Room(bytes));
    }

    /// Returns why the rest of the batch has to be begun later, or `None` if nothing is left.
    pub fn lack(&self) -> Option<Lack> {
        self.lack
    }

    /// Takes the probe for the element that was taken first.
    pub fn take_probe(&mut self) -> Option<GateProbe> {
        self.probe.take()
    }

    /// Returns whether the next element has waited for its due time.
    pub fn has_waited(&self) -> bool {
        self.waited
    }

    fn place(&self) -> Option<usize> {
        let place = self.places.get(self.next).copied().unwrap_or(self.next);
        (place < self.claim.elements.len()).then_some(place)
    }

    /// Estimates how many elements are handed over next: all that are left, or one after a wait for room.
    pub fn about(&self) -> usize {
        self.growth.as_ref().map_or(self.claim.elements.len() - self.next, |_waited| 1)
    }

    /// Takes the room that the next elements may grow by.
    pub fn take_growth(&mut self) -> Growth {
        self.growth.take().map_or_else(|| self.claim.queue.growth(), |growth| *growth)
    }

    /// Returns whether nothing else may be in flight beside it.
    pub fn is_alone(&self) -> bool {
        matches!(self.isolation, Some(Isolation::Alone(_)))
    }

    /// Leaves what is in flight, as far as an element that must be alone is concerned.
    pub fn leave_shared(&mut self) {
        if !self.is_alone() {
            self.isolation = None;
        }
    }

    /// Waits until the next element has what it lacks, and may be in flight.
    ///
    /// Room first, the guard last: an element that must be alone, and has room, waits for the guard. What only waits
    /// does no harm,
    /// and an element that must be alone would wait for it.
    pub async fn get_ready(&mut self) {
        let queue = self.claim.queue.clone();
        let lack = self.lack.take();
        if lack.is_some() {
            self.leave_shared();
        }
        match lack {
            // Boxed, like the wait: few claims grow.
            Some(Lack::Room(bytes)) => self.growth = Some(Box::new(Box::pin(queue.grown(bytes)).await)),
            Some(Lack::Time(due_ms)) => {
                self.waited = true;
                while let Ok(left @ 1..) = u64::try_from(due_ms.saturating_add(1).saturating_sub(queue.home().now_ms()))
                {
                    // Not longer than a second: Redis's clock may be set, and ours stops in a suspend.
                    tokio::time::sleep(Duration::from_millis(left).min(Duration::from_secs(1))).await;
                }
            }
            None => {}
        }
        if self.isolation.is_none() {
            self.isolation = Some(Isolation::of(&queue.process, false).await);
        }
    }

    /// Returns the settler of its queue.
    pub fn settler(&self) -> &Arc<Settler> {
        &self.settler
    }

    /// Returns the claim.
    pub fn claim(&self) -> &Arc<Claim> {
        &self.claim
    }
}

impl Iterator for ClaimBatch {
    type Item = ClaimedElement;

    fn next(&mut self) -> Option<ClaimedElement> {
        let place = self.place()?;
        self.next += 1;
        let element = ClaimedElement::new(&self.settler, &self.claim, place);
        Some(element.by_itself(self.isolation.clone(), self.probe.take()))
    }
}

impl Drop for ClaimBatch {
    fn drop(&mut self) {
        self.by_ref().for_each(drop);
    }
}
