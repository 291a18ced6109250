//! The heartbeats of tasks, for the liveness probe.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use serde_json::{Value, json};

use super::{Answer, LISTED, Status};
use crate::clock::Instant;
use crate::telemetry::events::Stalled;

/// A handle with which a task gives its heartbeat.
pub struct Heartbeat(Arc<Beat>);

pub(super) struct Beat {
    pub(super) task: String,
    limit: Duration,
    born: Instant,
    /// Milliseconds from `born` to the last beat, or [`RESTING`].
    last_ms: AtomicU64,
}

/// The value in place of a time while the task rests and no heartbeat is due.
const RESTING: u64 = u64::MAX;

impl Heartbeat {
    /// Records that the task is alive. One atomic store.
    pub fn beat(&self) {
        let since = self.0.born.elapsed().as_millis();
        self.0.last_ms.store(since.try_into().unwrap_or(RESTING), Ordering::Relaxed);
    }

    /// Suspends the watch until the next beat, because the task waits for something that may take any time.
    pub fn rest(&self) {
        self.0.last_ms.store(RESTING, Ordering::Relaxed);
    }
}

impl Beat {
    fn age(&self, now: Instant) -> Duration {
        match self.last_ms.load(Ordering::Relaxed) {
            RESTING => Duration::ZERO,
            last_ms => now.since(self.born).saturating_sub(Duration::from_millis(last_ms)),
        }
    }
}

impl Status {
    /// Creates a heartbeat that is due at least once per `limit`; without it the process counts as stuck. Dropping it
    /// ends the watch.
    pub fn heartbeat(&self, task: impl Into<String>, limit: Duration) -> Heartbeat {
        let beat = Arc::new(Beat { task: task.into(), limit, born: Instant::now(), last_ms: AtomicU64::new(0) });
        let mut beats = self.0.beats.lock().unwrap_or_else(PoisonError::into_inner);
        beats.retain(|beat| beat.strong_count() > 0);
        beats.push(Arc::downgrade(&beat));
        Heartbeat(beat)
    }

    /// Answers the liveness probe: every watched task has beaten recently, and no queue is stalled.
    pub fn live(&self) -> Answer {
        self.live_at(Instant::now())
    }

    pub(crate) fn live_at(&self, now: Instant) -> Answer {
        let stuck: Vec<Value> = self
            .stuck(now)
            .into_iter()
            .map(|(beat, silent)| json!({ "task": beat.task, "silent_seconds": silent.as_secs() }))
            .collect();
        let board = self.board();
        let total: usize = board.stalled.values().map(|(_, total)| total).sum();
        let queues = board.stalled.values().flat_map(|(queues, _)| queues).take(LISTED);
        let ok = stuck.is_empty() && total == 0;
        let queue = |stalled: &Stalled| {
            let waits_for = stalled.waits_for.as_str();
            json!({ "queue": stalled.queue, "waits_for": waits_for, "seconds": stalled.time.as_secs() })
        };
        let queues: Vec<_> = queues.map(queue).collect();
        Answer { ok, body: json!({ "live": ok, "stuck": stuck, "stalled": queues, "stalled_queues": total }) }
    }

    /// The tasks that have been silent for too long, each with the time; at most [`LISTED`].
    pub(super) fn stuck(&self, now: Instant) -> Vec<(Arc<Beat>, Duration)> {
        let beats = self.0.beats.lock().unwrap_or_else(PoisonError::into_inner);
        let silent = beats.iter().filter_map(Weak::upgrade).map(|beat| (beat.age(now), beat));
        silent.filter(|(age, beat)| *age > beat.limit).map(|(age, beat)| (beat, age)).take(LISTED).collect()
    }
}
