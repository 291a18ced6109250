//! Lateness of a short run without a sink: from the due time to the settling, by Redis's clock alone.

use std::time::Duration;

use super::claimer::{Claimer, Ended, bury, settle};
use super::times::Times;
use super::trial::{PIECE, Trial};
use delaybridge_core::clock::Instant;
use delaybridge_ledger::{BATCH_ENTRIES, redis_now_ms};

/// Until the first one falls due: time to offer a second's worth.
const LEAD_MS: i64 = 1_000;
/// The end of the measurement is asked for at least as often.
const LONGEST_SLEEP_MS: i64 = 200;

pub(super) async fn run(trial: &Trial<'_>) -> Result<Times, Ended> {
    let rate = i64::from(trial.options.rate);
    let count = (trial.options.rate * trial.options.seconds) as usize;
    let start = redis_now_ms(&trial.conn).await? + LEAD_MS;
    // In order, so that those that fall due first are there first, however long the offers take.
    let elements: Vec<_> = (0..count).map(|n| trial.element(start + n as i64 * 1_000 / rate)).collect();
    for some in elements.chunks(PIECE) {
        trial.step("lateness", 0, count)?;
        trial.queue.schedule(&trial.conn, some).await?;
        trial.queue.list(&trial.conn, some).await?;
    }
    let mut claimer = Claimer::new(redis_now_ms(&trial.conn).await?);
    let mut late = Times::default();
    let mut settled = Vec::new();
    while late.count() < count {
        trial.step("lateness", late.count(), count)?;
        let batch = trial.claim(&mut claimer, BATCH_ENTRIES).await?;
        let reply = &batch.claimed;
        if reply.elements.is_empty() {
            let wait = reply.next_ms.map_or(LONGEST_SLEEP_MS, |next| next - reply.now_ms);
            let wait = u64::try_from(wait.clamp(1, LONGEST_SLEEP_MS)).unwrap_or(1);
            tokio::time::sleep(Duration::from_millis(wait)).await;
            continue;
        }
        let due: Vec<i64> = reply.elements.iter().filter_map(|element| element.due_ms()).collect();
        // By Redis's clock at the claim, and by ours from then on.
        let claimed_ms = reply.now_ms;
        let claimed = Instant::now();
        settle(&trial.conn, &trial.queue, &[batch.confirmed()]).await?;
        settled.push(batch.confirmed());
        let settled_ms = claimed_ms + i64::try_from(claimed.elapsed().as_millis()).unwrap_or(i64::MAX);
        for due in due {
            late.add(Duration::from_millis((settled_ms - due).max(0).unsigned_abs()));
        }
    }
    bury(&trial.conn, &trial.queue, &settled).await?;
    Ok(late)
}
