//! At most one line in a while, with a count of those left out. Pure: the time is an argument.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::clock::Instant;

/// Decides which of many equal lines is written.
pub(super) struct Throttle {
    interval: Duration,
    /// When a line was last written, and how many were not since.
    state: Mutex<(Option<Instant>, u64)>,
}

impl Throttle {
    /// One line per `interval`.
    pub(super) fn new(interval: Duration) -> Self {
        Throttle { interval, state: Mutex::new((None, 0)) }
    }

    /// `Some(left out since the last line)` if a line is to be written now.
    pub(super) fn admit(&self, now: Instant) -> Option<u64> {
        // A panic elsewhere must not silence the log.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match state.0 {
            Some(last) if now.since(last) < self.interval => {
                state.1 += 1;
                None
            }
            _ => {
                let left_out = state.1;
                *state = (Some(now), 0);
                Some(left_out)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_in_ten_seconds_says_how_many_were_left_out() {
        let throttle = Throttle::new(Duration::from_secs(10));
        let start = Instant::now();
        let at = |seconds| throttle.admit(start.after(Duration::from_secs(seconds)));
        assert_eq!((at(0), at(1), at(9), at(10), at(11), at(30)), (Some(0), None, None, Some(2), None, Some(1)));
    }
}
