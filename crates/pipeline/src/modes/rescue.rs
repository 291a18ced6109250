//! `mode: rescue`: what no Redisson client has transferred in time is moved to the ready list, for its Java consumers.

use std::sync::Arc;
use std::time::Duration;

use crate::queue::Queue;
use crate::registry::QueueRegistry;
use delaybridge_core::clock::Instant;
use delaybridge_ledger::StoreError;
use delaybridge_model::Mode;
use delaybridge_telemetry::status::Heartbeat;

/// Longest time between two looks.
const EVERY: Duration = Duration::from_secs(1);

/// Looks for overdue elements until the process stops.
pub async fn run(registry: Arc<QueueRegistry>, heartbeat: Heartbeat) {
    let process = registry.process().clone();
    loop {
        let queues = registry.find(|queue| matches!(queue.spec.mode, Mode::Rescue { .. }));
        let limits = queues.iter().map(|queue| after(queue));
        // A tenth of the limit, so that it is kept to within that.
        let every = limits.min().map_or(EVERY, |shortest| (shortest / 10).clamp(Duration::from_millis(50), EVERY));
        heartbeat.beat();
        // Order: the end goes first; a sleep may be left at any time.
        tokio::select! {
            biased;
            () = process.stopping.cancelled() => return,
            () = tokio::time::sleep(every) => {}
        }
        for queue in &queues {
            heartbeat.beat();
            match look(queue, &heartbeat).await {
                Ok((moved, junk)) => {
                    queue.events.resumed();
                    if let Some(terms) = queue.store.metric_names() {
                        queue.events.rescued(terms, moved, junk);
                    }
                }
                // The connection's state is reported elsewhere; the next pass finds what this one left.
                Err(StoreError::NotSent { .. } | StoreError::Unknown { .. } | StoreError::Malformed(_)) => {}
                Err(error) => queue.events.look_failed(&error.to_string()),
            }
        }
    }
}

fn after(queue: &Queue) -> Duration {
    match queue.spec.mode {
        Mode::Rescue { after } => after,
        Mode::Deliver | Mode::Shadow => Duration::MAX,
    }
}

/// Moves everything that is overdue for too long; answers how many that were, and how many entries are junk. Junk is
/// stepped over, so that it holds up nothing behind it.
async fn look(queue: &Queue, heartbeat: &Heartbeat) -> Result<(u64, u64), StoreError> {
    let after = after(queue);
    let limit = i64::try_from(after.as_millis()).unwrap_or(i64::MAX);
    let mut moved = 0;
    let mut junk = 0;
    let mut first = 0;
    // One look needs nothing but a count while all is well. The estimate of Redis's clock is good enough for that: the script
    // asks Redis's own.
    let now_ms = queue.home().now_ms();
    if queue.store.due_before(0, now_ms.saturating_sub(limit)).await? == 0 {
        return Ok((0, 0));
    }
    // This mode does not listen to announcements: the daemons that do deliver.
    queue.doubt_pauses();
    queue.learn_pauses().await;
    while !queue.stopping.is_cancelled() && queue.paused().is_none() {
        heartbeat.beat();
        let page = queue.store.scheduled(0, first).await?;
        let overdue = page.now_ms.saturating_sub(limit);
        let late = page.elements.into_iter().take_while(|element| element.score_ms <= overdue);
        let late: Vec<_> = late.map(|element| element.member).collect();
        if late.is_empty() {
            break;
        }
        let sent = Instant::now();
        let rescued = queue.store.rescue(after, &late).await?;
        queue.process.events.metrics().script("rescue").took(sent.elapsed());
        moved += rescued.moved;
        junk += rescued.junk;
        first += rescued.junk as usize;
    }
    Ok((moved, junk))
}
