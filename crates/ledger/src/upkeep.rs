//! Leftovers of claims at a source, and the steps that remove them.

use std::time::Duration;

/// The leftovers of claims at the source, for its upkeep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// The number that is recorded.
    pub count: u64,
    /// Of how many entries.
    pub of: u64,
    /// Age of the oldest.
    pub oldest: Duration,
}

/// A step of upkeep.
#[derive(Debug, Clone, Copy)]
pub struct UpkeepRequest {
    /// Step to do, or `None` to begin a turn.
    pub step: Option<i64>,
    /// Age of the oldest leftover that starts a turn.
    pub max_age: Duration,
    /// Bytes per second on average.
    pub bandwidth: u64,
    /// The condition for a turn to begin.
    pub start: Start,
    /// Size of the largest element met lately, in bytes.
    pub largest: usize,
}

/// The condition for a turn of upkeep to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// There are many leftovers or an old one, and the budget allows it.
    Due,
    /// As soon as there is one leftover: Redis is nearly full.
    Urgent,
    /// In any case: the orphans are to be counted.
    Census,
}

/// The outcome of a step of upkeep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpkeepState {
    /// No turn is due.
    Idle,
    /// Another daemon is at it.
    Busy,
    /// That step had been done.
    Stale,
    /// A turn is in progress.
    Begun,
    /// A step was done.
    Step,
    /// The turn is complete.
    Done,
}

/// Answer to a step of upkeep.
#[derive(Debug, Clone, Copy)]
pub struct Upkept {
    /// The outcome.
    pub state: UpkeepState,
    /// Redis time in ms.
    pub now_ms: i64,
    /// Number of the step to ask for next.
    pub step: i64,
    /// Entries left in this turn.
    pub left: i64,
    /// Leftovers removed by this step.
    pub removed: i64,
    /// Entries of this turn that no claim recorded and that have no element.
    pub orphans: i64,
}

impl Upkept {
    /// Returns the answer of a source whose claims leave nothing behind.
    pub fn idle(now_ms: i64) -> Upkept {
        Upkept { state: UpkeepState::Idle, now_ms, step: 0, left: 0, removed: 0, orphans: 0 }
    }
}

impl Leftovers {
    /// Returns whether a turn of upkeep is worth asking for. While more is due it can wait: Redis's time goes to what
    /// would be late, and one turn behind a backlog finds all leftovers, where several would go round among those to
    /// come.
    pub fn want_turn(&self, max_age: Duration, more_due: bool) -> bool {
        self.count > 0 && (self.oldest >= max_age || !more_due && self.count * 2 > self.of)
    }
}
