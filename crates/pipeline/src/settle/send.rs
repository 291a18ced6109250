//! The sending of verdicts: what is waited for before it, and what its answer says.

use std::time::Duration;

use crate::claim::record::Claim;
use crate::leases::Leases;
use crate::leases::reconcile::{Reconciled, reconcile};
use crate::queue::Queue;
use delaybridge_ledger::StoreError;

/// The wait before a verdict that Redis refused is sent again.
const REFUSED: Duration = Duration::from_millis(500);

/// Wait before the claims in hand are compared again.
const COMPARED: Duration = Duration::from_millis(50);
/// The most comparisons. A verdict names what it is about, so it may be written even if no comparison is answered.
const COMPARISONS: u32 = 5;

/// Waits until verdicts can be written, and until the claims in hand are known to be what they were.
pub(super) async fn ready(leases: &Leases) {
    let queue = leases.queue();
    for _ in 0..COMPARISONS {
        queue.home().ready().await;
        if reconcile(leases).await == Reconciled::Known {
            return;
        }
        tokio::time::sleep(COMPARED).await;
    }
    queue.home().ready().await;
}

/// Wait while the cluster moves the queue's slot.
const MIGRATING: Duration = Duration::from_millis(100);

/// The outcome of a sending.
pub(super) enum Tried<T> {
    Answered(T),
    /// To be sent again, and may have been done.
    Unknown,
    /// To be sent again; nothing was sent.
    NotSent,
    /// The server refuses: a key of a wrong type, a right taken away. What is decided stays decided.
    Refused,
}

/// Looks at one answer, and reports and waits where that is needed.
pub(super) async fn look<T>(queue: &Queue, answer: Result<T, StoreError>, reported: &mut bool) -> Tried<T> {
    match answer {
        Ok(answer) => {
            if std::mem::take(reported) {
                queue.resume();
            }
            Tried::Answered(answer)
        }
        Err(StoreError::NotSent { .. }) => Tried::NotSent,
        Err(StoreError::Unknown { .. }) => Tried::Unknown,
        Err(StoreError::Moving { .. }) => {
            queue.slot_migrates();
            tokio::time::sleep(MIGRATING).await;
            Tried::Refused
        }
        Err(problem) => {
            *reported = true;
            queue.events.on_hold(None, "settle", "", &format!("write verdicts: {problem}"));
            tokio::time::sleep(REFUSED).await;
            Tried::Refused
        }
    }
}

/// Counts elements of a claim that have left Redis, each delivered to every sink.
pub(super) fn delivered(claim: &Claim, count: usize) {
    let queue = &claim.queue;
    queue.count_settled(count);
    queue.events.metrics().delivered(count as u64);
}
