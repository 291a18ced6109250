//! The watch of the connection to Redis: it reports each change, gives advice once, and wakes every claimer after a
//! reconnect.

use std::sync::Arc;

use super::RIGHTS_CHECKED;
use crate::config::Mode;
use crate::link::{Link, LinkState, missing_rights};
use crate::pipeline::process::Process;
use crate::pipeline::queue::Queue;
use crate::source::competitors::{advice, blocked_consumers};
use crate::source::redis::RedisStore;
use crate::telemetry::labels::Wakeup;

/// What the watch of the connection looks at.
pub(super) struct Watched {
    pub(super) link: Link,
    /// Of all queues, in the order of the configuration.
    pub(super) stores: Vec<Arc<RedisStore>>,
}

/// Reports the state of the connection, and wakes all queues after each reconnect.
pub(super) async fn watch_link(watched: Watched, process: Arc<Process>, queues: Vec<Arc<Queue>>, sinks: usize) {
    let mut state = watched.link.state();
    let mut started = false;
    loop {
        let now = state.borrow_and_update().clone();
        let target = watched.link.address();
        match now {
            LinkState::Up { address, info, .. } => {
                // It may be another server than before, with another clock.
                if let Some(now_ms) = info.now_ms {
                    process.clock.observe(now_ms);
                }
                process.events.redis_up(&address, &info.version.to_string());
                if !std::mem::replace(&mut started, true) {
                    if info.evicts() {
                        let policy = &info.maxmemory_policy;
                        process.events.redis_advice(
                            &address,
                            &format!(
                                "maxmemory-policy is {policy}: a full Redis would throw away scheduled elements; set it \
                                 to noeviction"
                            ),
                        );
                    }
                    process.events.started(queues.len(), sinks);
                    tell_missing_rights(&watched, &process, &queues).await;
                    tell_consumers(&watched, &process, &queues).await;
                } else {
                    queues.iter().for_each(|queue| queue.alarm.ring(Wakeup::Reconnect));
                }
            }
            LinkState::Connecting { last_error: Some(error), .. } => {
                process.events.redis_lost(target, &error.to_string());
            }
            LinkState::Connecting { last_error: None, .. } => {}
        }
        // Order: the end goes first; a change of state that is left behind changes nothing.
        tokio::select! {
            biased;
            () = process.stopping.cancelled() => return,
            changed = state.changed() => if changed.is_err() { return },
        }
    }
}

/// Consumers that wait on a list that a daemon drains would share its elements.
async fn tell_consumers(watched: &Watched, process: &Process, queues: &[Arc<Queue>]) {
    let Some(conn) = watched.link.current() else { return };
    let delivering = queues.iter().filter(|queue| !matches!(queue.spec.mode, Mode::Rescue { .. }));
    let drained: Vec<_> = delivering.filter_map(|queue| Some(queue.store.unannounced()?.read)).collect();
    // Without the right to ask there is no advice: `check --live` reports that.
    let Ok(Some((blocked, empty))) = blocked_consumers(&conn, &drained).await else { return };
    if let (Some(advice), true) = (advice(&blocked), empty > 0) {
        process.events.redis_advice(watched.link.address(), &advice);
    }
}

async fn tell_missing_rights(watched: &Watched, process: &Process, queues: &[Arc<Queue>]) {
    let Some(conn) = watched.link.current() else { return };
    for (queue, store) in queues.iter().zip(&watched.stores).take(RIGHTS_CHECKED) {
        // A server that cannot answer, or a connection that is gone: the first command refused will show it.
        let Ok(Some(missing)) = missing_rights(&conn, &queue.spec.rights(store.ledger())).await else { return };
        if let Some(first) = missing.first() {
            let text = format!(
                "queue {}: {} rights are missing, the first: {}; `check --live` prints what gives them",
                queue.spec.id,
                missing.len(),
                first.words
            );
            process.events.redis_advice(watched.link.address(), &text);
        }
    }
}
