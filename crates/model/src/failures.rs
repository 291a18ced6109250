//! The rules for elements that cannot be delivered, or not yet.

use std::time::Duration;

use delaybridge_settings::words::words;

words! {
    /// Handling of a payload that the codec refuses.
    pub enum OnDecodeError {
        /// A dead letter, with the bytes.
        DeadLetter = "dead_letter",
        /// Unchanged delivery; templates on the payload have no value.
        ForwardRaw = "forward_raw",
        /// A hold of the queue until the configuration or the element is changed.
        Hold = "hold",
    }
}

words! {
    /// Handling of an element that is later than `max_lateness`.
    pub enum OnExpired {
        /// A dead letter with the reason `expired`.
        DeadLetter = "dead_letter",
        /// Delivery, which is counted.
        Deliver = "deliver",
    }
}

/// Handling of elements whose payload chose a destination that does not work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unroutable {
    /// The time for which the destination may not work; `None` is without a limit.
    pub after: Option<Duration>,
    /// The action after that time.
    pub action: OnUnroutable,
}

words! {
    /// The action on an element whose destination does not work.
    pub enum OnUnroutable {
        /// A dead letter with the reason `unroutable`.
        DeadLetter = "dead_letter",
        /// Waiting.
        Hold = "hold",
    }
}

impl Unroutable {
    /// The time after which an element becomes a dead letter; `None` if it never does.
    pub fn gives_up(self) -> Option<Duration> {
        self.after.filter(|_| self.action == OnUnroutable::DeadLetter)
    }
}

words! {
    /// Whether waits are drawn.
    pub list Jitter of bool { "full" => true, "none" => false }
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
