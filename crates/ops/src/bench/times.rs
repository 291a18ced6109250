//! The durations of something that was done many times.

use std::time::Duration;

use serde::Serialize;

/// Times in milliseconds, by the share that did not exceed them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Quantiles {
    /// Half of them.
    pub p50: f64,
    /// 99 of 100.
    pub p99: f64,
    /// All.
    pub max: f64,
}

/// The durations of something that was done many times.
#[derive(Debug, Default)]
pub(super) struct Times(Vec<Duration>);

impl Times {
    pub(super) fn add(&mut self, took: Duration) {
        self.0.push(took);
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    pub(super) fn quantiles(&self) -> Quantiles {
        Quantiles { p50: self.ms(0.5), p99: self.ms(0.99), max: self.ms(1.0) }
    }

    /// Milliseconds that this share of them did not exceed.
    fn ms(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let place = ((sorted.len() as f64 - 1.0) * share).round() as usize;
        sorted.get(place).map_or(0.0, |took| took.as_secs_f64() * 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_given_by_the_share_that_they_do_not_exceed() {
        let mut times = Times::default();
        assert_eq!(times.ms(0.5), 0.0);
        for ms in [30, 10, 20] {
            times.add(Duration::from_millis(ms));
        }
        assert_eq!([0.0, 0.5, 1.0].map(|share| times.ms(share)), [10.0, 20.0, 30.0]);
    }
}
