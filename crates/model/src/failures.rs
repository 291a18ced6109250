//! The rules for elements that cannot be delivered, or not yet.

use std::time::Duration;

/// Handling of a payload that the codec refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDecodeError {
    /// A dead letter, with the bytes.
    DeadLetter,
    /// Unchanged delivery; templates on the payload have no value.
    ForwardRaw,
    /// A hold of the queue until the configuration or the element is changed.
    Hold,
}

/// Handling of an element that is later than `max_lateness`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnExpired {
    /// A dead letter with the reason `expired`.
    DeadLetter,
    /// Delivery, which is counted.
    Deliver,
}

/// Handling of elements whose payload chose a destination that does not work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unroutable {
    /// The time for which the destination may not work; `None` is without a limit.
    pub after: Option<Duration>,
    /// The action after that time.
    pub action: OnUnroutable,
}

/// The action on an element whose destination does not work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnUnroutable {
    /// A dead letter with the reason `unroutable`.
    DeadLetter,
    /// Waiting.
    Hold,
}

impl Unroutable {
    /// The time after which an element becomes a dead letter; `None` if it never does.
    pub fn gives_up(self) -> Option<Duration> {
        self.after.filter(|_| self.action == OnUnroutable::DeadLetter)
    }
}

/// A named retry policy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryPolicy {
    /// Counted attempts after which the element is dead.
    pub max_attempts: u32,
    /// Upper bound of the first wait.
    pub initial_interval: Duration,
    /// Upper bound of any wait.
    pub max_interval: Duration,
    /// Growth of the upper bound from one attempt to the next, at least 1.
    pub multiplier: f64,
    /// Whether waits are drawn from `0..=bound` (full) or are the bound itself (none).
    pub full_jitter: bool,
}
