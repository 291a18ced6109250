//! What looks at Redis without being asked: the safety poll, the ready lists beside live Redisson clients, the gauges.
//!
//! Announcements on a channel are hints and never the truth: a poll finds what they missed. It reads without taking and
//! wakes a claimer only when it found something.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use crate::clock::{Asked, Skew};
use crate::message::LATEST_MS;
use crate::pipeline::process::Process;
use crate::pipeline::queue::Queue;
use crate::source::SourceError;
use crate::source::ledger::Stats;
use crate::source::store::{Server, Unannounced};
use crate::telemetry::labels::{LateState, MessageState, Wakeup};
use crate::telemetry::metrics::QueueSizes;
use crate::telemetry::status::Heartbeat;

/// Time between two looks at one queue.
const POLL: Duration = Duration::from_secs(1);
/// Queues that are looked at per second, over the whole process; with more of them the looks become rarer.
const POLL_BUDGET: usize = 500;
/// Time between two looks at the ready list of a queue that other clients listen to.
const READY: Duration = Duration::from_millis(100);
/// Time between two readings of the gauges.
const GAUGES: Duration = Duration::from_secs(5);
/// Number of queues per reading of the gauges; with more queues each is read less often.
const GAUGES_BUDGET: usize = 1_000;
/// Up to so many queues have gauges from the start. Of more, only those that were ever used: each has a dozen series.
const FEW: usize = 1_000;
/// Queues that are asked about in one round trip: with thousands of idle ones the trips are what they cost. Not more,
/// because a claim waits behind them.
const GAUGES_AT_ONCE: usize = 16;

/// Polls until the process stops.
pub async fn safety_poll(
    process: Arc<Process>,
    server: Arc<dyn Server>,
    queues: Vec<Arc<Queue>>,
    heartbeat: Heartbeat,
) {
    let chunk = POLL_BUDGET / 10;
    // What falls due until the next look at the queue, with jitter and a round trip. The claim that this leads to takes
    // nothing early: it learns when the element is due.
    let until_next = POLL.mul_f64(1.25 * (queues.len() as f64 / POLL_BUDGET as f64).max(1.0));
    let ahead = |queue: &Queue| match queue.spec.source.announces() {
        true => queue.spec.claim_ahead,
        false => queue.spec.claim_ahead + until_next,
    };
    loop {
        for some in queues.chunks(chunk) {
            // Jitter, so that many daemons do not poll in step.
            let share = POLL.mul_f64(chunk.min(queues.len()) as f64 / queues.len().clamp(1, POLL_BUDGET) as f64);
            if pause(&process, share.mul_f64(0.9 + 0.2 * fastrand::f64())).await.is_stopping() {
                return;
            }
            heartbeat.beat();
            if !server.is_up() {
                continue;
            }
            let poll = |queue: &Arc<Queue>| {
                let now_ms = queue.home().now_ms();
                (now_ms, queue.store.poll(now_ms, ahead(queue)))
            };
            let of_each: Vec<_> = some.iter().map(poll).collect();
            let reads: Vec<_> = of_each.iter().flat_map(|(_, reads)| reads).cloned().collect();
            let Ok(answers) = server.read(&reads).await else {
                some.iter().for_each(|queue| queue.watch.due(false));
                continue;
            };
            let mut answers = answers.into_iter();
            for (queue, (now_ms, reads)) in some.iter().zip(of_each) {
                // What cannot be read (a key of a wrong type) is the claimer's to report.
                let own = answers.by_ref().take(reads.len());
                let nothing = own.fold(true, |nothing, answer| nothing & matches!(answer, Ok(0)));
                queue.watch.due(!nothing);
                match nothing {
                    // The estimate is as good as Redis's own time after the first reply, and a claim has had one.
                    true if queue.nothing_due_ms() > i64::MIN => queue.saw_nothing_due(now_ms),
                    true => {}
                    false => queue.alarm.ring(Wakeup::Poll),
                }
            }
        }
    }
}

/// Polls the places that other clients fill without an announcement, as long as such clients are awake: they listen to the
/// queue's channel.
pub async fn unannounced(process: Arc<Process>, server: Arc<dyn Server>, queues: Vec<Arc<Queue>>) {
    let place = |queue: Arc<Queue>| Some((queue.store.unannounced()?, queue));
    let watched: Vec<(Unannounced, Arc<Queue>)> = queues.into_iter().filter_map(place).collect();
    let (mut beside, mut round) = (Vec::new(), 0);
    let every = 10 * u32::try_from(watched.len().div_ceil(POLL_BUDGET)).unwrap_or(u32::MAX / 10);
    while !watched.is_empty() {
        // Where nobody listens, there is nothing to look at until somebody does.
        let alone = beside.is_empty();
        if pause(&process, if alone { READY * every } else { READY }).await.is_stopping() {
            return;
        }
        if !server.is_up() {
            continue;
        }
        if alone || round % every == 0 {
            beside = listened_to(&*server, &watched).await.unwrap_or(beside);
        }
        round += 1;
        let reads: Vec<_> = beside.iter().map(|place: &usize| watched[*place].0.read.clone()).collect();
        if let Ok(answers) = server.read(&reads).await {
            for (place, answer) in beside.iter().zip(answers) {
                if answer.is_ok_and(|number| number > 0) {
                    watched[*place].1.alarm.ring(Wakeup::Poll);
                }
            }
        }
    }
}

/// The places of the queues with other subscribers on their channels than daemons: two of these are no client.
async fn listened_to(server: &dyn Server, watched: &[(Unannounced, Arc<Queue>)]) -> Option<Vec<usize>> {
    let mut beside = Vec::new();
    for (chunk, some) in watched.chunks(POLL_BUDGET).enumerate() {
        let channels: Vec<_> = some.iter().flat_map(|(at, _)| [at.channel.clone(), at.presence.clone()]).collect();
        let listeners = server.listeners(&channels).await.ok()?;
        let places = listeners.chunks_exact(2).enumerate().filter(|(_, of)| of[0] > of[1]);
        beside.extend(places.map(|(place, _)| chunk * POLL_BUDGET + place));
    }
    Some(beside)
}

/// Reads the gauges until the process stops.
pub async fn gauges(process: Arc<Process>, server: Arc<dyn Server>, queues: Vec<Arc<Queue>>) {
    let mut wait = Duration::from_millis(500);
    let mut skew = Skew::default();
    let mut slices = queues.chunks(GAUGES_BUDGET).cycle();
    loop {
        if pause(&process, wait).await.is_stopping() {
            return;
        }
        wait = GAUGES;
        queues.iter().for_each(|queue| queue.events.sum_up(false));
        if !server.is_up() {
            queues.iter().for_each(|queue| queue.events.metrics().clear_gauges(queue.store.terms()));
            process.events.metrics().clear_clock_skew();
            continue;
        }
        // Without an answer what was known stays.
        drop(server.look_at_memory().await);
        for some in slices.next().unwrap_or_default().chunks(GAUGES_AT_ONCE) {
            let asked = Asked::now();
            let read = join_all(some.iter().map(|queue| read_stats(queue))).await;
            let mut last_ms = None;
            for (queue, stats) in some.iter().zip(read) {
                // What cannot be read is the claimer's to report, and not shown as it was.
                let Ok(stats) = stats else {
                    queue.events.metrics().clear_gauges(queue.store.terms());
                    continue;
                };
                show_gauges(queue, &stats, queues.len() <= FEW);
                queue.home().observe(stats.now_ms);
                last_ms = Some(stats.now_ms);
            }
            if let Some(now_ms) = last_ms {
                skew.observe(&asked, now_ms);
            }
        }
        if let Some(seconds) = skew.seconds() {
            process.events.metrics().clock_skew(seconds);
        }
    }
}

async fn read_stats(queue: &Queue) -> Result<Stats, SourceError> {
    queue.store.stats().await
}

/// Shows what a look found. Of thousands of queues, those that were never used show nothing.
fn show_gauges(queue: &Queue, stats: &Stats, few: bool) {
    let metrics = queue.events.metrics();
    if !few && stats.is_empty() && !metrics.has_gauges() && !metrics.was_used() {
        return;
    }
    let count = |n: i64| u64::try_from(n).unwrap_or(0);
    let source = &stats.source;
    let ready = if queue.spec.source.consumes_ready() { source.ready } else { 0 };
    let overdue = |due_ms: i64| stats.now_ms.saturating_sub(due_ms).clamp(0, LATEST_MS);
    let age = |due_ms: Option<i64>| Duration::from_millis(due_ms.map_or(0, |due_ms| count(overdue(due_ms))));
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
                LateState::InFlight => queue.leases.oldest_due_ms(),
                LateState::Retry => stats.retry_oldest_ms,
            })
        }),
        next_due_ms: source.head_ms,
    });
    if let Some(terms) = queue.store.terms() {
        metrics.leftovers(terms, source.leftovers.count, source.leftovers.oldest);
        queue.events.orphans(terms, count(source.orphans));
    }
    let full = queue.home().is_nearly_full();
    if full && source.leftovers.count > 0
        || source.leftovers.want_turn(queue.spec.source.leftover_max_age(), source.due > 0)
    {
        queue.want_upkeep();
    }
}

/// Whether the process continues after a pause.
enum Paused {
    GoOn,
    Stopping,
}

impl Paused {
    fn is_stopping(&self) -> bool {
        matches!(self, Paused::Stopping)
    }
}

async fn pause(process: &Process, time: Duration) -> Paused {
    // Order: the end goes first; a sleep may be left at any time.
    tokio::select! {
        biased;
        () = process.stopping.cancelled() => Paused::Stopping,
        () = tokio::time::sleep(time) => Paused::GoOn,
    }
}
