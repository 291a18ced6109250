//! The replica at work: it may be behind, it may take over, and claims may have to wait for it.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::queue::Queue;
use super::replica::Saved;
use super::server::{MemoryServer, MemoryStore};
use delaybridge_ledger::StoreError;
use delaybridge_ledger::claims::{ClaimName, Element, SettleCommand};
use delaybridge_link::{Durability, NoAnswer, Shortfall};

/// The replicas that a claim has to reach.
const NEED: Durability = Durability { replicas: 1, aof: false, timeout: Duration::from_secs(1) };

/// Calls that a replica may be behind.
const LAG: usize = 40;

impl MemoryServer {
    /// Answers a claim only when the replica has it; one that it does not get in time goes back.
    pub fn await_replica(&self) {
        self.0.replica.awaited.store(true, Ordering::Relaxed);
    }

    /// Lets the replica be behind by any number of calls, unless claims wait for it. What is offered it has at once.
    pub fn lag(&self) {
        self.0.replica.lag.lock().get_or_insert_default();
    }

    /// The replica takes over without the last calls: as many of them, at most, as it may be behind. How many it lacks.
    pub fn promote_behind(&self, calls: usize) -> usize {
        let behind = self.0.replica.lag.lock().as_mut().map(std::mem::take).unwrap_or_default();
        let lacks = calls.min(behind.len());
        let state = behind.into_iter().rev().take(lacks).last();
        self.fail_over(state.unwrap_or_else(|| self.save()));
        lacks
    }

    /// Notes the state before a call that changes it.
    pub(super) fn note_lag(&self) {
        if let Some(lag) = &mut *self.0.replica.lag.lock() {
            if lag.len() == LAG {
                lag.pop_front();
            }
            lag.push_back(self.save());
        }
    }

    /// The replica has what it lacks of this queue as well.
    pub(super) fn reach_lagging(&self, name: &str, change: impl Fn(&mut Queue)) {
        for Saved(queues) in self.0.replica.lag.lock().iter_mut().flatten() {
            change(queues.entry(name.into()).or_default());
        }
    }

    /// Lets the replica receive nothing.
    pub fn cut_replica(&self) {
        self.0.replica.behind.lock().get_or_insert_with(|| self.save());
    }

    /// The replica receives all that it has missed.
    pub fn reach_replica(&self) {
        *self.0.replica.behind.lock() = None;
    }

    /// The replica takes over, with what it has.
    pub fn promote_replica(&self) {
        let behind = self.0.replica.behind.lock().take();
        let has = behind.unwrap_or_else(|| self.save());
        self.fail_over(has);
    }

    fn is_replicated(&self) -> bool {
        self.0.replica.behind.lock().is_none()
    }
}

impl MemoryStore {
    /// Whether a claim waits until the replica has it.
    pub(super) fn is_awaited(&self) -> bool {
        self.server.0.replica.awaited.load(Ordering::Relaxed)
    }

    /// Waits until the replica has a claim of these elements. If it does not get it in time, they go back, uncounted.
    /// `epoch` is that of the connection that the claim ran on.
    pub(super) async fn make_durable(
        &self,
        epoch: Option<(usize, u64)>,
        name: ClaimName,
        may_repeat: bool,
        elements: impl Iterator<Item = &Element> + Clone,
    ) -> Result<(), StoreError> {
        let any = elements.clone().next().is_some();
        if !any || !self.is_awaited() {
            return Ok(());
        }
        let late = !self.server.is_replicated();
        if late {
            tokio::time::sleep(NEED.timeout).await;
        }
        if self.server.epoch() != epoch {
            return Err(unfinished());
        }
        if !late || self.server.is_replicated() {
            // It has everything up to here.
            self.server.0.replica.lag.lock().as_mut().map(VecDeque::clear);
            return Ok(());
        }
        let back = |(at, element)| SettleCommand::release(name, name.number, at, element).doubtful(may_repeat);
        let back: Vec<_> = elements.enumerate().map(back).collect();
        let gone_back = self.call(None, |queue, now_ms| queue.settle(&back, None, None, now_ms)).await;
        gone_back.map_err(|_| unfinished())?;
        let released = back.len() as u64;
        Err(StoreError::NotDurable { shortfall: Shortfall::of(NEED, 0), released, may_repeat })
    }
}

/// As on a wire: the claim is to be looked for by its name.
fn unfinished() -> StoreError {
    let reason = NoAnswer::Broken("the claim could not be made durable".to_owned());
    StoreError::Unknown { address: "memory".into(), reason }
}
