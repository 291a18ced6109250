//! The state of one claimed element, until it has a verdict.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::claim::isolation::Isolation;
use crate::claim::record::Claim;
use crate::gate::GateProbe;
use crate::limits::growth::Growth;
use crate::queue::Queue;
use delaybridge_core::message::{Identity, lateness};
use delaybridge_ledger::NoPayload;
use delaybridge_ledger::claims::{Element, Header};

/// The element, while it has no verdict.
#[derive(Debug)]
pub struct ElementState {
    /// The claim that holds the element.
    pub claim: Arc<Claim>,
    /// The place of the element in its claim.
    pub place: usize,
    /// The element as it is in Redis.
    pub element: Element,
    /// The header that is written with every verdict that keeps the element.
    pub header: Header,
    /// The identity of the element.
    pub id: Identity,
    /// The payload that the application offered; junk has none.
    pub payload: Result<Bytes, NoPayload>,
    /// The sinks that are not meant for the element, by their places among the queue's destinations.
    pub passed_over: Vec<usize>,
    /// The destinations that it went to in this attempt, by their places, as they may be shown; only where its record needs them.
    pub sent_to: Vec<(usize, String)>,
    /// Whether the element finds out if something works again.
    pub probe: Option<GateProbe>,
    /// The guard of what is in flight; `None` while the element waits without it.
    pub isolation: Option<Isolation>,
    /// The room of its body, if the verdict has that.
    growth: Option<Growth>,
}

impl ElementState {
    /// Creates the state of the element at this place of a claim, which is not in flight yet.
    pub fn new(claim: &Arc<Claim>, place: usize) -> ElementState {
        let element = claim.element(place);
        let (id, payload) = claim.queue.store.open_element(&element);
        let mut header = element.header();
        // The entry keeps that when the claim is gone.
        header.doubt |= claim.may_repeat || claim.queue.may_have_had(&header);
        // Else it names the last attempt that a sink may have had, for a look at what that has left.
        if element.header.is_none() {
            header.writer = claim.writer(place);
        }
        ElementState {
            claim: claim.clone(),
            place,
            header,
            element,
            id,
            payload,
            passed_over: Vec::new(),
            sent_to: Vec::new(),
            probe: None,
            isolation: None,
            growth: None,
        }
    }

    /// Notes that a sink may have the element from this attempt: a later look looks for what this one has left.
    pub fn has_left(&mut self) {
        self.header.writer = self.claim.writer(self.place);
    }

    /// Returns the context of the queue.
    pub fn queue(&self) -> &Arc<Queue> {
        &self.claim.queue
    }

    /// Returns whether its body came with the claim, as far as there is one.
    pub fn has_room(&self) -> bool {
        !matches!(self.payload, Err(NoPayload::NoRoom))
    }

    /// Holds the room of its body until the verdict is written.
    pub fn keep_room(&mut self, mut growth: Growth) {
        self.growth = (growth.settle() > 0).then_some(growth);
    }

    /// Returns whether nothing else may be in flight beside it.
    pub fn is_alone(&self) -> bool {
        matches!(self.isolation, Some(Isolation::Alone(_)))
    }

    /// Leaves what is in flight, as far as an element that must be alone is concerned.
    pub fn leave_shared(&mut self) {
        if let Some(Isolation::Shared(_)) = self.isolation {
            self.isolation = None;
        }
    }

    /// Returns the lateness of the element by Redis's clock; `None` for elements without a due time.
    pub fn lateness(&self) -> Option<Duration> {
        lateness(self.header.due_ms()?, self.queue().home().now_ms())
    }
}
