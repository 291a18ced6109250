//! The gauges of the queues: read now and then, in turns, and shown.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::outlook::outlook;
use super::pollers::pause;
use crate::registry::QueueRegistry;
use delaybridge_core::clock::{Asked, Instant, Skew};
use delaybridge_ledger::Stats;
use delaybridge_ledger::store::{RestingSize, Store};
use delaybridge_model::Mode;
use delaybridge_telemetry::events::QueueEvents;
use delaybridge_telemetry::labels::{LateState, MessageState};
use delaybridge_telemetry::metrics::{QueueAhead, QueueSizes};

/// Time between two readings of the gauges.
const GAUGES: Duration = Duration::from_secs(5);
/// Number of queues per reading of the gauges, over all daemons; with more queues each is read less often.
const GAUGES_BUDGET: usize = 500;
/// The most queues in one reading.
const AT_ONCE: usize = 1_000;
/// Readings in which a daemon comes to each of its queues, however many other daemons read their gauges too: a minute.
const TURN: usize = 12;
/// Up to so many queues have gauges from the start. Of more, only those that were ever used: each has a dozen series.
const FEW: usize = 1_000;
/// Of thousands of queues, those that were empty and have announced nothing are asked about so seldom.
const EMPTY_EVERY: usize = 4;
/// Time for which an element is due and unclaimed in a queue that is behind.
const BEHIND: Duration = Duration::from_secs(1);
/// A queue at rest is read as a whole this often at least, though its size has not changed.
const REST: Duration = Duration::from_secs(600);
/// The part of the time until its first element is due for which such a reading holds, while its size does not change: the counts of
/// what falls due within an hour or a day are that much behind.
const HOLDS_FOR: i64 = 10;
/// Queues at rest whose sizes are read in one round trip.
const SIZES_AT_ONCE: usize = 100;
/// Queues that are asked about in one round trip: with thousands of idle ones the trips are what they cost. Not more,
/// because a claim waits behind them.
const GAUGES_AT_ONCE: usize = 16;

/// Reads the gauges until the process stops.
pub async fn run(registry: Arc<QueueRegistry>) {
    let process = registry.process().clone();
    let mut wait = Duration::from_millis(500);
    let mut skew = Skew::default();
    // Daemons that start together are not to read the same queues at once.
    let mut next = fastrand::usize(..AT_ONCE);
    let mut resting = RestingQueues::default();
    // Queues that were read since the server was found, or came back.
    let mut done = 0;
    loop {
        if pause(&process, wait).await.is_stopping() {
            return;
        }
        wait = GAUGES;
        let places = registry.places();
        places.iter().filter_map(|place| registry.events(*place)).for_each(|events| events.sum_up(false));
        process.events.sum_up(false);
        if !registry.server().is_up() {
            places.iter().for_each(|place| clear_gauges(&registry, *place));
            process.events.clock_skew(registry.server().name(), None);
            resting = RestingQueues::default();
            done = 0;
            continue;
        }
        // Without an answer what was known stays.
        let _ = registry.server().look_at_memory().await;
        let daemons = daemons(&registry, &places).await;
        // At first the daemon reads all of them itself.
        let count = share(places.len(), if done < places.len() { 1 } else { daemons });
        let round = done / places.len().max(1);
        let skips = |place: &usize| !round.is_multiple_of(EMPTY_EVERY) && registry.was_empty(*place);
        let part = places.iter().cycle().skip(next % places.len().max(1)).take(count);
        let due: Vec<_> = part.copied().filter(|place| !skips(place)).collect();
        (next, done) = (next + count, done + count);
        let due = resting.pass_over(&registry, due, &mut skew).await;
        for some in due.chunks(GAUGES_AT_ONCE) {
            let asked = Asked::now();
            let stores: Vec<_> = some.iter().map(|place| registry.store(*place)).collect();
            let read = join_all(stores.iter().map(|store| store.stats())).await;
            let ahead = some.iter().zip(&stores).zip(&read).map(async |((place, store), stats)| match stats {
                Ok(stats) => outlook(&registry, *place, &**store, stats).await,
                Err(_) => None,
            });
            let outlooks = join_all(ahead).await;
            let mut last_ms = None;
            for (((place, store), stats), late) in some.iter().zip(&stores).zip(read).zip(outlooks) {
                // What cannot be read is the claimer's to report, and not shown as it was.
                let Ok(stats) = stats else {
                    clear_gauges(&registry, *place);
                    continue;
                };
                show_gauges(&registry, *place, &**store, &stats, late);
                resting.note(*place, &stats);
                if registry.is_gone(*place) {
                    // Removed meanwhile: what was shown is shown no more.
                    process.events.queues_removed(&[registry.spec(*place).id.clone()]);
                }
                store.home().observe(stats.now_ms);
                last_ms = Some(stats.now_ms);
            }
            if let Some(now_ms) = last_ms {
                skew.observe(&asked, now_ms);
            }
        }
        process.events.clock_skew(registry.server().name(), skew.seconds());
    }
}

/// Queues that are at rest and were read as a whole.
#[derive(Default)]
struct RestingQueues {
    read: HashMap<usize, RestingRead>,
    /// The number of changes of the registry that it has seen.
    changes: u64,
}

/// The last whole reading of a queue at rest.
struct RestingRead {
    size: RestingSize,
    until: Instant,
}

impl RestingQueues {
    /// Takes those out of the queues whose gauges need not be read: they are at rest, and their sizes have not changed.
    async fn pass_over(&mut self, registry: &QueueRegistry, mut due: Vec<usize>, skew: &mut Skew) -> Vec<usize> {
        if std::mem::replace(&mut self.changes, registry.changes()) != registry.changes() {
            self.read.clear();
        }
        let now = Instant::now();
        self.read.retain(|place, read| read.until > now && registry.get(*place).is_none());
        let known: Vec<_> = due.iter().copied().filter(|place| self.read.contains_key(place)).collect();
        let mut same = HashSet::new();
        for some in known.chunks(SIZES_AT_ONCE) {
            let asked = Asked::now();
            let stores: Vec<_> = some.iter().map(|place| registry.store(*place)).collect();
            let counted: Vec<_> = stores.iter().map(|store| store.counted()).collect();
            // Without an answer they are read.
            let Ok((now_ms, sizes)) = registry.server().sizes(&counted).await else { continue };
            if let (Some(now_ms), Some(store)) = (now_ms, stores.first()) {
                store.home().observe(now_ms);
                skew.observe(&asked, now_ms);
            }
            let unchanged = some.iter().zip(sizes).filter(|(place, size)| *size == Some(self.read[place].size));
            same.extend(unchanged.map(|(place, _)| *place));
        }
        due.retain(|place| !same.contains(place));
        due
    }

    /// Takes a whole reading over.
    fn note(&mut self, place: usize, stats: &Stats) {
        self.read.remove(&place);
        if let Some((size, holds)) = resting(stats) {
            self.read.insert(place, RestingRead { size, until: Instant::now().after(holds) });
        }
    }
}

/// Returns the size of a queue by which a change shows, and for how long its gauges hold without one; `None` where they may change by
/// time alone.
fn resting(stats: &Stats) -> Option<(RestingSize, Duration)> {
    let Stats { now_ms, in_flight, retry, dead, ref source, expires_ms, .. } = *stats;
    let is_quiet = [in_flight, retry, dead, source.ready, source.due, source.orphans].iter().all(|number| *number == 0)
        && source.leftovers.count == 0
        && source.ahead.absurd == 0
        && expires_ms.is_none();
    let until_due = source.head_ms.map_or(i64::MAX, |head_ms| head_ms.saturating_sub(now_ms));
    let holds = Duration::from_millis(u64::try_from(until_due / HOLDS_FOR).unwrap_or(0)).min(REST);
    let size = RestingSize { scheduled: source.scheduled, has_others: false, expires: false };
    (is_quiet && holds > GAUGES).then_some((size, holds))
}

/// Returns the number of queues that one of this many daemons with the same queues reads at once.
fn share(queues: usize, daemons: usize) -> usize {
    (GAUGES_BUDGET / daemons).max(queues.div_ceil(TURN)).min(AT_ONCE).min(queues)
}

/// Asks for the number of daemons that work on one of these queues, chosen at random; others may have more. Without an
/// answer, or without the right to ask, it is one.
async fn daemons(registry: &QueueRegistry, places: &[usize]) -> usize {
    let Some(place) = fastrand::choice(places) else { return 1 };
    let listeners = registry.server().listeners(&[registry.store(*place).presence_in_database()]).await;
    listeners.ok().and_then(|count| usize::try_from(*count.first()?).ok()).unwrap_or(1).max(1)
}

fn clear_gauges(registry: &QueueRegistry, place: usize) {
    if let Some(events) = registry.events(place).filter(|events| events.metrics().has_gauges()) {
        events.metrics().clear_gauges(registry.store(place).metric_names());
    }
}

/// Shows what a look found. Of thousands of queues, those that were never used show nothing.
fn show_gauges(registry: &QueueRegistry, place: usize, store: &dyn Store, stats: &Stats, lateness: Option<Duration>) {
    let used = |events: &QueueEvents| events.metrics().has_gauges() || events.metrics().was_used();
    let shows_nothing = registry.len() > FEW && stats.is_empty() && !registry.events(place).as_ref().is_some_and(used);
    // What is added without an announcement is found by no other look.
    registry.set_empty(place, shows_nothing && registry.spec(place).source.announces());
    if shows_nothing {
        return;
    }
    let events = registry.events_or_new(place);
    let spec = registry.spec(place);
    let at_work = registry.get(place);
    let metrics = events.metrics();
    let count = |n: i64| u64::try_from(n).unwrap_or(0);
    let source = &stats.source;
    let ready = if spec.source.consumes_ready() { source.ready } else { 0 };
    let age = |due_ms: Option<i64>| Duration::from_millis(due_ms.and_then(|ms| stats.overdue_ms(ms)).unwrap_or(0));
    metrics.sizes(&QueueSizes {
        messages: MessageState::ALL.map(|state| {
            count(match state {
                MessageState::Scheduled => source.scheduled - source.due,
                MessageState::Due => source.due + ready,
                MessageState::InFlight => stats.in_flight,
                MessageState::Retry => stats.retry,
                MessageState::Dead => stats.dead,
            })
        }),
        oldest: LateState::ALL.map(|state| {
            age(match state {
                LateState::Due => source.head_ms,
                LateState::InFlight => at_work.as_ref().and_then(|queue| queue.leases.oldest_due_ms()),
                LateState::Retry => stats.retry_oldest_ms,
            })
        }),
        next_due_ms: source.head_ms,
        expires_ms: stats.expires_ms,
        ahead: QueueAhead {
            within: source.ahead.within.map(count),
            absurd: count(source.ahead.absurd),
            last_due_ms: source.ahead.last_ms,
            lateness,
        },
    });
    if spec.mode == Mode::Deliver {
        metrics.busy(source.due > 0 && age(source.head_ms) >= BEHIND);
    }
    if let Some(terms) = store.metric_names() {
        metrics.leftovers(terms, source.leftovers.count, source.leftovers.oldest);
        events.orphans(terms, count(source.orphans));
    }
    let full = store.home().is_nearly_full();
    if full && source.leftovers.count > 0 || source.leftovers.want_turn(spec.source.leftover_max_age(), source.due > 0)
    {
        registry.wake(place, |queue| queue.want_upkeep());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_reads_less_beside_others_but_each_queue_every_minute() {
        for (queues, daemons, expected) in [
            (0, 1, 0),
            (1, 100, 1),
            (500, 1, 500),
            (501, 1, 500),
            (250, 2, 250),
            (250, 3, 166),
            (500, 3, 166),
            (1_000, 10_000, 84),
            (100, 100, 9),
            (10_000, 1, 834),
            (10_000, 3, 834),
            (50_000, 3, 1_000),
        ] {
            assert_eq!(share(queues, daemons), expected, "{queues} queues, {daemons} daemons");
        }
    }
}
