//! The elements of a claim on their way to the sinks.

use std::sync::Arc;

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
    next: usize,
    /// Room that was waited for, for the next elements.
    growth: Option<Box<Growth>>,
}

impl ClaimBatch {
    /// All elements of a claim.
    pub fn new(settler: Arc<Settler>, claim: Arc<Claim>, isolation: Isolation, probe: Option<GateProbe>) -> Self {
        ClaimBatch { claim, settler, isolation: Some(isolation), probe, next: 0, growth: None }
    }

    /// Whether one of the elements is to find out if something works again.
    pub fn is_probe(&self) -> bool {
        self.probe.is_some()
    }

    /// The guard of its elements; `None` while they wait for room.
    pub fn isolation(&self) -> Option<&Isolation> {
        self.isolation.as_ref()
    }

    /// The next element's place, for a caller that takes over the duty for it.
    pub fn take_place(&mut self) -> Option<usize> {
        let place = self.next;
        (place < self.claim.elements.len()).then(|| self.next += 1)?;
        Some(place)
    }

    /// The element that was taken last is not handed over now.
    pub fn put_back(&mut self) {
        self.next = self.next.saturating_sub(1);
    }

    /// About how many elements are handed over next: those that are left, or, where room was waited for, few.
    pub fn about(&self) -> usize {
        self.growth.as_ref().map_or(self.claim.elements.len() - self.next, |_waited| 1)
    }

    /// Takes the room that the next elements may grow by.
    pub fn take_growth(&mut self) -> Growth {
        let queue = &self.claim.queue;
        let none = || Growth::none(&queue.budget, queue.process.budget_of(&queue.spec.redis));
        self.growth.take().map_or_else(none, |growth| *growth)
    }

    /// Whether nothing else may be in flight beside it.
    pub fn is_alone(&self) -> bool {
        matches!(self.isolation, Some(Isolation::Alone(_)))
    }

    /// Leaves what is in flight, as far as an element that must be alone is concerned.
    pub fn leave_shared(&mut self) {
        if !self.is_alone() {
            self.isolation = None;
        }
    }

    /// Waits until the next element may grow by what it `missing_bytes`, and be in flight.
    ///
    /// Room first, the guard last: an element that must be alone, and has room, waits for the guard.
    pub async fn get_ready(&mut self, missing_bytes: Option<u64>) {
        let queue = self.claim.queue.clone();
        if let Some(bytes) = missing_bytes {
            self.leave_shared();
            let of_process = queue.process.budget_of(&queue.spec.redis);
            // Boxed, like the wait: few claims grow.
            self.growth = Some(Box::new(Box::pin(Growth::of(&queue.budget, of_process, bytes)).await));
        }
        if self.isolation.is_none() {
            self.isolation = Some(Isolation::of(&queue.process, false).await);
        }
    }

    /// The settler of its queue.
    pub fn settler(&self) -> &Arc<Settler> {
        &self.settler
    }

    /// The claim.
    pub fn claim(&self) -> &Arc<Claim> {
        &self.claim
    }
}

impl Iterator for ClaimBatch {
    type Item = ClaimedElement;

    fn next(&mut self) -> Option<ClaimedElement> {
        let element =
            ClaimedElement::new(&self.settler, &self.claim, self.next, self.isolation.clone(), self.probe.take())?;
        self.next += 1;
        Some(element)
    }
}

impl Drop for ClaimBatch {
    fn drop(&mut self) {
        self.by_ref().for_each(drop);
    }
}
