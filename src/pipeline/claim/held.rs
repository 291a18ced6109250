//! One element on its own: where a claim's elements do not go the common way together.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::clock::Instant;
use crate::message::{Identity, lateness};
use crate::pipeline::claim::{Claim, Isolation};
use crate::pipeline::gate::Probe;
use crate::pipeline::queue::Queue;
use crate::pipeline::settle::verdict::{Release, Verdict};
use crate::source::NoPayload;
use crate::source::ledger::claims::{Element, Header, Writer};

/// One element of a claim, with the duty to settle it exactly once.
///
/// [`settle`](Held::settle) consumes it, so that happens at most once. Dropped unsettled, it is released, never
/// acknowledged (R5).
#[derive(Debug)]
pub struct Held {
    parts: Option<Box<Parts>>,
}

/// The element, while it has no verdict.
#[derive(Debug)]
pub struct Parts {
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
    pub probe: Option<Probe>,
    /// When it was claimed; if that was ahead of its due time, when it fell due.
    pub since: Instant,
    isolation: Option<Isolation>,
}

impl Held {
    /// The element at this place of a claim. `None` if the claim has no such place.
    pub fn new(claim: &Arc<Claim>, place: usize, isolation: Isolation, probe: Option<Probe>) -> Option<Held> {
        let element = claim.element(place)?;
        let (id, payload) = claim.queue.store.open_element(&element);
        let mut header = element.header();
        header.writer = Writer {
            owner: claim.queue.process.owner,
            claim: claim.name.number,
            place: u32::try_from(place + 1).unwrap_or(u32::MAX),
        };
        let parts = Parts {
            claim: claim.clone(),
            place,
            header,
            element,
            id,
            payload,
            probe,
            since: claim.since,
            isolation: Some(isolation),
        };
        Some(Held { parts: Some(Box::new(parts)) })
    }

    /// The element.
    pub fn parts(&mut self) -> &mut Parts {
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

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(parts) = self.parts.take() {
            let why = match parts.queue().process.stopping.is_cancelled() {
                true => Release::Shutdown,
                false => Release::Dropped,
            };
            settle(parts, Verdict::Release { why });
        }
    }
}

fn settle(parts: Box<Parts>, verdict: Verdict) {
    let queue = parts.queue().clone();
    queue.settler.settle(parts, verdict);
}

impl Parts {
    /// Its queue.
    pub fn queue(&self) -> &Arc<Queue> {
        &self.claim.queue
    }

    /// Leaves what is in flight, as far as an element that must be alone is concerned.
    pub fn leave_shared(&mut self) {
        if let Some(Isolation::Shared(_)) = self.isolation {
            self.isolation = None;
        }
    }

    /// Is in flight again after [`leave_shared`](Parts::leave_shared); waits while something else must be alone.
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
