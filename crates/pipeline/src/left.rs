//! Claims that changes of queues have left to their leases. No queue of this process looks for them: when their leases are over,
//! whoever serves the queue takes them over. A process that stops before says that it leaves something.

use std::time::Duration;

use parking_lot::Mutex;

use delaybridge_core::clock::Instant;

/// The ends of the leases of claims that were left.
#[derive(Debug, Default)]
pub struct LeftToLeases(Mutex<Vec<Instant>>);

impl LeftToLeases {
    /// Adds a claim whose lease is over after this time at the latest.
    pub(crate) fn add(&self, remaining: Duration) {
        let now = Instant::now();
        let mut ends = self.0.lock();
        ends.retain(|end| *end > now);
        ends.push(now.after(remaining));
    }

    /// Returns the number of claims whose leases are not over.
    pub fn count(&self) -> u64 {
        let now = Instant::now();
        let ends = self.0.lock();
        ends.iter().filter(|end| **end > now).count() as u64
    }
}
