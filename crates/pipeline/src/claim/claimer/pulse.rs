//! The heartbeat of a claimer, and what a gap in it means for the leases.

use crate::queue::Queue;
use delaybridge_core::clock::Instant;
use delaybridge_telemetry::status::Heartbeat;

/// The heartbeat of a claimer.
pub(super) struct Pulse {
    /// Beats at every claim, and rests while there is a reason to make none.
    heartbeat: Heartbeat,
    /// The last pass of the loop: a gap means that the process was suspended.
    at: Instant,
    /// Nothing could be claimed for a while, and nothing extended perhaps.
    pub(super) extend_first: bool,
}

impl Pulse {
    pub(super) fn new(heartbeat: Heartbeat) -> Pulse {
        Pulse { heartbeat, at: Instant::now(), extend_first: false }
    }

    pub(super) fn beat(&mut self) {
        self.heartbeat.beat();
    }

    /// Stops the heartbeat until the next beat: there is a reason not to claim.
    pub(super) fn rest(&mut self) {
        self.heartbeat.rest();
    }

    /// Notes that the process is not suspended now.
    pub(super) fn goes_on(&mut self) {
        self.at = Instant::now();
    }

    /// Returns whether the process may have been suspended.
    pub(super) fn was_suspended(&self, queue: &Queue) -> bool {
        self.at.elapsed() > queue.spec.lease / 2
    }
}
