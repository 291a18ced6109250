//! Keeps the leases of everything in flight: at half of its time each gets a new deadline.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};

use crate::clock::Instant;
use crate::pipeline::process::Process;
use crate::pipeline::queue::Queue;
use crate::source::ledger::{BATCH_BYTES, BATCH_ENTRIES};
use crate::telemetry::status::Heartbeat;

/// Queues that are extended at the same time.
const PARALLEL: usize = 16;

/// Extends until the process gives up its leases.
pub async fn run(process: Arc<Process>, queues: Vec<Arc<Queue>>, heartbeat: Heartbeat) {
    let shortest = queues.iter().map(|queue| queue.spec.lease).min().unwrap_or(Duration::from_secs(30));
    let every = (shortest / 8).clamp(Duration::from_millis(10), Duration::from_secs(1));
    loop {
        // Order: the end goes first; a sleep may be left at any time.
        tokio::select! {
            biased;
            () = process.give_up.cancelled() => return,
            () = tokio::time::sleep(every) => {}
        }
        heartbeat.beat();
        if !process.server.is_up() {
            continue;
        }
        let round =
            stream::iter(queues.iter().filter(|queue| !queue.leases.is_empty())).for_each_concurrent(PARALLEL, extend);
        tokio::select! {
            biased;
            () = process.give_up.cancelled() => return,
            () = round => {}
        }
    }
}

/// Extends every lease of the queue that has less than half of its time left.
pub async fn extend(queue: &Arc<Queue>) {
    let lease = queue.spec.lease;
    loop {
        let due = queue.leases.due(Instant::now(), lease / 2, BATCH_ENTRIES, BATCH_BYTES);
        if due.is_empty() {
            return;
        }
        let (keys, members): (Vec<_>, Vec<_>) = due.into_iter().unzip();
        let sent = Instant::now();
        let answers = match queue.store.extend(lease, &members).await {
            Ok(answers) => answers,
            // The next round asks again; a key of a wrong type is the claimer's to report.
            Err(_) => return,
        };
        queue.process.events.metrics().script("extend").took(sent.elapsed());
        let mut lost = 0;
        for ((key, member), ours) in keys.into_iter().zip(&members).zip(answers) {
            match ours {
                true => queue.leases.extended(key, sent.after(lease)),
                false => {
                    lost += u64::from(queue.leases.lost(key, member));
                    // Its verdict is on the way: not asked again in this round.
                    queue.leases.extended(key, sent.after(lease));
                }
            }
        }
        queue.events.leases_lost(lost);
    }
}
