//! The progress of a claimer, for the watchdog: its claims, its stage, and whether something is due.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use delaybridge_telemetry::labels::Stage;

/// The notes of the claimer and of the safety poll about one queue.
#[derive(Debug, Default)]
pub struct ClaimProgress {
    /// Claims that were sent, and elements that waited for room and have it.
    claims: AtomicU64,
    /// The stage of the claimer, as its place in [`Stage::ALL`].
    stage: AtomicU8,
    /// Whether the last poll found something due.
    due: AtomicBool,
}

impl ClaimProgress {
    /// Notes that the claimer comes to this stage, and may wait there.
    pub fn at(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::Relaxed);
    }

    /// Notes that a claim is sent.
    pub fn claims(&self) {
        self.claims.fetch_add(1, Ordering::Relaxed);
        self.at(Stage::Reply);
    }

    /// Returns the number of claims that were sent.
    pub fn sent(&self) -> u64 {
        self.claims.load(Ordering::Relaxed)
    }

    /// Notes that elements that waited for room in memory are on their way, so that a claim has reason to wait.
    pub fn moves(&self) {
        self.claims.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes whether a poll found something due; `false` as well if Redis did not answer.
    pub fn set_due(&self, due: bool) {
        self.due.store(due, Ordering::Relaxed);
    }

    /// Returns whether the last poll found something due.
    pub fn is_due(&self) -> bool {
        self.due.load(Ordering::Relaxed)
    }

    /// Returns the stage that the claimer is at.
    pub fn stage(&self) -> Stage {
        Stage::ALL.get(usize::from(self.stage.load(Ordering::Relaxed))).copied().unwrap_or(Stage::Alarm)
    }
}
