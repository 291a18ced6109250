//! Sees what heartbeats cannot: a queue with something due from which nothing is claimed, although nothing is in the way.
//!
//! A claimer that waits for room, for another claim or for a lock rests, because it may have a reason. If it never goes on,
//! its heart is silent and every probe is green. So each claimer notes what it waits for ([`ClaimProgress`](crate::claim::progress::ClaimProgress)), the safety poll notes
//! whether something is due, and the watchdog adds up: due for a long time, hold and breakers closed, Redis answers, and
//! no claim.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::registry::{QueueCounts, QueueRegistry};
use delaybridge_core::clock::Instant;
use delaybridge_telemetry::events::Stalled;
use delaybridge_telemetry::labels::Stage;

/// Time between two looks at all queues.
const LOOK: Duration = Duration::from_secs(5);

/// One look at a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct QueueSeen {
    /// Something is due, nothing holds the queue up, and Redis answers.
    could_claim: bool,
    stage: Stage,
    /// Claims that were sent, and elements that ended.
    own: u64,
    /// The same of all queues: who waits in a line waits for the others.
    all: u64,
}

/// The knowledge of one queue from the looks before.
#[derive(Debug, Clone, Copy, Default)]
struct Patience {
    /// The time from which it has waited without any progress, and the counts of that time.
    since: Option<(Instant, u64, u64)>,
    reported: bool,
}

impl Patience {
    /// Takes a look into account; how long the queue has made no progress without a reason.
    fn look(&mut self, now: Instant, seen: QueueSeen) -> Duration {
        let moved = |(_, own, all): (Instant, u64, u64)| match seen.stage {
            // All queues wait here in line: the line moves as long as anything does.
            Stage::Isolation | Stage::ProcessRoom => own != seen.own || all != seen.all,
            _ => own != seen.own,
        };
        match self.since {
            _ if !seen.could_claim || seen.stage == Stage::Rate => self.since = None,
            Some(since) if !moved(since) => {}
            Some(_) | None => self.since = Some((now, seen.own, seen.all)),
        }
        self.since.map_or(Duration::ZERO, |(since, ..)| now.since(since))
    }
}

/// Looks at all queues until the process stops. `limit` is longer than anything that a claim may wait for, beside what is in
/// flight.
pub async fn run(registry: Arc<QueueRegistry>, limit: Duration) {
    let process = registry.process().clone();
    let least = limit;
    let mut limit = limit;
    let mut seen = None;
    let mut patience: HashMap<usize, Patience> = HashMap::new();
    // The name of the Redis, while something is reported of it.
    let mut reported = None;
    let mut last = Instant::now();
    while !pause(&process.stopping).await {
        if std::mem::replace(&mut last, Instant::now()).elapsed() > LOOK * 3 {
            // The process was suspended: nothing could move.
            patience.clear();
        }
        let changes = registry.changes();
        if seen.replace(changes) != Some(changes) {
            limit = least.saturating_add(longest_wait(&registry));
        }
        let all = registry.counts().sum();
        let queues = registry.at_work();
        patience.retain(|place, _| queues.binary_search_by_key(place, |(place, _)| *place).is_ok());
        let mut found = Vec::new();
        for (place, queue) in &queues {
            let patience = patience.entry(*place).or_default();
            let due = queue.progress.is_due();
            let goes = queue.stopping.is_cancelled();
            let could_claim = due && !goes && queue.is_open() && queue.home().is_up();
            let seen = QueueSeen { could_claim, stage: queue.progress.stage(), own: QueueCounts::of(queue).sum(), all };
            let waits = patience.look(last, seen);
            if waits < limit {
                patience.reported = false;
                continue;
            }
            let news = !std::mem::replace(&mut patience.reported, true);
            found.push(Stalled { queue: queue.spec.id.clone(), waits_for: seen.stage, time: waits, news });
        }
        let redis = reported.take().or_else(|| queues.first().map(|(_, queue)| queue.spec.redis.clone()));
        if let Some(redis) = redis {
            process.events.stalled(&redis, &found, &holders(std::slice::from_ref(&registry)));
            reported = (!found.is_empty()).then_some(redis);
        }
    }
}

/// Returns the longest that elements in flight may keep the room that another claim waits for.
fn longest_wait(registry: &QueueRegistry) -> Duration {
    let of_queue = |place| {
        let spec = registry.spec(place);
        let sinks = spec.to.iter().filter_map(|route| registry.sink(&route.sink)).map(|sink| sink.longest());
        sinks.max().unwrap_or_default().saturating_add(spec.claim_ahead)
    };
    registry.places().into_iter().map(of_queue).max().unwrap_or_default()
}

/// Returns the queues with elements in flight, for which others wait: the busiest first.
pub fn holders(all: &[Arc<QueueRegistry>]) -> String {
    let at_work: Vec<_> = all.iter().flat_map(|registry| registry.at_work()).collect();
    let mut busy: Vec<_> = at_work.iter().map(|(_, queue)| (queue.leases.len(), &*queue.spec.id)).collect();
    busy.retain(|(held, _)| *held > 0);
    busy.sort_by(|a, b| b.cmp(a));
    let shown: Vec<String> = busy.iter().take(5).map(|(held, id)| format!("{id}: {held}")).collect();
    match busy.len().checked_sub(5) {
        Some(more) if more > 0 => format!("{} and {more} more", shown.join(", ")),
        _ => shown.join(", "),
    }
}

/// Returns whether the process stops.
async fn pause(stopping: &CancellationToken) -> bool {
    // Order: the end goes first; a sleep may be left at any time.
    tokio::select! {
        biased;
        () = stopping.cancelled() => true,
        () = tokio::time::sleep(LOOK) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    /// Returns the waiting time after looks a minute apart.
    fn waits(looks: impl IntoIterator<Item = QueueSeen>) -> u64 {
        let mut patience = Patience::default();
        let mut now = Instant::now();
        let mut last = Duration::ZERO;
        for seen in looks {
            last = patience.look(now, seen);
            now = now.after(MINUTE);
        }
        last.as_secs() / 60
    }

    #[test]
    fn only_what_could_move_and_does_not_is_stalled() {
        let stuck = QueueSeen { could_claim: true, stage: Stage::Room, own: 7, all: 9 };
        let busy = |n| QueueSeen { own: n, all: n, ..stuck };
        let others = |stage, n| QueueSeen { stage, all: n, ..stuck };
        assert_eq!(waits([stuck; 4]), 3);
        assert_eq!(waits((0..4).map(busy)), 0, "it claims");
        assert_eq!(waits((0..4).map(busy).chain([busy(3); 2])), 2);
        assert_eq!(waits([stuck, stuck, QueueSeen { could_claim: false, ..stuck }, stuck, stuck]), 1, "it was held up");
        assert_eq!(waits([QueueSeen { stage: Stage::Rate, ..stuck }; 4]), 0, "ten an hour is slow, and as asked for");
        // In a line for what all share, the others are the reason as long as they move.
        assert_eq!(waits((0..4).map(|n| others(Stage::ProcessRoom, n))), 0);
        assert_eq!(waits((0..4).map(|n| others(Stage::Isolation, n))), 0);
        assert_eq!(waits([others(Stage::Isolation, 1); 4]), 3);
        assert_eq!(waits((0..4).map(|n| others(Stage::Room, n))), 3, "its own room is its own");
    }
}
