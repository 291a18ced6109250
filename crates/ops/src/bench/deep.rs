//! Claim and settling at depth, two scripts outstanding at any time, as in the daemon.

use super::claimer::{Claimer, Ended, bury, settle};
use super::times::Times;
use super::trial::Trial;
use delaybridge_core::clock::Instant;
use delaybridge_ledger::{BATCH_ENTRIES, redis_now_ms};

/// The result of the drain.
#[derive(Debug, Default)]
pub(super) struct Drained {
    pub(super) count: usize,
    pub(super) per_second: f64,
    /// Of the calls, the way to Redis and back included.
    pub(super) claims: Times,
    pub(super) settlings: Times,
}

/// Claims and settles what is overdue.
pub(super) async fn drain(trial: &Trial<'_>) -> Result<Drained, Ended> {
    let wanted = trial.options.drain.min(trial.options.depth) as usize;
    let mut claimer = Claimer::new(redis_now_ms(&trial.conn).await?);
    let mut drained = Drained::default();
    let mut to_settle = Vec::new();
    let mut settled = Vec::new();
    let started = Instant::now();
    loop {
        trial.step("claim and settle", drained.count, wanted)?;
        let claim = async {
            let asked = Instant::now();
            let most = BATCH_ENTRIES.min(wanted - drained.count);
            let reply = if most > 0 { Some(trial.claim(&mut claimer, most).await?) } else { None };
            Ok::<_, Ended>((reply, asked.elapsed()))
        };
        let settling = async {
            let asked = Instant::now();
            settle(&trial.conn, &trial.queue, &to_settle).await?;
            Ok::<_, Ended>(asked.elapsed())
        };
        let ((reply, claim_took), settling_took) = tokio::try_join!(claim, settling)?;
        if !to_settle.is_empty() {
            drained.settlings.add(settling_took);
        }
        let Some(reply) = reply else { break };
        if reply.claimed.elements.is_empty() {
            return Err(Ended::Failed(
                "a claim took nothing although elements are due; does another client?".to_owned(),
            ));
        }
        drained.claims.add(claim_took);
        drained.count += reply.claimed.elements.len();
        to_settle = vec![reply.confirmed()];
        settled.extend_from_slice(&to_settle);
    }
    bury(&trial.conn, &trial.queue, &settled).await?;
    drained.per_second = drained.count as f64 / started.elapsed().as_secs_f64();
    Ok(drained)
}
