//! The result of one round of an element: what its sinks have answered, or why none was asked.

use std::time::Duration;

use crate::settle::judge::SinkAnswer;
use crate::settle::verdict::Verdict;
use delaybridge_sink::Destination;

/// The result of one round of an element at its sinks.
#[derive(Default)]
pub struct RoundResult {
    /// The answers of its sinks.
    pub answers: Vec<SinkAnswer>,
    /// The sinks that have got the element.
    pub asked: Vec<usize>,
    /// The destinations of the element, by sink.
    pub destinations: Vec<(usize, Destination)>,
    /// Work on the element panicked.
    pub panicked: bool,
    /// The drain's time was up before the sinks had answered.
    pub given_up: bool,
    /// The time until the element comes back, if a destination is in trouble and was not asked.
    pub held: Option<Duration>,
    /// The element was to find out whether its destination works again.
    pub probe: bool,
}

/// The reason why no sink is asked about an element.
pub enum NoDelivery {
    /// The verdict is there without a sink.
    Decided(Verdict),
    /// The lease is over: the element is not ours to send, and not ours to settle.
    Stale,
}

impl From<Verdict> for NoDelivery {
    fn from(verdict: Verdict) -> Self {
        NoDelivery::Decided(verdict)
    }
}
