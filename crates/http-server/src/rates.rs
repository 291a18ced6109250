//! How often a caller may ask: so many requests in an interval, all at once or spread over it.
//!
//! Each daemon counts for itself. What is kept of a caller is one point in time: when all of its requests will have been earned back.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use parking_lot::Mutex;

use super::problem::{Problem, ProblemKind};
use delaybridge_core::clock::Instant;
use delaybridge_model::RequestRate;

/// Callers that are remembered; those that have earned everything back are forgotten before.
const MOST: usize = 10_000;

/// The time at which each caller has earned all of its requests back.
#[derive(Debug)]
pub struct Rates<K>(Mutex<HashMap<K, Instant>>);

impl<K> Default for Rates<K> {
    fn default() -> Self {
        Rates(Mutex::default())
    }
}

impl<K: Hash + Eq> Rates<K> {
    /// Counts one request.
    ///
    /// # Errors
    /// It is one too many; when the next one is not.
    pub fn admit(&self, who: K, rate: RequestRate) -> Result<(), Problem> {
        self.admit_at(who, rate, Instant::now()).map_err(|wait| {
            let RequestRate { count, interval } = rate;
            let interval = humantime::format_duration(interval);
            let detail =
                format!("count the request: the token may send {count} in {interval}; wait, and send it again");
            Problem::new(ProblemKind::TooMany, detail).retry_after(wait)
        })
    }

    fn admit_at(&self, who: K, rate: RequestRate, now: Instant) -> Result<(), Duration> {
        let mut earned = self.0.lock();
        if earned.len() >= MOST {
            earned.retain(|_, at| *at > now);
        }
        let each = rate.interval / rate.count.max(1);
        let at = earned.get(&who).copied().filter(|at| *at > now).unwrap_or(now).after(each);
        match at.since(now).checked_sub(rate.interval) {
            // Rounding takes less than a nanosecond of each request.
            Some(wait) if wait > Duration::from_nanos(rate.count.into()) => Err(wait),
            _ => {
                earned.insert(who, at);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_in_an_interval_and_no_more() {
        let rates = Rates::default();
        let now = Instant::now();
        let rate = RequestRate { count: 3, interval: Duration::from_secs(2) };
        let ask = |who: &'static str, ms: u64| rates.admit_at(who, rate, now.after(Duration::from_millis(ms)));
        assert_eq!([ask("a", 0), ask("a", 0), ask("a", 1)], [Ok(()); 3]);
        let wait = ask("a", 1).unwrap_err();
        assert!((600..=700).contains(&wait.as_millis()), "{wait:?}");
        assert_eq!(ask("b", 1), Ok(()), "others are not concerned");
        assert_eq!(ask("a", 700), Ok(()));
        assert!(ask("a", 700).is_err());
        // After an interval everything is earned back.
        assert_eq!([ask("a", 9000), ask("a", 9000), ask("a", 9000)], [Ok(()); 3]);
        assert!(ask("a", 9000).is_err());
    }

    #[test]
    fn a_rate_below_one_a_second_is_one_in_a_longer_time() {
        assert_eq!(RequestRate::per_second(0.5), RequestRate { count: 1, interval: Duration::from_secs(2) });
        assert_eq!(RequestRate::per_second(0.5).to_string(), "0.5/s");
        assert_eq!(RequestRate::per_second(100.0), RequestRate { count: 100, interval: Duration::from_secs(1) });
        let refused = Rates::default();
        let rate = RequestRate::per_second(0.1);
        assert!(refused.admit("a", rate).is_ok());
        let problem = refused.admit("a", rate).unwrap_err();
        assert!(
            problem.detail.contains("1 in 10s") && problem.retry_after > Some(Duration::from_secs(9)),
            "{problem:?}"
        );
    }

    #[test]
    fn callers_that_have_earned_all_back_are_forgotten() {
        let rates = Rates::default();
        let now = Instant::now();
        let rate = RequestRate { count: 1, interval: Duration::from_secs(1) };
        for n in 0..MOST + 50 {
            let _ = rates.admit_at(n, rate, now.after(Duration::from_millis(n as u64)));
        }
        assert!(rates.0.lock().len() <= 1_100);
    }
}
