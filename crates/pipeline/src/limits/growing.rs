//! The growth of elements in flight within one budget, and how much of it there was of late.

use std::collections::VecDeque;

use tokio::sync::oneshot;

/// Growth of one budget.
#[derive(Debug, Default)]
pub(super) struct Growing {
    /// The bytes that are granted; a part of those of the budget.
    pub(super) granted: u64,
    pub(super) waiting: VecDeque<GrowthWaiter>,
    pub(super) ratio: Ratio,
}

/// A growth that waits for room.
#[derive(Debug)]
pub(super) struct GrowthWaiter {
    pub(super) bytes: u64,
    pub(super) granted: oneshot::Sender<()>,
}

/// The bytes that elements grew by for each sixteen that came: the most of late. Falls by an eighth with every claim that grew
/// less.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Ratio(u64);

impl Ratio {
    /// Sixteenths in one.
    const ONE: u64 = 16;
    /// Beyond this, a claim takes one element in any case.
    const MOST: u64 = Ratio::ONE * 1_000_000;

    pub(super) fn after(self, came: u64, grew: u64) -> Ratio {
        let seen = grew.saturating_mul(Ratio::ONE) / came.max(1);
        Ratio(seen.max(self.0 - self.0.div_ceil(8)).min(Ratio::MOST))
    }

    /// Returns the bytes that may come if they may take so many in memory.
    pub(super) fn shrink(self, bytes: u64) -> u64 {
        bytes.saturating_mul(Ratio::ONE) / (Ratio::ONE + self.0)
    }

    /// Returns the bytes that these will take in memory.
    pub(super) fn grow(self, bytes: u64) -> u64 {
        bytes.saturating_add(bytes.saturating_mul(self.0) / Ratio::ONE)
    }
}
