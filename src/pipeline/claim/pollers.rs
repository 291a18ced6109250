//! What looks at Redis without being asked: the safety poll, the ready lists beside live Redisson clients, the gauges.
//!
//! Announcements on a channel are hints and never the truth: a poll finds what they missed. It reads without taking and
//! wakes a claimer only when it found something.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;

use crate::clock::{Asked, Skew};
use crate::link::Conn;
use crate::pipeline::process::Process;
use crate::pipeline::queue::Queue;
use crate::source::redisson::{Polled, SourceError, Stats, other_subscribers, poll};
use crate::telemetry::labels::{MessageState, Wakeup};
use crate::telemetry::status::Heartbeat;

/// Time between two looks at one queue.
const POLL: Duration = Duration::from_secs(1);
/// Queues that are looked at per second, over the whole process; with more of them the looks become rarer.
const POLL_BUDGET: usize = 500;
/// Time between two looks at the ready list of a queue that other clients listen to.
const READY: Duration = Duration::from_millis(100);
/// Time between two readings of the gauges.
const GAUGES: Duration = Duration::from_secs(5);
/// Queues whose gauges are read each time; with more of them the readings become rarer.
const GAUGES_BUDGET: usize = 1_000;
/// Queues that are asked about in one round trip: with thousands of idle ones the trips are what they cost. Not more,
/// because a claim waits behind them.
const GAUGES_AT_ONCE: usize = 16;

/// Polls until the process stops.
pub async fn safety_poll(process: Arc<Process>, queues: Vec<Arc<Queue>>, heartbeat: Heartbeat) {
    let chunk = POLL_BUDGET / 10;
    loop {
        for some in queues.chunks(chunk) {
            // Jitter, so that many daemons do not poll in step.
            let share = POLL.mul_f64(chunk.min(queues.len()) as f64 / queues.len().clamp(1, POLL_BUDGET) as f64);
            if pause(&process, share.mul_f64(0.9 + 0.2 * fastrand::f64())).await.is_stopping() {
                return;
            }
            heartbeat.beat();
            let Some(conn) = process.link.current() else { continue };
            let now_ms = process.clock.now_ms();
            let sources: Vec<_> = some.iter().map(|queue| (&queue.source, queue.spec.claim_ahead)).collect();
            if let Ok(found) = poll(&conn, &sources, now_ms).await {
                for (queue, found) in some.iter().zip(found) {
                    match found {
                        // The estimate is as good as Redis's own time once Redis has told it, which a claim has seen to.
                        Polled::Nothing if queue.nothing_due_ms() > i64::MIN => queue.saw_nothing_due(now_ms),
                        Polled::Nothing => {}
                        // What cannot be read (a key of a wrong type) is the claimer's to report.
                        Polled::Something | Polled::Error => queue.alarm.ring(Wakeup::Poll),
                    }
                }
            }
        }
    }
}

/// Looks at the ready lists while other clients, whose transfer tasks push to them, listen to the queue's channel.
pub async fn ready_lists(process: Arc<Process>, queues: Vec<Arc<Queue>>) {
    let queues: Vec<_> = queues.into_iter().filter(|queue| queue.spec.consume_ready).collect();
    let (mut beside, mut round) = (Vec::new(), 0);
    let every = 10 * queues.len().div_ceil(POLL_BUDGET);
    while !queues.is_empty() {
        if pause(&process, READY).await.is_stopping() {
            return;
        }
        let Some(conn) = process.link.current() else { continue };
        if round % every == 0 {
            beside = listened_to(&conn, &queues).await.unwrap_or(beside);
        }
        round += 1;
        let sources: Vec<_> = beside.iter().map(|queue: &Arc<Queue>| &queue.source).collect();
        if let Ok(lengths) = crate::source::redisson::ready_lengths(&conn, &sources).await {
            for (queue, length) in beside.iter().zip(lengths) {
                if length > 0 {
                    queue.alarm.ring(Wakeup::Poll);
                }
            }
        }
    }
}

async fn listened_to(conn: &Conn, queues: &[Arc<Queue>]) -> Option<Vec<Arc<Queue>>> {
    let mut beside = Vec::new();
    for some in queues.chunks(POLL_BUDGET) {
        let channels: Vec<_> = some.iter().map(|queue| &*queue.source.keys.channel).collect();
        let others = other_subscribers(conn, &channels).await.ok()?;
        beside.extend(some.iter().zip(others).filter(|(_, others)| *others > 0).map(|(queue, _)| queue.clone()));
    }
    Some(beside)
}

/// Reads the gauges until the process stops.
pub async fn gauges(process: Arc<Process>, queues: Vec<Arc<Queue>>) {
    let mut wait = Duration::from_millis(500);
    let mut skew = Skew::default();
    let mut slices = queues.chunks(GAUGES_BUDGET).cycle();
    loop {
        if pause(&process, wait).await.is_stopping() {
            return;
        }
        wait = GAUGES;
        let Some(conn) = process.link.current() else { continue };
        if let Ok(full) = crate::source::ledger::nearly_full(&conn).await {
            process.redis_nearly_full.store(full, Ordering::Relaxed);
        }
        for some in slices.next().unwrap_or_default().chunks(GAUGES_AT_ONCE) {
            let asked = Asked::now();
            let read = join_all(some.iter().map(|queue| read_stats(&conn, queue))).await;
            // What cannot be read is the claimer's to report.
            let read = some.iter().zip(read).filter_map(|(queue, stats)| Some((queue, stats.ok()?)));
            let mut last_ms = None;
            for (queue, stats) in read {
                show_gauges(queue, &stats);
                last_ms = Some(stats.now_ms);
            }
            if let Some(now_ms) = last_ms {
                skew.observe(&asked, now_ms);
                process.clock.observe(now_ms);
            }
        }
        if let Some(seconds) = skew.seconds() {
            process.events.metrics().clock_skew(seconds);
        }
    }
}

async fn read_stats(conn: &Conn, queue: &Queue) -> Result<Stats, SourceError> {
    let mut hints = queue.hints().clone();
    queue.source.stats(conn, &mut hints).await
}

fn show_gauges(queue: &Queue, stats: &Stats) {
    let metrics = queue.events.metrics();
    if stats.is_empty() && !metrics.has_gauges() {
        return;
    }
    let count = |n: i64| u64::try_from(n).unwrap_or(0);
    let source = &stats.source;
    metrics.messages(MessageState::Scheduled, count(source.scheduled - source.due));
    metrics.messages(MessageState::Due, count(source.due + if queue.spec.consume_ready { source.ready } else { 0 }));
    metrics.messages(MessageState::InFlight, count(stats.in_flight));
    metrics.messages(MessageState::Retry, count(stats.retry));
    metrics.messages(MessageState::Dead, count(stats.dead));
    let overdue = source.head_ms.map_or(0, |head| stats.now_ms.saturating_sub(head).max(0));
    metrics.oldest_due_age(Duration::from_millis(count(overdue)));
    metrics.next_due(source.head_ms);
    metrics.ghosts(source.leftovers.count, source.leftovers.oldest);
    queue.events.orphans(count(source.orphans));
    let full = queue.process.redis_nearly_full.load(Ordering::Relaxed);
    if full && source.leftovers.count > 0 || source.leftovers.want_turn(queue.spec.ghost_max_age, source.due > 0) {
        queue.sweep_due.store(true, Ordering::Relaxed);
    }
}

/// Whether the process goes on after a pause.
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
