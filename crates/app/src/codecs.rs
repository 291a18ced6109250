//! Decodes the first scheduled elements of each new or changed queue, and warns of a `codec` that does not fit them before they are due.
//! Runs beside the deliveries, some queues at a time, with pauses, over the existing connection.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use delaybridge_link::Redis;
use delaybridge_model::QueueSpec;
use delaybridge_ops::first_elements::{are_read, look_now};
use delaybridge_pipeline::registry::QueueRegistry;
use delaybridge_telemetry::status::Heartbeat;

/// Queues that are looked at in one round trip.
const AT_ONCE: usize = 16;
/// The pause between two round trips: ten thousand queues take ten seconds, and a third of a second of Redis.
const PAUSE: Duration = Duration::from_millis(10);
/// The time between two questions whether queues have come or changed.
const INTERVAL: Duration = Duration::from_secs(1);
/// Log lines of one round. A wrong codec in a template of thousands of queues is one mistake.
const LINES: usize = 20;

/// Looks at the queues of this Redis until the process stops.
pub(super) async fn run(redis: Redis, registry: Arc<QueueRegistry>, heartbeat: Heartbeat) {
    let process = registry.process().clone();
    let looks = async {
        let mut looks = FirstLooks::default();
        loop {
            heartbeat.beat();
            looks.see(&registry);
            looks.round(&redis, &registry, &heartbeat).await;
            tokio::time::sleep(INTERVAL).await;
        }
    };
    // Biased: shutdown takes priority. A look reads only.
    tokio::select! {
        biased;
        () = process.stopping.cancelled() => {}
        () = looks => {}
    }
}

/// The queues that were looked at, and those that are to be.
#[derive(Default)]
struct FirstLooks {
    /// The state of the registry that this is of.
    changes: Option<u64>,
    /// Every queue whose elements are read, by its place.
    known: BTreeMap<usize, Arc<QueueSpec>>,
    /// The places of the queues that were not read yet.
    open: BTreeSet<usize>,
}

impl FirstLooks {
    /// Finds the queues that have come or changed.
    fn see(&mut self, registry: &QueueRegistry) {
        let changes = registry.changes();
        if self.changes.replace(changes) == Some(changes) {
            return;
        }
        let all = registry.places().into_iter().map(|place| (place, registry.spec(place)));
        let now: BTreeMap<_, _> = all.filter(|(_, spec)| are_read(spec)).collect();
        let is_new = |place: &usize, spec| self.known.get(place).is_none_or(|known| !Arc::ptr_eq(known, spec));
        self.open.retain(|place| now.contains_key(place));
        self.open.extend(now.iter().filter(|(place, spec)| is_new(place, spec)).map(|(place, _)| *place));
        self.known = now;
    }

    /// Looks at all that can be reached.
    async fn round(&mut self, redis: &Redis, registry: &QueueRegistry, heartbeat: &Heartbeat) {
        let events = &registry.process().events;
        let open: Vec<_> = self.known.iter().filter(|(place, _)| self.open.contains(place)).collect();
        let mut found = 0;
        for some in open.chunks(AT_ONCE) {
            let looks = join_all(some.iter().map(|(_, spec)| look_now(redis, spec))).await;
            for ((place, spec), look) in some.iter().zip(looks) {
                let Some(findings) = look else { continue };
                self.open.remove(place);
                found += usize::from(!findings.is_empty());
                if found <= LINES {
                    findings.iter().for_each(|finding| events.queue_advice(&spec.id, &finding.detail));
                }
            }
            heartbeat.beat();
            tokio::time::sleep(PAUSE).await;
        }
        if let Some(more @ 1..) = found.checked_sub(LINES) {
            events.redis_advice(
                redis.address(),
                &format!("{more} more queues have elements that do not fit their codec: `check --live` shows them"),
            );
        }
    }
}
