//! Claim and settling at depth, two scripts under way at any time, as the daemon does it.

use std::time::Duration;

use bytes::Bytes;

use super::limits::Times;
use super::{AT_LATEST, Ended, Trial};
use crate::clock::Instant;
use crate::source::redisson::{
    Answer, BATCH_BYTES, BATCH_ENTRIES, ClaimReply, ClaimRequest, Claimed, Hints, Move, redis_now_ms,
};

/// Longer than any run.
const LEASE: Duration = Duration::from_secs(3_600);

/// What the drain took.
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
    let wanted = trial.args.drain.min(trial.args.depth) as usize;
    let mut claimer = Claimer::new(trial).await?;
    let mut drained = Drained::default();
    let mut to_settle = Vec::new();
    let started = Instant::now();
    loop {
        trial.go_on()?;
        trial.progress.show("claim and settle", drained.count, wanted);
        let claim = async {
            let asked = Instant::now();
            let most = BATCH_ENTRIES.min(wanted - drained.count);
            let reply = if most > 0 { Some(claimer.claim(most).await?) } else { None };
            Ok::<_, Ended>((reply, asked.elapsed()))
        };
        let settling = async {
            let asked = Instant::now();
            settle(trial, &to_settle).await?;
            Ok::<_, Ended>(asked.elapsed())
        };
        let ((reply, claim_took), settling_took) = tokio::try_join!(claim, settling)?;
        if !to_settle.is_empty() {
            drained.settlings.add(settling_took);
        }
        let Some(reply) = reply else { break };
        if reply.entries.is_empty() {
            return Err(Ended::Failed(
                "a claim took nothing although elements are due; does somebody else?".to_owned(),
            ));
        }
        drained.claims.add(claim_took);
        drained.count += reply.entries.len();
        to_settle = confirmed(reply);
    }
    drained.per_second = drained.count as f64 / started.elapsed().as_secs_f64();
    Ok(drained)
}

/// One claim after the other.
pub(super) struct Claimer<'a> {
    trial: &'a Trial<'a>,
    number: u64,
    not_after_ms: i64,
    hints: Hints,
}

impl<'a> Claimer<'a> {
    pub(super) async fn new(trial: &'a Trial<'a>) -> Result<Self, Ended> {
        let now_ms = redis_now_ms(&trial.conn).await?;
        let not_after_ms = now_ms + i64::try_from(LEASE.as_millis()).unwrap_or(i64::MAX);
        // A number for each claim of this process, also of a second claimer.
        Ok(Claimer { trial, number: now_ms.unsigned_abs() << 16, not_after_ms, hints: Hints::default() })
    }

    pub(super) async fn claim(&mut self, most: usize) -> Result<Claimed, Ended> {
        self.number += 1;
        let request = ClaimRequest {
            number: self.number,
            not_after_ms: self.not_after_ms,
            lease: LEASE,
            ahead: Duration::ZERO,
            most,
            bytes: BATCH_BYTES,
            alone: false,
            rotation: self.number,
            hints: self.hints.clone(),
        };
        match self.trial.queue.claim(&self.trial.conn, &request).await? {
            ClaimReply::Claimed(reply) => {
                self.hints = reply.hints.clone();
                if self.number & 0xffff == 1 {
                    // The claim has made keys of its own.
                    self.trial.queue.vanish_after(&self.trial.conn, AT_LATEST).await?;
                }
                Ok(reply)
            }
            ClaimReply::Late { .. } => Err(Ended::Failed("a claim came to Redis an hour after it was sent".to_owned())),
        }
    }
}

/// What was claimed, with the verdict of a sink that throws everything away.
pub(super) fn confirmed(reply: Claimed) -> Vec<(Bytes, Move)> {
    reply.entries.into_iter().map(|(_, entry)| (entry.member, Move::Confirm)).collect()
}

/// Writes the verdicts.
pub(super) async fn settle(trial: &Trial<'_>, moves: &[(Bytes, Move)]) -> Result<(), Ended> {
    let settled = trial.queue.settle(&trial.conn, moves, None, None).await?;
    match settled.answers.iter().all(|answer| *answer == Answer::Done) {
        true => Ok(()),
        false => Err(Ended::Failed("a settling was refused; does somebody else claim from this queue?".to_owned())),
    }
}
