//! The heartbeats of tasks, for the liveness probe.
//!
//! Tasks that run every second beat. A claimer beats at each claim, and rests while it has a reason not to claim. `/livez`
//! and systemd's watchdog read the same board.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use super::answer::LISTED;
use delaybridge_core::clock::Instant;

/// A handle with which a task gives its heartbeat.
pub struct Heartbeat(Arc<Beat>);

/// The watched tasks; a task that ended is forgotten when the next one is added.
#[derive(Default)]
pub(super) struct Beats(Mutex<Vec<Weak<Beat>>>);

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

impl Beats {
    /// Creates a heartbeat that is due at least once per `limit`. Dropping it ends the watch.
    pub(super) fn add(&self, task: String, limit: Duration) -> Heartbeat {
        let beat = Arc::new(Beat { task, limit, born: Instant::now(), last_ms: AtomicU64::new(0) });
        let mut beats = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        beats.retain(|beat| beat.strong_count() > 0);
        beats.push(Arc::downgrade(&beat));
        Heartbeat(beat)
    }

    /// Returns the tasks that have been silent for too long, each with the time; at most [`LISTED`].
    pub(super) fn stuck(&self, now: Instant) -> Vec<(Arc<Beat>, Duration)> {
        let beats = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let silent = beats.iter().filter_map(Weak::upgrade).map(|beat| (beat.age(now), beat));
        silent.filter(|(age, beat)| *age > beat.limit).map(|(age, beat)| (beat, age)).take(LISTED).collect()
    }
}
