//! Facts that the pipeline reports, and that both the log and the status board show: stalls and pauses.

use std::sync::Arc;
use std::time::Duration;

use super::labels::Stage;

/// A queue from which nothing is claimed, for no known reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stalled {
    /// The queue.
    pub queue: Arc<str>,
    /// The stage that its claimer waits for.
    pub waits_for: Stage,
    /// The duration of the stall.
    pub time: Duration,
    /// Whether the stall was not reported before.
    pub news: bool,
}

/// A pause that keeps a queue from claiming.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paused {
    /// The paused sink; `None` if the queue itself is paused.
    pub sink: Option<String>,
    /// The person who paused it.
    pub by: String,
    /// The reason that the person gave.
    pub why: String,
    /// The begin of the pause, in ms by Redis's clock.
    pub since_ms: i64,
    /// The end of the pause, in ms by Redis's clock, if it ends by itself.
    pub until_ms: Option<i64>,
}
