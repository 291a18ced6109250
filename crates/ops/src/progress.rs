//! How far a long operation is: whoever waits hears of it, and may end it between two steps.

use std::time::Duration;

use super::error::Error;
use delaybridge_core::clock::Instant;

/// The progress of an operation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Things that were examined.
    pub done: u64,
    /// Things to examine, as far as that is known.
    pub of: Option<u64>,
    /// Things that were changed, written or found.
    pub acted: u64,
}

/// Whoever waits for a long operation.
pub trait ProgressWatch: Send {
    /// Hears how far it is, often.
    fn at(&mut self, step: Progress);

    /// Returns whether it should end as soon as it can be continued later.
    fn is_stopped(&self) -> bool;
}

/// No progress is shown, and nothing ends it.
pub struct Unwatched;

impl ProgressWatch for Unwatched {
    fn at(&mut self, _step: Progress) {}

    fn is_stopped(&self) -> bool {
        false
    }
}

/// Ends an operation when its time is over, but not before it has come anywhere: the next one would begin at the same place.
pub struct Until {
    end: Instant,
    has_progress: bool,
}

impl Until {
    /// One that ends after this time.
    pub fn after(time: Duration) -> Until {
        Until::at(Instant::now().after(time))
    }

    /// One that ends at this time.
    pub fn at(end: Instant) -> Until {
        Until { end, has_progress: false }
    }
}

impl ProgressWatch for Until {
    fn at(&mut self, step: Progress) {
        self.has_progress |= step.done > 0;
    }

    fn is_stopped(&self) -> bool {
        self.has_progress && Instant::now() >= self.end
    }
}

/// Returns the answer of an operation that was ended, where the same call goes on with the rest.
pub(super) fn ended(what: &str, done: u64) -> Error {
    Error::conflict(format!(
        "{what}: ended after {done}; run the same command again to go on with the rest, nothing is done twice"
    ))
}

/// So many a second, evenly.
#[derive(Debug)]
pub struct Pacer {
    interval: Option<tokio::time::Interval>,
}

impl Pacer {
    /// At most so many a second; none for no bound.
    pub fn new(per_second: Option<f64>) -> Pacer {
        let interval = per_second.filter(|rate| *rate > 0.0).map(|rate| {
            let mut interval = tokio::time::interval(Duration::from_secs_f64((1.0 / rate).clamp(1e-6, 86_400.0)));
            // What was slow is not made up for by a burst.
            interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            interval
        });
        Pacer { interval }
    }

    /// Waits until the next one may go.
    pub async fn turn(&mut self) {
        if let Some(interval) = &mut self.interval {
            interval.tick().await;
        }
    }

    /// Returns whether there is a bound.
    pub fn is_bounded(&self) -> bool {
        self.interval.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_is_over_ends_nothing_that_has_come_nowhere() {
        let mut until = Until::after(Duration::ZERO);
        until.at(Progress::default());
        assert!(!until.is_stopped());
        until.at(Progress { done: 1, ..Progress::default() });
        assert!(until.is_stopped());
    }

    #[tokio::test(start_paused = true)]
    async fn a_rate_is_kept_evenly() {
        let begun = tokio::time::Instant::now();
        let mut rate = Pacer::new(Some(10.0));
        for _ in 0..21 {
            rate.turn().await;
        }
        assert_eq!(begun.elapsed().as_millis(), 2_000);
        let mut none = Pacer::new(None);
        none.turn().await;
        assert_eq!((begun.elapsed().as_millis(), none.is_bounded()), (2_000, false));
    }
}
