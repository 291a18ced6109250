//! Takes ghosts out of Redisson's lists, slice after slice, one queue after the other.

use std::sync::Arc;
use std::time::Duration;

use crate::queue::Queue;
use crate::registry::QueueRegistry;
use delaybridge_core::clock::Instant;
use delaybridge_ledger::{Start, StoreError, UpkeepRequest, UpkeepState, Upkept};
use delaybridge_link::BadReply;
use delaybridge_model::Mode;
use delaybridge_telemetry::status::Heartbeat;

/// Least time between two looks at the queues.
const EVERY: Duration = Duration::from_millis(250);
/// The task beats at least so often.
const BEAT: Duration = Duration::from_secs(1);

/// Sweeps until the process stops.
pub async fn run(registry: Arc<QueueRegistry>, heartbeat: Heartbeat) {
    let process = registry.process().clone();
    loop {
        let asked = async {
            process.upkeep.notified().await;
            // What is asked for meanwhile is done together.
            tokio::time::sleep(EVERY).await;
        };
        // Order: the end first. A turn may stop after any slice: the next daemon continues there.
        tokio::select! {
            biased;
            () = process.stopping.cancelled() => return,
            () = asked => {}
            () = tokio::time::sleep(BEAT) => {}
        }
        heartbeat.beat();
        // A shadow writes nothing, so nothing is swept there either.
        for queue in registry.find(|queue| queue.take_upkeep() && queue.spec.mode != Mode::Shadow) {
            turn(&queue, &heartbeat).await;
        }
    }
}

/// Runs one full turn, if one is due.
async fn turn(queue: &Arc<Queue>, heartbeat: &Heartbeat) {
    let started = Instant::now();
    let mut request = UpkeepRequest {
        step: None,
        max_age: queue.spec.source.leftover_max_age(),
        bandwidth: queue.spec.source.upkeep_bandwidth(),
        start: if queue.home().is_nearly_full() { Start::Urgent } else { Start::Due },
        largest: queue.hints().largest(),
    };
    let mut removed = 0;
    let mut entries = 0;
    while !queue.stopping.is_cancelled() {
        heartbeat.beat();
        // An unanswered step is sent again: a slice that was done is refused, with the number to continue with.
        let Ok(swept) = step(queue, &request).await else { return };
        removed += swept.removed.unsigned_abs();
        match swept.state {
            UpkeepState::Idle | UpkeepState::Busy => return,
            // Left by the answer to a resend; a turn that is over has nothing left.
            UpkeepState::Stale if swept.left == 0 => return,
            UpkeepState::Begun => {
                entries = swept.left.unsigned_abs();
                request.step = Some(swept.step);
            }
            UpkeepState::Stale | UpkeepState::Step => request.step = Some(swept.step),
            UpkeepState::Done => {
                if let Some(terms) = queue.store.metric_names() {
                    queue.events.orphans(terms, swept.orphans.unsigned_abs());
                }
                queue.events.swept(entries, removed, started.elapsed());
                return;
            }
        }
    }
}

async fn step(queue: &Arc<Queue>, request: &UpkeepRequest) -> Result<Upkept, StoreError> {
    for _ in 0..3 {
        let sent = Instant::now();
        match queue.store.upkeep(request).await {
            Err(StoreError::Unknown { .. }) => {}
            other => {
                queue.process.events.metrics().script("sweep").took(sent.elapsed());
                return other;
            }
        }
    }
    // The turn stays open; the next daemon continues it.
    Err(StoreError::Reply(BadReply { script: "sweep", expected: "an answer" }))
}
