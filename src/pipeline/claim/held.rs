//! One element on its own: where a claim's elements do not go the common way together.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::clock::Instant;
use crate::message::{Identity, lateness};
use crate::pipeline::claim::{Claim, Isolation};
use crate::pipeline::gate::GateProbe;
use crate::pipeline::limits::growth::Growth;
use crate::pipeline::queue::Queue;
use crate::pipeline::settle::verdict::{ReleaseCause, Verdict};
use crate::plant::{Lie, planted};
use crate::source::NoPayload;
use crate::source::ledger::claims::{Element, Header, Writer};

/// One element of a claim, with the duty to settle it exactly once.
///
/// [`settle`](ClaimedElement::settle) consumes it, so that happens at most once. Dropped unsettled, it is released, never
/// acknowledged (R5).
#[derive(Debug)]
pub struct ClaimedElement {
    parts: Option<Box<ElementState>>,
}

/// The element, while it has no verdict.
#[derive(Debug)]
pub struct ElementState {
    /// Its claim.
    pub claim: Arc<Claim>,
    /// Its place there.
    pub place: usize,
    /// The element as it is in Redis.
    pub element: Element,
    /// Its header: what is written with every verdict that keeps the element.
    pub header: Header,
    /// Its identity.
    pub id: Identity,
    /// What the application offered; junk has none.
    pub payload: Result<Bytes, NoPayload>,
    /// Whether the element finds out if something works again.
    pub probe: Option<GateProbe>,
    /// When it was claimed; if that was ahead of its due time, when it fell due.
    pub since: Instant,
    /// What it has grown to, while its bodies are there.
    growth: Option<Growth>,
    isolation: Option<Isolation>,
}

impl ClaimedElement {
    /// The element at this place of a claim. `None` if the claim has no such place.
    pub fn new(
        claim: &Arc<Claim>,
        place: usize,
        isolation: Option<Isolation>,
        probe: Option<GateProbe>,
    ) -> Option<ClaimedElement> {
        let element = claim.element(place)?;
        let (id, payload) = claim.queue.store.open_element(&element);
        let mut header = element.header();
        // The entry keeps that when the claim is gone.
        header.doubt |= claim.may_repeat;
        header.writer = Writer {
            owner: claim.queue.store.owner(),
            claim: claim.name.number,
            place: u32::try_from(place + 1).unwrap_or(u32::MAX),
        };
        let parts = ElementState {
            claim: claim.clone(),
            place,
            header,
            element,
            id,
            payload,
            probe,
            since: claim.since,
            growth: None,
            isolation,
        };
        Some(ClaimedElement { parts: Some(Box::new(parts)) })
    }

    /// Due time in Redis ms; none for elements of the ready list.
    pub fn due_ms(&self) -> Option<i64> {
        self.parts.as_ref().and_then(|parts| parts.header.due_ms())
    }

    /// The element.
    pub fn parts(&mut self) -> &mut ElementState {
        // Only `settle`, `drop_stale` and `Drop` take the parts, and they consume the element.
        self.parts.as_mut().unwrap_or_else(|| unreachable!("an element has its parts until it is consumed"))
    }

    /// Hands the verdict to the settler of the queue.
    pub fn settle(mut self, verdict: Verdict) {
        if let Some(parts) = self.parts.take() {
            settle(parts, verdict);
        }
    }

    /// Gives up an element with an expired lease, without a command to Redis: who takes the claim over delivers it.
    pub fn drop_stale(mut self) {
        if let Some(parts) = self.parts.take() {
            parts.claim.stale(parts.place);
            parts.queue().events.stale_drops(1);
        }
    }
}

impl Drop for ClaimedElement {
    fn drop(&mut self) {
        if let Some(parts) = self.parts.take() {
            let why = match parts.queue().stopping.is_cancelled() {
                true => ReleaseCause::Shutdown,
                false => ReleaseCause::Dropped,
            };
            let lie = planted(Lie::AckOnDrop);
            settle(parts, if lie { Verdict::Confirm } else { Verdict::Release { why } });
        }
    }
}

fn settle(parts: Box<ElementState>, verdict: Verdict) {
    if let Some(traces) = &parts.claim.traces {
        traces.judged(parts.place, verdict.as_str());
    }
    let queue = parts.queue().clone();
    queue.settler.settle(parts, verdict);
}

impl ElementState {
    /// Its queue.
    pub fn queue(&self) -> &Arc<Queue> {
        &self.claim.queue
    }

    /// Whether its body came with the claim, as far as there is one.
    pub fn has_room(&self) -> bool {
        !matches!(self.payload, Err(NoPayload::NoRoom))
    }

    /// Takes room for bodies of so many bytes beyond what came, if there is any.
    pub fn grow(&mut self, bytes: u64) -> bool {
        let (queue, alone) = (self.claim.queue.clone(), matches!(self.isolation, Some(Isolation::Alone(_))));
        if bytes == 0 {
            queue.budget.grew(self.element.weight() as u64, 0);
            return true;
        }
        let growth =
            self.growth.get_or_insert_with(|| Growth::none(&queue.budget, queue.process.budget_of(&queue.spec.redis)));
        let grown = match alone {
            true => {
                growth.take_anyway(bytes);
                true
            }
            false => growth.take(bytes),
        };
        if grown {
            growth.settle();
            queue.budget.grew(self.element.weight() as u64, bytes);
        }
        grown
    }

    /// Waits for such room, as far as an element that must be alone is concerned not in flight: it may have the room.
    pub async fn wait_for_room(&mut self, bytes: u64) {
        let queue = self.claim.queue.clone();
        self.leave_shared();
        self.growth = Some(Growth::of(&queue.budget, queue.process.budget_of(&queue.spec.redis), bytes).await);
        self.join_shared().await;
    }

    /// Its bodies are gone.
    pub fn shrink(&mut self) {
        self.growth = None;
    }

    /// Leaves what is in flight, as far as an element that must be alone is concerned.
    pub fn leave_shared(&mut self) {
        if let Some(Isolation::Shared(_)) = self.isolation {
            self.isolation = None;
        }
    }

    /// Is in flight again after [`leave_shared`](ElementState::leave_shared); waits while something else must be alone.
    pub async fn join_shared(&mut self) {
        if self.isolation.is_none() {
            let process = self.queue().process.clone();
            self.isolation = Some(Isolation::of(&process, false).await);
        }
    }

    /// How late the element is by Redis's clock; `None` for elements without a due time.
    pub fn lateness(&self) -> Option<Duration> {
        lateness(self.header.due_ms()?, self.queue().home().now_ms())
    }
}
