//! The only place that reads a clock.
//!
//! Durations are measured by a clock that goes on while the machine sleeps: after a suspend or a `SIGSTOP` a lease must
//! look as old as it is (R3). Points in time are those of Redis, estimated from its last answer.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// A point on a clock that never goes back and that counts suspended time. Not related to any calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(Duration);

impl Instant {
    /// Now.
    pub fn now() -> Self {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        // Both fields are non-negative on this clock.
        Instant(Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0)))
    }

    /// Time since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Instant) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// Time since this point; zero if it lies ahead.
    pub fn elapsed(self) -> Duration {
        Instant::now().since(self)
    }

    /// This point, later by `by`.
    pub fn after(self, by: Duration) -> Instant {
        Instant(self.0.saturating_add(by))
    }

    /// This point, earlier by `by`.
    pub fn before(self, by: Duration) -> Instant {
        Instant(self.0.saturating_sub(by))
    }

    /// Milliseconds on this clock.
    fn millis(self) -> i64 {
        i64::try_from(self.0.as_millis()).unwrap_or(i64::MAX)
    }
}

/// What Redis's clock says, as well as one can know without asking: its last answer plus the time since.
///
/// Only a hint for sleeping and for `not_after`; whether an element is due, Redis decides in the script (R9).
#[derive(Debug)]
pub struct RedisClock {
    /// Redis milliseconds minus our own.
    offset: AtomicI64,
}

impl RedisClock {
    /// A clock that trusts the machine's calendar until Redis has answered once.
    pub fn new() -> Self {
        #[expect(clippy::disallowed_methods, reason = "the one guess that is allowed, see above")]
        let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let clock = RedisClock { offset: AtomicI64::new(0) };
        clock.observe(i64::try_from(wall.as_millis()).unwrap_or(i64::MAX));
        clock
    }

    /// Takes over an answer of Redis that was read just now.
    pub fn observe(&self, redis_ms: i64) {
        self.offset.store(redis_ms.saturating_sub(Instant::now().millis()), Ordering::Relaxed);
    }

    /// Redis time now, in milliseconds since the epoch; behind by at most the time an answer travels.
    pub fn now_ms(&self) -> i64 {
        Instant::now().millis().saturating_add(self.offset.load(Ordering::Relaxed))
    }
}

impl Default for RedisClock {
    fn default() -> Self {
        Self::new()
    }
}
