//! What the same Redis does with the barest commands: a round trip, and elements put into a sorted set.

use std::time::Duration;

use super::claimer::Ended;
use super::times::Times;
use super::trial::{AT_LATEST, PIECE, Trial};
use delaybridge_core::clock::Instant;
use delaybridge_ledger::redis_now_ms;
use delaybridge_source::redisson::ping;

const PINGS: usize = 200;
const HOUR_MS: i64 = 3_600_000;

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
        let some: Vec<_> = (start..depth.min(start + PIECE)).map(|n| trial.element(due(n))).collect();
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
