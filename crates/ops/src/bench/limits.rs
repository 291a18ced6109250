//! What the same Redis does with the barest commands: a round trip, and elements put into a sorted set.

use std::time::Duration;

use bytes::Bytes;

use super::{AT_LATEST, Ended, PIECE, Quantiles, Trial};
use delaybridge_core::clock::Instant;
use delaybridge_core::message::MessageId;
use delaybridge_ledger::redis_now_ms;
use delaybridge_source::redisson::layout::{Layout, pack};
use delaybridge_source::redisson::ping;

const PINGS: usize = 200;
const HOUR_MS: i64 = 3_600_000;

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

/// PING, one after the other.
pub(super) async fn round_trip(trial: &Trial<'_>) -> Result<Times, Ended> {
    let mut times = Times::default();
    for n in 0..PINGS {
        trial.step("round trip", n, PINGS)?;
        let asked = Instant::now();
        ping(&trial.conn).await?;
        times.add(asked.elapsed());
    }
    Ok(times)
}

/// Fills the queue, and returns the elements per second of `ZADD` alone. The elements to drain are overdue and spread over the list; the others are due tomorrow.
pub(super) async fn fill(trial: &Trial<'_>) -> Result<f64, Ended> {
    let depth = trial.options.depth as usize;
    let drain = trial.options.drain.min(trial.options.depth) as usize;
    let now_ms = redis_now_ms(&trial.conn).await?;
    let overdue = |n: usize| (n + 1) * drain / depth > n * drain / depth;
    let due = |n: usize| {
        if overdue(n) { now_ms - fastrand::i64(1..HOUR_MS) } else { now_ms + fastrand::i64(24 * HOUR_MS..48 * HOUR_MS) }
    };
    let mut in_zadd = Duration::ZERO;
    for start in (0..depth).step_by(PIECE) {
        trial.step("fill the queue", start, depth)?;
        let some: Vec<_> = (start..depth.min(start + PIECE)).map(|n| element(trial, due(n))).collect();
        let sent = Instant::now();
        trial.queue.schedule(&trial.conn, &some).await?;
        in_zadd += sent.elapsed();
        trial.queue.list(&trial.conn, &some).await?;
        if start == 0 {
            // From the first command on: a killed process cleans nothing up.
            trial.queue.vanish_after(&trial.conn, AT_LATEST).await?;
        }
    }
    Ok(depth as f64 / in_zadd.as_secs_f64())
}

/// Returns an element as Redisson packs it, with a random payload.
pub(super) fn element(trial: &Trial<'_>, due_ms: i64) -> (Bytes, i64) {
    let mut payload = vec![0; trial.options.payload_bytes as usize];
    fastrand::Rng::new().fill(&mut payload);
    (pack(Layout::New, MessageId(fastrand::u64(..).to_le_bytes()), &payload).into(), due_ms)
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
