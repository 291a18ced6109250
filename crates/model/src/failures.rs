//! The rules for elements that cannot be delivered, or not yet.

use std::ops::Range;
use std::time::Duration;

use delaybridge_settings::Settings;
use delaybridge_settings::words::words;

words! {
    /// Handling of a payload that the codec refuses.
    pub enum OnDecodeError {
        /// A dead letter; from the third in a row on, a hold of the queue, because then the codec is the wrong one.
        HoldRepeated = "hold_repeated",
        /// A dead letter, with the bytes.
        DeadLetter = "dead_letter",
        /// Unchanged delivery; templates on the payload have no value.
        ForwardRaw = "forward_raw",
        /// A hold of the queue until the configuration or the element is changed.
        Hold = "hold",
    }
}

words! {
    /// Handling of an object that only its Java class can read.
    pub enum OnOpaque {
        /// A dead letter, with the bytes.
        DeadLetter = "dead_letter",
        /// Unchanged delivery; templates on the payload have no value.
        ForwardRaw = "forward_raw",
        /// A hold of the queue until the configuration or the element is changed.
        Hold = "hold",
    }
}

impl From<OnOpaque> for OnDecodeError {
    fn from(rule: OnOpaque) -> OnDecodeError {
        match rule {
            OnOpaque::DeadLetter => OnDecodeError::DeadLetter,
            OnOpaque::ForwardRaw => OnDecodeError::ForwardRaw,
            OnOpaque::Hold => OnDecodeError::Hold,
        }
    }
}

/// Payloads in a row that the codec has refused when a queue is held for it: so many are no accident.
pub const REPEATED: u32 = 3;

words! {
    /// Handling of an element that is later than `max_lateness`.
    pub enum OnExpired {
        /// A dead letter with the reason `expired`.
        DeadLetter = "dead_letter",
        /// Delivery, which is counted.
        Deliver = "deliver",
    }
}

words! {
    /// Handling of an element whose due time is [absurd](is_absurd).
    pub enum OnAbsurdDue {
        /// Waiting among the retries, without an end and without an attempt.
        Hold = "hold",
        /// Delivery at once.
        Deliver = "deliver",
        /// A dead letter with the reason `absurd_due`.
        DeadLetter = "dead_letter",
    }
}

/// The bound of times in ms that are meant: beyond 2^53 no double has milliseconds.
const MEANT_MS: i64 = 1 << 53;

/// The times from 2001 to 2100 in seconds since 1970. As milliseconds they are five weeks of 1970.
const SECONDS: Range<i64> = 978_307_200..4_102_444_800;

/// Returns whether a due time in ms is long past and was meant to come: the result of an overflow, as that of
/// `Long.MAX_VALUE` ms from now, or [seconds](is_in_seconds). Scores of -inf and 0 are meant as "at once".
pub fn is_absurd(due_ms: i64) -> bool {
    (due_ms < -MEANT_MS && due_ms != i64::MIN) || is_in_seconds(due_ms)
}

/// Returns whether a due time in ms is one in seconds that was taken for milliseconds.
pub fn is_in_seconds(due_ms: i64) -> bool {
    SECONDS.contains(&due_ms)
}

/// The time in ms after which an element comes back that is held for its due time: no clock reaches it.
pub const HELD_MS: u64 = 1 << 53;

words! {
    /// Handling of an element that no destination is meant for.
    pub enum OnSkipped {
        /// A dead letter with the reason `skipped`.
        DeadLetter = "dead_letter",
        /// Removal, which is counted.
        Drop = "drop",
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
    /// Returns the time after which an element becomes a dead letter; `None` if it never does.
    pub fn gives_up(self) -> Option<Duration> {
        self.after.filter(|_| self.action == OnUnroutable::DeadLetter)
    }
}

words! {
    /// Whether waits are drawn.
    pub list Jitter of bool { "full" => true, "none" => false }
}

/// Attempts of an element. The wait after attempt n is at most `initial_interval` times `multiplier` to the power of
/// n-1, and never above `max_interval`. Failures during a complete outage of a sink do not count.
#[derive(Debug, Clone, Copy, PartialEq, Settings)]
#[settings(retry, at = "retry.NAME")]
pub struct RetryPolicy {
    /// Counted attempts until the element is a dead letter.
    #[key(count(1, 1_000_000), default = "10")]
    pub max_attempts: u32,
    /// Longest wait after the first attempt.
    #[key(duration(1), default = "500ms")]
    pub initial_interval: Duration,
    /// Longest wait before any attempt.
    #[key(duration(1), default = "1m")]
    pub max_interval: Duration,
    /// Factor from one wait to the next.
    #[key(Kind::Factor { min: 1.0, max: 100.0 }, default = "2")]
    pub multiplier: f64,
    /// A random wait between 0 and the bound, or the bound itself.
    #[key(words = Jitter, default = "full", name = "jitter")]
    pub full_jitter: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overflow_and_seconds_are_absurd_and_at_once_is_not() {
        for absurd in [i64::MIN + 1, -MEANT_MS - 1, 978_307_200, 1_795_626_000, 4_102_444_799] {
            assert!(is_absurd(absurd), "{absurd}");
        }
        for meant in [i64::MIN, -MEANT_MS, -1, 0, 1, 978_307_199, 4_102_444_800, 1_795_626_000_000, i64::MAX] {
            assert!(!is_absurd(meant), "{meant}");
        }
    }
}
