//! Claims with a lost reply: if they ran, their elements are in Redis under our name (R5).
//!
//! The same for claims of ours that turn up again because their elements were dropped here: their leases were over when
//! their turn came, and no other process took them over.

use std::time::Duration;

use crate::active::ActiveQueue;
use crate::claim::batch::ClaimBatch;
use crate::claim::isolation::Isolation;
use crate::claim::record::ClaimContents;
use crate::leases::Forgotten;
use crate::leases::extension::ExtensionCall;
use crate::limits::budget::Room;
use crate::limits::reserved::RoomReserved;
use crate::queue::Queue;
use delaybridge_core::clock::Instant;
use delaybridge_ledger::claims::{ClaimName, Contents, Extended};
use delaybridge_ledger::{BATCH_BYTES, BATCH_ENTRIES, StoreError};
use delaybridge_link::History;
use delaybridge_telemetry::labels::ClaimLabel;

/// The time beyond its patience in which a claim is waited for by our own clock: a millisecond each way, and a busy machine.
const SLACK: Duration = Duration::from_millis(500);

/// A claim that is looked for.
pub struct Lost {
    /// The claim, with the lease that a queue before this one may have given it.
    claim: Forgotten,
    /// The point from which it cannot run any more by our own clock.
    over_at: Instant,
    /// The room and the guard that the claim was made with. None for one that turned up again: it gets them when its turn comes, and holds
    /// nothing until then.
    means: Option<(RoomReserved, Isolation)>,
}

/// The outcome of a look for a lost claim.
pub enum Looked {
    /// The claim is found, or it never ran.
    Found,
    /// Look again.
    Again,
    /// Redis refuses.
    Refused(StoreError),
}

impl Lost {
    /// Creates the record of a claim or takeover with a lost reply, with its reservations.
    ///
    /// It cannot run after its `not_after_ms` by Redis's clock, which is `patience_over` by our own if the clock has not
    /// changed.
    pub fn reply(claim: Forgotten, patience_over: Instant, means: (RoomReserved, Isolation)) -> Self {
        Lost { claim, over_at: patience_over.after(SLACK), means: Some(means) }
    }

    /// Creates the record of a claim of ours that is not here, with a lease that was over at this Redis time. `left`:
    /// what is in it was left there, and not sent.
    pub fn stray(name: ClaimName, seen_ms: i64, left: bool) -> Self {
        let not_after_ms = seen_ms.saturating_sub(1);
        let claim = Forgotten { name, not_after_ms, lease: Duration::ZERO, may_repeat: !left };
        Lost { claim, over_at: Instant::now(), means: None }
    }

    /// Creates the record of a claim that the queue before this one, in the same process, has left.
    pub fn forgotten(claim: Forgotten, now_ms: i64) -> Self {
        let runs_ms = claim.not_after_ms.saturating_sub(now_ms).try_into().unwrap_or(0);
        let over_at = Instant::now().after(Duration::from_millis(runs_ms)).after(SLACK);
        Lost { claim, over_at, means: None }
    }

    /// Returns the claim as the queue that follows is to know it.
    pub fn forget(&self, queue: &Queue) -> Forgotten {
        Forgotten { lease: self.claim.lease.max(queue.spec.lease), ..self.claim }
    }

    /// Returns the name of the claim.
    pub fn name(&self) -> ClaimName {
        self.claim.name
    }

    /// Returns whether it holds what others may wait for, and so goes before those that do not.
    pub fn holds(&self) -> bool {
        self.means.is_some()
    }

    /// Gives back what others may wait for, while Redis cannot be asked: it may be away for long, and queues on another Redis
    /// need the same. Its turn comes as that of one that turned up again.
    pub fn yields(&mut self) {
        self.means = None;
    }

    /// Looks once, and takes up what it finds.
    pub async fn look(&mut self, queue: &ActiveQueue) -> Looked {
        let process = &queue.process;
        if self.means.is_none() {
            // Order: the end goes first; a place in a line may be left at any time.
            self.means = tokio::select! {
                biased;
                () = queue.abandon.cancelled() => return Looked::Again,
                means = means(queue, self.claim.name) => Some(means),
            };
        }
        let history = queue.home().history();
        let call = ExtensionCall::begin(&queue.leases);
        let sent = call.sent;
        let (now_ms, held) = match call.extend(&[self.claim.name]).await {
            Ok(Extended::Done { now_ms, held }) => (now_ms, held == [true]),
            Ok(Extended::Late { .. }) => return Looked::Again,
            Err(problem) => return unanswered(problem),
        };
        // A clock that says much less than when the claim was sent is another one, after a failover. Should the claim run
        // after all, it is met again when its lease is over.
        let left = self.over_at.since(Instant::now());
        if now_ms <= self.claim.not_after_ms && !left.is_zero() {
            // It may still run. If it has run, its lease is extended, which does no harm.
            let wait = Duration::from_millis(self.claim.not_after_ms.saturating_sub(now_ms).unsigned_abs() + 1);
            let wait = wait.min(left);
            // Order does not matter: either way the claim is looked for again, or the process ends.
            tokio::select! {
                () = queue.abandon.cancelled() => {}
                () = tokio::time::sleep(wait) => {}
            }
            return Looked::Again;
        }
        if !held {
            return Looked::Found;
        }
        match ExtensionCall::begin(&queue.leases).recover(self.claim.name, self.claim.may_repeat).await {
            Ok(Some(contents)) => self.take_up(queue, contents, sent.after(queue.spec.lease), history),
            Ok(None) => return Looked::Again,
            Err(problem) => return unanswered(problem),
        }
        process.events.metrics().script("recover").took(sent.elapsed());
        Looked::Found
    }

    /// Takes up what was found in this history, under a lease that ends at `deadline`.
    fn take_up(&mut self, queue: &ActiveQueue, mut contents: Contents, deadline: Instant, history: Option<History>) {
        let Some((room, isolation)) = self.means.take() else { return };
        let Forgotten { name, not_after_ms, may_repeat, .. } = self.claim;
        contents.unknown = contents.unknown.saturating_sub(contents.damaged.len() as u64);
        contents.elements.append(&mut contents.damaged);
        if contents.unknown > 0 {
            queue.events.unknown_entries(contents.unknown);
        }
        let found = contents.elements.len() as u64;
        if found == 0 {
            if contents.unknown == 0 {
                queue.leases.bury_name(name, not_after_ms);
            }
            return;
        }
        let metrics = queue.events.metrics();
        metrics.recovered(found);
        if may_repeat {
            // The owner of the expired lease may have delivered them, also if the reply with that fact was lost. Or we did,
            // and a failover has lost that.
            metrics.claimed(ClaimLabel::Expired, found);
            metrics.possible_duplicates(if name.is_exhausted() { 0 } else { found });
        }
        let elements = contents.elements;
        let taken = ClaimContents { name, not_after_ms, may_repeat, elements, complete: false, deadline, history };
        let claim = queue.leases.take_up(taken, room);
        let batch = ClaimBatch::new(queue.settler.clone(), claim, isolation, None);
        // Otherwise it is released: nothing new is delivered after SIGTERM.
        if !queue.stopping.is_cancelled() {
            queue.dispatch.push(batch);
        }
    }
}

fn unanswered(problem: StoreError) -> Looked {
    match problem {
        StoreError::NotSent { .. } | StoreError::Unknown { .. } => Looked::Again,
        problem => Looked::Refused(problem),
    }
}

/// Waits for what the elements of such a claim need: room, and to be alone if one of them may kill the process.
async fn means(queue: &Queue, name: ClaimName) -> (RoomReserved, Isolation) {
    let of_process = queue.process.budget_of(&queue.spec.redis);
    // In this order, as before every claim. In order nothing is waited for: what has room waits for what is found here.
    let room = if queue.spec.order.is_some() {
        RoomReserved::none(&queue.budget, of_process)
    } else {
        let want = Room { count: BATCH_ENTRIES as u64, bytes: BATCH_BYTES as u64 };
        RoomReserved::of(&queue.budget, || (), of_process, want).await
    };
    (room, Isolation::of(&queue.process, name.is_suspect()).await)
}
