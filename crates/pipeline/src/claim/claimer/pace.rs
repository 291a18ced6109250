//! The pace of a claimer: its turns, and what the answers to them say about the next.

use std::time::Duration;

/// The time after its sending in which a claim may run, to begin with. Short, because that is how long a lost one delays its
/// elements; it grows while Redis is slower than this.
const PATIENCE: Duration = Duration::from_millis(500);

/// The turns of one claimer.
pub(super) struct ClaimPace {
    /// The claims and takeovers that were made.
    pub(super) turns: u64,
    /// The claims of due elements among them.
    pub(super) rotation: u64,
    /// The claims in a row that Redis refused.
    refusals: u32,
    /// The time after its sending in which a claim may still run.
    pub(super) patience: Duration,
    /// Whether the last claim left something that is due.
    pub(super) backlog: bool,
}

impl ClaimPace {
    pub(super) fn new() -> ClaimPace {
        ClaimPace { turns: 0, rotation: 0, refusals: 0, patience: PATIENCE, backlog: false }
    }

    /// Returns whether the first turn was not made, or the last one was refused.
    pub(super) fn is_unsettled(&self) -> bool {
        self.turns == 0 || self.refusals > 0
    }

    /// Notes that Redis has run a claim that might wait so long. Returns whether it had refused those before.
    pub(super) fn ran(&mut self, patience: Duration) -> bool {
        self.patience = PATIENCE.max(patience / 2);
        std::mem::take(&mut self.refusals) > 0
    }

    /// Notes that a claim came too late, although it might wait so long.
    pub(super) fn came_late(&mut self, patience: Duration) {
        self.patience = patience.saturating_mul(2);
    }

    /// Notes a refusal. Returns the number of those in a row before it.
    pub(super) fn refused(&mut self) -> u32 {
        let before = self.refusals;
        self.refusals = self.refusals.saturating_add(1);
        before
    }
}
