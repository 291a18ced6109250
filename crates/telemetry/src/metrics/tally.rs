//! The counters of every queue for operators' pages, also of queues that share their series with others.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::busy::Busy;
use crate::catalogue::LATENESS;
use delaybridge_core::clock::Instant;

/// Number of lateness buckets; the last has no upper bound.
pub(crate) const BUCKETS: usize = LATENESS.len() + 1;

/// The counters of one queue, over all sinks.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    delivered: AtomicU64,
    failed: AtomicU64,
    late: [AtomicU64; BUCKETS],
    /// Not a counter, but the result of the latest look.
    oldest_in_flight_ms: AtomicU64,
    looked: Mutex<LastLook>,
    busy: Busy,
}

/// The numbers of a queue at the latest look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LastLook {
    /// Elements that are due and not claimed.
    pub due: u64,
    /// Elements that are due and not delivered: unclaimed, in flight, or waiting for a retry.
    pub backlog: u64,
    /// Dead letters.
    pub dead: u64,
    /// Milliseconds since the oldest element was due.
    pub overdue_ms: u64,
    /// Elements with due times that are hardly meant.
    pub absurd: u64,
}

/// The values of a [`Tally`], in total or between two points in time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Delivered elements.
    pub(crate) delivered: u64,
    /// Failed attempts.
    pub(crate) failed: u64,
    /// Acknowledgements by bucket of their lateness.
    pub(crate) late: [u64; BUCKETS],
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

    /// Notes what a look has found; the default while the queue cannot be read.
    pub(super) fn saw(&self, look: LastLook) {
        *self.looked.lock() = look;
    }

    /// The numbers at the latest look.
    pub(crate) fn last_look(&self) -> LastLook {
        *self.looked.lock()
    }

    /// Notes whether elements are overdue that nobody has claimed.
    pub(super) fn looked(&self, is_busy: bool) {
        self.busy.look(Instant::now(), self.delivered.load(Ordering::Relaxed), is_busy);
    }

    /// The highest rate while that was so, by second.
    pub(crate) fn busy_rate(&self) -> Option<f64> {
        self.busy.highest(Instant::now())
    }

    /// The totals so far.
    pub(crate) fn counts(&self) -> Counts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts { delivered: of(&self.delivered), failed: of(&self.failed), late: self.late.each_ref().map(of) }
    }

    /// Time since the oldest element in flight was due, at the latest look.
    pub(crate) fn oldest_in_flight(&self) -> Duration {
        Duration::from_millis(self.oldest_in_flight_ms.load(Ordering::Relaxed))
    }
}

impl Counts {
    /// The increase since `before`; zero for counters that were reset meanwhile.
    pub(crate) fn since(&self, before: &Counts) -> Counts {
        self.with(before, u64::saturating_sub)
    }

    /// The sum of both.
    pub(crate) fn and(&self, other: &Counts) -> Counts {
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
