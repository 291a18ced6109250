//! The watch of the connections to Redis: it reports each change, gives advice once, and wakes the claimers after a reconnect.

use std::sync::Arc;

use super::RIGHTS_CHECKED;
use crate::config::Mode;
use crate::link::{Health, LinkState, Redis, missing_rights};
use crate::pipeline::process::Process;
use crate::pipeline::queue::Queue;
use crate::source::competitors::{advice, blocked_consumers};
use crate::source::redis::RedisStore;
use crate::telemetry::labels::Wakeup;

/// What the watch of the connections looks at.
pub(super) struct Watched {
    pub(super) redis: Redis,
    /// Of all queues, in the order of the configuration.
    pub(super) stores: Vec<Arc<RedisStore>>,
}

/// Reports the state of the connections, and wakes a queue after each reconnect to its server.
pub(super) async fn watch_redis(watched: Watched, process: Arc<Process>, queues: Vec<Arc<Queue>>, sinks: usize) {
    let mut changes = watched.redis.changes();
    let mut started = false;
    let mut epochs = vec![None; watched.stores.len()];
    loop {
        changes.seen();
        let health = watched.redis.health();
        report(&watched, &process, &health);
        wake(&watched, &queues, &mut epochs);
        if health.is_up() && !std::mem::replace(&mut started, true) {
            advise(&watched, &process);
            process.events.started(queues.len(), sinks);
            tell_missing_rights(&watched, &process, &queues).await;
            tell_consumers(&watched, &process, &queues).await;
        }
        // Order: the end goes first; a change of state that is left behind changes nothing.
        tokio::select! {
            biased;
            () = process.stopping.cancelled() => return,
            more = changes.next() => if !more { return },
        }
    }
}

fn report(watched: &Watched, process: &Process, health: &Health) {
    let address = match health.up.as_slice() {
        [(server, _)] => server.as_str(),
        _ => watched.redis.address(),
    };
    match (health.is_up(), health.problem()) {
        (true, _) => {
            let versions: Vec<_> = health.up.iter().map(|(_, version)| version.as_str()).collect();
            process.events.redis_up(address, &distinct(versions));
        }
        (false, Some(problem)) => process.events.redis_lost(watched.redis.address(), &problem.to_string()),
        (false, None) => {}
    }
}

/// `7.0.15`, or `7.0.15, 7.2.4` where servers differ.
fn distinct(mut versions: Vec<&str>) -> String {
    versions.sort_unstable();
    versions.dedup();
    versions.join(", ")
}

/// Wakes the queues whose connection is another one than before: it may lead to another server, with another clock.
fn wake(watched: &Watched, queues: &[Arc<Queue>], epochs: &mut [Option<(usize, u64)>]) {
    let nodes = watched.redis.nodes();
    for ((queue, store), epoch) in queues.iter().zip(&watched.stores).zip(epochs) {
        let now = store.place().epoch();
        let before = std::mem::replace(epoch, now.or(*epoch));
        let Some((node, number)) = now.filter(|now| before != Some(*now)) else { continue };
        let node = nodes.iter().find(|known| Arc::as_ptr(known) as usize == node);
        if let Some(node) = node
            && let LinkState::Up { info, .. } = &*node.link.state().borrow()
            && let Some(now_ms) = info.now_ms
        {
            store.place().observe(now_ms);
        }
        // The first connection is waited for, and needs no waking.
        if before.is_some() || number > 1 {
            queue.alarm.ring(Wakeup::Reconnect);
        }
    }
}

/// Settings of the servers that may lose elements.
fn advise(watched: &Watched, process: &Process) {
    for node in watched.redis.nodes() {
        if let LinkState::Up { info, address, .. } = &*node.link.state().borrow()
            && info.evicts()
        {
            let policy = &info.maxmemory_policy;
            let advice = format!(
                "maxmemory-policy is {policy}: a full Redis would throw away scheduled elements; set it to noeviction"
            );
            process.events.redis_advice(address, &advice);
        }
    }
}

/// Consumers that wait on a list that a daemon drains would share its elements.
async fn tell_consumers(watched: &Watched, process: &Process, queues: &[Arc<Queue>]) {
    let delivering = queues.iter().filter(|queue| !matches!(queue.spec.mode, Mode::Rescue { .. }));
    let drained: Vec<_> = delivering.filter_map(|queue| Some(queue.store.unannounced()?.read)).collect();
    for node in watched.redis.nodes() {
        let Some(conn) = node.current() else { continue };
        // Without the right to ask there is no advice: `check --live` reports that.
        let Ok(Some((blocked, empty))) = blocked_consumers(&conn, &drained).await else { return };
        if let (Some(advice), true) = (advice(&blocked), empty > 0) {
            process.events.redis_advice(conn.address(), &advice);
        }
    }
}

async fn tell_missing_rights(watched: &Watched, process: &Process, queues: &[Arc<Queue>]) {
    for (queue, store) in queues.iter().zip(&watched.stores).take(RIGHTS_CHECKED) {
        let Some(conn) = store.place().current() else { continue };
        // A server that cannot answer, or a connection that is gone: the first command refused will show it.
        let Ok(Some(missing)) = missing_rights(&conn, &queue.spec.rights(store.ledger())).await else { return };
        if let Some(first) = missing.first() {
            let text = format!(
                "queue {}: {} rights are missing, the first: {}; `check --live` prints what gives them",
                queue.spec.id,
                missing.len(),
                first.words
            );
            process.events.redis_advice(watched.redis.address(), &text);
        }
    }
}
