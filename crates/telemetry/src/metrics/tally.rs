//! The counters of every queue for operators' pages, also of queues that share their series with others.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::busy::Busy;
use super::lateness::{LatenessCounts, SharedLateness};
use delaybridge_core::clock::Instant;

/// The counters of one queue, over all sinks.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    delivered: AtomicU64,
    failed: AtomicU64,
    late: SharedLateness,
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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) delivered: u64,
    pub(crate) failed: u64,
    /// Acknowledgements by the size of their lateness.
    pub(crate) late: LatenessCounts,
}

impl Tally {
    pub(super) fn delivered(&self, n: u64) {
        self.delivered.fetch_add(n, Ordering::Relaxed);
    }

    pub(super) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn late(&self, lateness: Duration) {
        self.late.add(lateness);
    }

    pub(super) fn in_flight(&self, oldest: Duration) {
        self.oldest_in_flight_ms.store(oldest.as_millis().try_into().unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Notes what a look has found; the default while the queue cannot be read.
    pub(super) fn saw(&self, look: LastLook) {
        *self.looked.lock() = look;
    }

    /// Returns the numbers at the latest look.
    pub(crate) fn last_look(&self) -> LastLook {
        *self.looked.lock()
    }

    /// Notes whether elements are overdue that nobody has claimed.
    pub(super) fn looked(&self, is_busy: bool) {
        self.busy.look(Instant::now(), self.delivered.load(Ordering::Relaxed), is_busy);
    }

    /// Returns the highest rate while that was so, by second.
    pub(crate) fn busy_rate(&self) -> Option<f64> {
        self.busy.highest(Instant::now())
    }

    /// Returns the totals so far.
    pub(crate) fn counts(&self) -> Counts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts { delivered: of(&self.delivered), failed: of(&self.failed), late: self.late.counts() }
    }

    /// Returns the time since the oldest element in flight was due, at the latest look.
    pub(crate) fn oldest_in_flight(&self) -> Duration {
        Duration::from_millis(self.oldest_in_flight_ms.load(Ordering::Relaxed))
    }
}

impl Counts {
    /// Returns the increase since `before`; zero for counters that were reset meanwhile.
    pub(crate) fn since(&self, before: &Counts) -> Counts {
        Counts {
            delivered: self.delivered.saturating_sub(before.delivered),
            failed: self.failed.saturating_sub(before.failed),
            late: self.late.since(&before.late),
        }
    }

    /// Adds the counts of another one.
    pub(crate) fn merge(&mut self, other: &Counts) {
        self.delivered = self.delivered.saturating_add(other.delivered);
        self.failed = self.failed.saturating_add(other.failed);
        self.late.merge(&other.late);
    }
}
