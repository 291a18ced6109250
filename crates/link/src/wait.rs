//! The wait between two attempts to connect.

use std::time::Duration;

use delaybridge_core::backoff::{Backoff, Jitter};

/// Upper bound of the first wait after a failed attempt; it doubles from there.
const FIRST_WAIT: Duration = Duration::from_millis(50);

/// Returns the wait with full jitter below a bound that doubles with every failure, so that many daemons do not retry
/// in step.
pub(super) fn wait_after(failures: u32, max: Duration) -> Duration {
    backoff(max).wait(failures.saturating_sub(1), fastrand::f64())
}

fn backoff(max: Duration) -> Backoff {
    Backoff::doubling(FIRST_WAIT, max, Jitter::Full)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_WAIT: Duration = Duration::from_secs(2);

    #[test]
    fn the_bound_of_the_wait_doubles_up_to_its_maximum() {
        for (failures, millis) in
            [(0, 50), (1, 50), (2, 100), (3, 200), (6, 1600), (7, 2000), (33, 2000), (u32::MAX, 2000)]
        {
            let bound = backoff(MAX_WAIT).bound(failures.saturating_sub(1));
            assert_eq!(bound, Duration::from_millis(millis), "{failures}");
            let longest = (0..200).map(|_| wait_after(failures, MAX_WAIT)).max();
            assert!(longest.is_some_and(|longest| longest <= bound && longest > bound / 2), "{failures}: {longest:?}");
        }
    }

    #[test]
    fn the_wait_is_drawn_from_the_whole_range() {
        let waits: Vec<_> = (0..1000).map(|_| wait_after(7, MAX_WAIT)).collect();
        assert!(waits.iter().all(|wait| *wait <= MAX_WAIT));
        assert!(waits.iter().any(|wait| *wait < MAX_WAIT / 4) && waits.iter().any(|wait| *wait > MAX_WAIT / 4 * 3));
    }
}
