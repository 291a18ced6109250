//! A rate limit for log lines, with a count of those suppressed. Pure: the time is an argument.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use delaybridge_core::clock::Instant;

/// Minimum interval between two lines of one kind about one queue.
pub(crate) const QUIET: Duration = Duration::from_secs(10);

/// A rate limit for lines of one kind.
pub(super) struct Throttle {
    interval: Duration,
    /// The time of the last line, and the number suppressed since.
    state: Mutex<(Option<Instant>, u64)>,
}

impl Throttle {
    /// Creates a limit of one line per `interval`.
    pub(super) const fn new(interval: Duration) -> Self {
        Throttle { interval, state: Mutex::new((None, 0)) }
    }

    /// Returns the number suppressed since the last line if a line about `n` things is to be written now.
    pub(super) fn admit(&self, now: Instant, n: u64) -> Option<u64> {
        // A panic elsewhere must not silence the log.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match state.0 {
            Some(last) if now.since(last) < self.interval => {
                state.1 += n;
                None
            }
            _ => {
                let left_out = state.1;
                *state = (Some(now), 0);
                Some(left_out)
            }
        }
    }

    /// Takes the number suppressed, and its time span, if no later line has reported it within the interval. With
    /// `all`, also before that.
    pub(super) fn sum(&self, now: Instant, all: bool) -> Option<(u64, Duration)> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(last), left_out @ 1..) = *state else { return None };
        let passed = now.since(last);
        (all || passed >= self.interval).then(|| {
            *state = (Some(now), 0);
            (left_out, passed)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_in_ten_seconds_says_how_many_were_left_out() {
        let throttle = Throttle::new(Duration::from_secs(10));
        let start = Instant::now();
        let at = |seconds| throttle.admit(start.after(Duration::from_secs(seconds)), 1);
        assert_eq!((at(0), at(1), at(9), at(10), at(11), at(30)), (Some(0), None, None, Some(2), None, Some(1)));
    }

    #[test]
    fn what_was_left_out_of_a_burst_is_summed_up_once() {
        let throttle = Throttle::new(Duration::from_secs(10));
        let start = Instant::now();
        let at = |seconds| start.after(Duration::from_secs(seconds));
        assert_eq!(throttle.sum(at(0), true), None);
        assert_eq!(throttle.admit(at(0), 7), Some(0), "these are in the line");
        assert_eq!(throttle.sum(at(20), true), None);
        (0..3).for_each(|_| assert_eq!(throttle.admit(at(1), 2), None));
        assert_eq!(throttle.sum(at(9), false), None);
        assert_eq!(throttle.sum(at(10), false), Some((6, Duration::from_secs(10))));
        assert_eq!(throttle.sum(at(30), false), None);
        // A sum counts as a line: the next one comes ten seconds later.
        assert_eq!(throttle.admit(at(19), 1), None);
        assert_eq!(throttle.sum(at(19), true), Some((1, Duration::from_secs(9))));
    }
}
