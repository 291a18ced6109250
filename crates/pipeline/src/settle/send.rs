//! The sending of verdicts: what is waited for before it, and what its answer says.

use std::time::Duration;

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

/// Looks at one answer, and reports and waits where that is needed. `None`: it is to be sent again, because what is decided stays
/// decided; `resent` says from then on that it may have been done.
pub(super) async fn look<T>(
    queue: &Queue,
    answer: Result<T, StoreError>,
    resent: &mut bool,
    reported: &mut bool,
) -> Option<T> {
    let problem = match answer {
        Ok(answer) => {
            if std::mem::take(reported) {
                queue.resume();
            }
            return Some(answer);
        }
        Err(StoreError::NotSent { .. }) => return None,
        Err(problem) => problem,
    };
    // Of several commands, and of a script, some may have been done before one was refused.
    *resent = true;
    match problem {
        StoreError::Unknown { .. } => {}
        StoreError::Moving { .. } => {
            queue.slot_migrates();
            tokio::time::sleep(MIGRATING).await;
        }
        // A key of a wrong type, a right taken away.
        problem => {
            *reported = true;
            queue.events.on_hold(None, "settle", "", &format!("write verdicts: {problem}"));
            tokio::time::sleep(REFUSED).await;
        }
    }
    None
}
