//! A claimed element in this process: the lease, the room it takes, and the duty to settle it exactly once.

pub mod alarm;
pub mod claimer;
pub mod outstanding;
pub mod pollers;
pub mod prepare;
pub mod recover;
pub mod reply;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard};

use crate::clock::Instant;
use crate::message::MessageId;
use crate::pipeline::gate::Probe;
use crate::pipeline::leases::LeaseStatus;
use crate::pipeline::limits::reserved::Reserved;
use crate::pipeline::queue::Queue;
use crate::pipeline::settle::verdict::{Release, Verdict};
use crate::source::Junk;
use crate::source::ledger::{ClaimedFrom, Entry};

/// Whether others may be in flight in this process beside the element.
#[derive(Debug, Clone)]
pub enum Isolation {
    /// They may: shared by all claims of a batch.
    Shared(Arc<OwnedRwLockReadGuard<()>>),
    /// Nothing else is in flight: this element may kill the process.
    Alone(Arc<OwnedRwLockWriteGuard<()>>),
}

/// One element that this process has taken, from its claim to its verdict.
///
/// [`settle`](Claim::settle) consumes it, so that happens at most once. Dropped unsettled, it is released, never
/// acknowledged (R5).
#[derive(Debug)]
pub struct Claim {
    parts: Option<Box<Parts>>,
}

/// The element, while only the claim has it.
#[derive(Debug)]
pub struct Parts {
    /// Its queue.
    pub queue: Arc<Queue>,
    /// Where this claim found it.
    pub from: ClaimedFrom,
    /// The entry as it is in Redis.
    pub entry: Entry,
    /// Its identity.
    pub id: MessageId,
    /// What the application offered; junk has none.
    pub payload: Result<Bytes, Junk>,
    /// Whether the element finds out if something works again.
    pub probe: Option<Probe>,
    /// When it was claimed; if that was ahead of its due time, when it fell due.
    pub since: Instant,
    _room: Reserved,
    isolation: Option<Isolation>,
}

impl Claim {
    /// Takes up an entry under a lease that ends at `deadline`. `None` if this process has it already, or has just
    /// settled it: then the entry belongs to another claim.
    pub fn accept(
        queue: &Arc<Queue>,
        from: ClaimedFrom,
        entry: Entry,
        deadline: Instant,
        room: Reserved,
        isolation: Isolation,
    ) -> Option<Claim> {
        if !queue.leases.insert(entry.header.key, entry.member.clone(), deadline) {
            return None;
        }
        let (id, payload) = queue.store.open(&entry);
        let parts = Parts {
            queue: queue.clone(),
            from,
            entry,
            id,
            payload,
            probe: None,
            since: Instant::now(),
            _room: room,
            isolation: Some(isolation),
        };
        Some(Claim { parts: Some(Box::new(parts)) })
    }

    /// Makes the element the one that finds out whether something works again.
    pub fn with_probe(mut self, probe: Probe) -> Self {
        if let Some(parts) = &mut self.parts {
            parts.probe = Some(probe);
        }
        self
    }

    /// The element.
    pub fn parts(&mut self) -> &mut Parts {
        // Only `settle`, `drop_stale` and `Drop` take the parts, and they consume the claim.
        self.parts.as_mut().unwrap_or_else(|| unreachable!("a claim has its parts until it is consumed"))
    }

    /// Hands the verdict to the settler of the queue.
    pub fn settle(mut self, verdict: Verdict) {
        if let Some(parts) = self.parts.take() {
            settle(parts, verdict);
        }
    }

    /// Gives up an element with an expired lease, without a command to Redis: the next claim takes it.
    pub fn drop_stale(mut self) {
        if let Some(parts) = self.parts.take() {
            parts.queue.leases.remove(parts.entry.header.key);
            parts.queue.events.stale_drops(1);
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(parts) = self.parts.take() {
            let why = match parts.queue.process.stopping.is_cancelled() {
                true => Release::Shutdown,
                false => Release::Dropped,
            };
            settle(parts, Verdict::Release { why });
        }
    }
}

fn settle(parts: Box<Parts>, verdict: Verdict) {
    let queue = parts.queue.clone();
    queue.settler.settle(parts, verdict);
}

impl Parts {
    /// Leaves what is in flight, as far as an entry that must be alone is concerned.
    pub fn leave_shared(&mut self) {
        if let Some(Isolation::Shared(_)) = self.isolation {
            self.isolation = None;
        }
    }

    /// Is in flight again after [`leave_shared`](Parts::leave_shared); waits while something else must be alone.
    pub async fn join_shared(&mut self) {
        if self.isolation.is_none() {
            let shared = self.queue.process.isolation.clone().read_owned().await;
            self.isolation = Some(Isolation::Shared(Arc::new(shared)));
        }
    }

    /// Whether enough of the lease is left to give the element to a sink; if so, until when the sink may
    /// begin to send it.
    pub fn fresh(&self) -> Option<Instant> {
        match self.queue.leases.status(self.entry.header.key) {
            LeaseStatus::Until(deadline) => {
                let latest = deadline.before(self.queue.spec.lease_margin());
                (Instant::now() < latest).then_some(latest)
            }
            LeaseStatus::Lost => None,
        }
    }

    /// How late the element is by Redis's clock; `None` for elements without a due time.
    pub fn lateness(&self) -> Option<Duration> {
        let late = self.queue.process.clock.now_ms().saturating_sub(self.entry.header.due_ms()?);
        Some(Duration::from_millis(u64::try_from(late).unwrap_or(0)))
    }
}
