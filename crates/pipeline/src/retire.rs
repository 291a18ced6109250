//! The end of one queue while the process goes on: it is changed or removed. What it has in flight is brought to its end
//! as at the end of the process, within a time; the other queues do not notice.
//!
//! A queue has an end of its own: `Queue::stopping`, `abandon` and `give_up` are children of the process's tokens, and its
//! claimer, deliveries and settlements are its `tasks`. What could not be written in time is left to its leases. The queue
//! that follows finds the names, as after a crash, counts possible duplicates of what was sent, and inherits the names of ended claims.

use std::sync::Arc;
use std::time::Duration;

use crate::active::ActiveQueue;
use crate::leases::keeper;
use delaybridge_core::clock::Instant;

/// Of its time: until then sinks may answer, then what is with them is released.
const ABANDON: f64 = 0.7;
/// Of its time: until then verdicts are written, then what is left is left to its leases.
const GIVE_UP: f64 = 0.9;
/// The time that the names of ended claims are waited for: until these can run no more.
const BURY: Duration = Duration::from_secs(3);

/// Claims nothing more, and waits until nothing is in flight, at most for this long. Answers how many elements are left to
/// their leases. Cancel safe: the queue stays stopped, and a process that stops brings it to its end.
pub async fn drain(queue: &Arc<ActiveQueue>, within: Duration) -> usize {
    let started = Instant::now();
    queue.stopping.cancel();
    queue.tasks.close();
    // A claimer that waits at a gate hears the end by itself, a writer that waits for Redis does not hurry.
    let left = |share: f64| within.mul_f64(share).saturating_sub(started.elapsed());
    let mut idle = std::pin::pin!(queue.tasks.wait());
    if tokio::time::timeout(left(ABANDON), &mut idle).await.is_err() {
        queue.abandon.cancel();
        if tokio::time::timeout(left(GIVE_UP), &mut idle).await.is_err() {
            queue.give_up.cancel();
            let _ = tokio::time::timeout(left(1.0), &mut idle).await;
        }
    }
    // From here on it writes nothing more, whatever may come.
    queue.abandon.cancel();
    queue.give_up.cancel();
    let elements = queue.forget();
    if !queue.tasks.is_empty() {
        // A reply that may still come, with elements that take room as long as it is waited for.
        let queue = queue.clone();
        queue.process.clone().spawn("drain", async move {
            queue.tasks.wait().await;
            queue.forget();
        });
    }
    elements
}

/// Removes the names of the claims of a drained queue that this process serves no more. What is not removed now is a name
/// without elements: whoever meets it removes it.
pub async fn bury(queue: &Arc<ActiveQueue>) {
    let started = Instant::now();
    while !queue.leases.is_idle() && started.elapsed() < BURY && !queue.process.stopping.is_cancelled() {
        keeper::bury(&queue.leases).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
