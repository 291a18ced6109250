//! The watch of the connections to Redis: it reports each change, gives advice once, and wakes the queues after a
//! reconnect.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use delaybridge_ledger::Ledger;
use delaybridge_link::{Health, LinkState, Place, Redis, missing_rights};
use delaybridge_model::Mode;
use delaybridge_pipeline::process::Process;
use delaybridge_pipeline::registry::QueueRegistry;
use delaybridge_source::competitors::{advice, blocked_consumers};
use delaybridge_telemetry::labels::Wakeup;

/// Number of queues whose rights are checked at the start. Each command costs a round trip.
const RIGHTS_CHECKED: usize = 20;

/// The subject of the watch: a Redis and its queues.
pub(super) struct Watched {
    pub(super) redis: Redis,
    pub(super) registry: Arc<QueueRegistry>,
    /// Numbers of queues and sinks over all Redis servers.
    pub(super) of: (usize, usize),
    /// Whether any Redis was connected before.
    pub(super) started: Arc<AtomicBool>,
}

impl Watched {
    fn ledger(&self, place: usize) -> Ledger {
        Ledger::new(self.registry.spec(place).source.build(), self.registry.process().owner)
    }

    /// Returns the connection to the server that holds a queue.
    fn place(&self, ledger: &Ledger) -> Place {
        self.redis.at(&ledger.keys.leases)
    }
}

/// Reports the state of the connections, and wakes the queues after each reconnect to their server.
pub(super) async fn watch_redis(watched: Watched) {
    let process = watched.registry.process().clone();
    let mut changes = watched.redis.changes();
    let mut started = false;
    let mut epochs = HashMap::new();
    loop {
        changes.seen();
        let health = watched.redis.health();
        report(&watched, &process, &health);
        wake(&watched, &mut epochs);
        if health.is_up() && !std::mem::replace(&mut started, true) {
            advise(&watched, &process);
            // The queues of one Redis do not wait for the others.
            if !watched.started.swap(true, Ordering::Relaxed) {
                process.events.started(watched.of.0, watched.of.1, process.owner);
            }
            tell_missing_rights(&watched, &process).await;
            tell_consumers(&watched, &process).await;
        }
        // Biased: shutdown takes priority. A state that is not reported then changes nothing.
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
            process.events.redis_up(watched.redis.name(), address, &distinct(versions));
        }
        (false, Some(problem)) => {
            process.events.redis_lost(watched.redis.name(), watched.redis.address(), &problem.to_string())
        }
        (false, None) => {}
    }
}

/// Joins the versions: `7.0.15`, or `7.0.15, 7.2.4` if servers differ.
fn distinct(mut versions: Vec<&str>) -> String {
    versions.sort_unstable();
    versions.dedup();
    versions.join(", ")
}

/// Wakes the queues whose connection has changed: the new one may lead to another server, with another clock.
fn wake(watched: &Watched, epochs: &mut HashMap<usize, (usize, u64)>) {
    let nodes = watched.redis.nodes();
    let mut reconnected = Vec::new();
    for place in watched.registry.places() {
        let at = watched.place(&watched.ledger(place));
        let Some((node, number)) = at.epoch() else { continue };
        // For a queue added to the slot later it is the first epoch; such a queue looks by itself.
        let before = epochs.insert(place, (node, number));
        if before == Some((node, number)) {
            continue;
        }
        let node = nodes.iter().find(|known| Arc::as_ptr(known) as usize == node);
        if let Some(node) = node
            && let LinkState::Up { info, .. } = &*node.link.state().borrow()
            && let Some(now_ms) = info.now_ms
        {
            // The clock of the queue's own store: in a cluster, and with durable claims, `at` has another one.
            watched.registry.store(place).home().observe(now_ms);
        }
        // The first connection is awaited, so it needs no wake-up.
        if before.is_some() || number > 1 {
            reconnected.push(place);
        }
    }
    watched.registry.look_at(reconnected, Wakeup::Reconnect);
}

/// Warns about server settings that may lose elements.
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

/// Warns about consumers that block on a list that the daemon drains: they would take some of its elements. In shadow mode it drains
/// nothing, and whoever followed the advice would stop the only deliveries.
async fn tell_consumers(watched: &Watched, process: &Process) {
    let registry = &watched.registry;
    let delivering = registry.with_mode(|mode| matches!(mode, Mode::Deliver));
    let drained = delivering.into_iter().filter_map(|place| Some(registry.store(place).unannounced()?.list));
    let drained: Vec<_> = drained.collect();
    for node in watched.redis.nodes() {
        let Some(conn) = node.current() else { continue };
        // Without the right to ask there is no advice; `check --live` reports the missing right.
        let Ok(Some((blocked, empty))) = blocked_consumers(&conn, &drained).await else { return };
        if let (Some(advice), true) = (advice(&blocked), empty > 0) {
            process.events.redis_advice(conn.address(), &advice);
        }
    }
}

async fn tell_missing_rights(watched: &Watched, process: &Process) {
    for place in watched.registry.places().into_iter().take(RIGHTS_CHECKED) {
        let spec = watched.registry.spec(place);
        let ledger = watched.ledger(place);
        let Some(conn) = watched.place(&ledger).current() else { continue };
        // If the server cannot answer or the connection is lost, the first refused command will report it.
        let Ok(Some(missing)) = missing_rights(&conn, &spec.rights(&ledger)).await else { return };
        if let Some(first) = missing.first() {
            let text = format!(
                "queue {}: {} rights are missing, the first: {}; `check --live` prints what gives them",
                spec.id,
                missing.len(),
                first.words
            );
            process.events.redis_advice(watched.redis.address(), &text);
        }
    }
}
