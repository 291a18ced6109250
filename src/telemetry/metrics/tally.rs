//! What the pages show of every queue, also of those that share their series with others: a few numbers that only grow.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::telemetry::catalogue::LATENESS;

/// Buckets of the lateness; the last one has no upper bound.
pub(in crate::telemetry) const BUCKETS: usize = LATENESS.len() + 1;

/// Counts of one queue, over all sinks.
#[derive(Debug, Default)]
pub(in crate::telemetry) struct Tally {
    delivered: AtomicU64,
    failed: AtomicU64,
    late: [AtomicU64; BUCKETS],
    /// No count: what the latest look has found.
    oldest_in_flight_ms: AtomicU64,
}

/// What a [`Tally`] counted until now, or between two times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::telemetry) struct Counts {
    /// Delivered elements.
    pub(in crate::telemetry) delivered: u64,
    /// Failed attempts.
    pub(in crate::telemetry) failed: u64,
    /// Acknowledgements by bucket of their lateness.
    pub(in crate::telemetry) late: [u64; BUCKETS],
}

impl Tally {
    pub(super) fn delivered(&self, n: u64) {
        self.delivered.fetch_add(n, Ordering::Relaxed);
    }

    pub(super) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn late(&self, lateness: Duration) {
        let seconds = lateness.as_secs_f64();
        let bucket = LATENESS.partition_point(|bound| *bound < seconds);
        self.late[bucket].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn in_flight(&self, oldest: Duration) {
        self.oldest_in_flight_ms.store(oldest.as_millis().try_into().unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// What was counted until now.
    pub(in crate::telemetry) fn counts(&self) -> Counts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts { delivered: of(&self.delivered), failed: of(&self.failed), late: self.late.each_ref().map(of) }
    }

    /// How long the oldest element in flight has been due, at the latest look.
    pub(in crate::telemetry) fn oldest_in_flight(&self) -> Duration {
        Duration::from_millis(self.oldest_in_flight_ms.load(Ordering::Relaxed))
    }
}

impl Counts {
    /// What was counted since `before`; nothing of a queue that has begun anew meanwhile.
    pub(in crate::telemetry) fn since(&self, before: &Counts) -> Counts {
        self.with(before, u64::saturating_sub)
    }

    /// Both together.
    pub(in crate::telemetry) fn and(&self, other: &Counts) -> Counts {
        self.with(other, u64::saturating_add)
    }

    fn with(&self, other: &Counts, by: fn(u64, u64) -> u64) -> Counts {
        Counts {
            delivered: by(self.delivered, other.delivered),
            failed: by(self.failed, other.failed),
            late: std::array::from_fn(|at| by(self.late[at], other.late[at])),
        }
    }
}
