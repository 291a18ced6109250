//! The state of one claimed element, until it has a verdict.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use redisson_codecs::Payload;

use crate::claim::isolation::Isolation;
use crate::claim::record::Claim;
use crate::gate::GateProbe;
use crate::limits::growth::Growth;
use crate::queue::Queue;
use delaybridge_core::message::{Identity, lateness};
use delaybridge_ledger::claims::{Element, Header};
use delaybridge_source::NoPayload;

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
    /// The payload, if it was decoded for the key of the element, which is about to be delivered.
    pub decoded: Option<Box<Payload>>,
    /// The room of its body, if the verdict has that.
    growth: Option<Growth>,
    isolation: Option<Isolation>,
}

impl ElementState {
    /// Creates the state of the element at this place of a claim. `None` if the claim has no such place.
    pub fn new(
        claim: &Arc<Claim>,
        place: usize,
        isolation: Option<Isolation>,
        probe: Option<GateProbe>,
    ) -> Option<ElementState> {
        let element = claim.element(place)?;
        let (id, payload) = claim.queue.store.open_element(&element);
        let mut header = element.header();
        // The entry keeps that when the claim is gone.
        header.doubt |= claim.may_repeat || claim.queue.may_have_had(&header);
        // Else it names the last attempt that a sink may have had, for a look at what that has left.
        if element.header.is_none() {
            header.writer = claim.writer(place);
        }
        Some(ElementState {
            claim: claim.clone(),
            place,
            header,
            element,
            id,
            payload,
            passed_over: Vec::new(),
            sent_to: Vec::new(),
            probe,
            decoded: None,
            growth: None,
            isolation,
        })
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

    /// Puts the element in flight again after [`leave_shared`](ElementState::leave_shared); waits while something else
    /// must be alone.
    pub async fn join_shared(&mut self) {
        if self.isolation.is_none() {
            let process = self.queue().process.clone();
            let mut guard = std::pin::pin!(Isolation::of(&process, false));
            let isolation = match guard.as_mut().now_or_never() {
                Some(isolation) => isolation,
                None => {
                    // What waits has no room for that.
                    self.decoded = None;
                    guard.await
                }
            };
            self.isolation = Some(isolation);
        }
    }

    /// Returns the lateness of the element by Redis's clock; `None` for elements without a due time.
    pub fn lateness(&self) -> Option<Duration> {
        lateness(self.header.due_ms()?, self.queue().home().now_ms())
    }
}
