//! Claims and settles with nothing in between: the library's own calls, as the daemon makes them.

use std::time::Duration;

use bytes::Bytes;

use super::Ended;
use crate::link::Conn;
use crate::source::ledger::{Answer, BATCH_BYTES, ClaimReply, ClaimRequest, Claimed, Hints, Ledger, Move};

/// Longer than any run.
const LEASE: Duration = Duration::from_secs(3_600);

/// One claim after the other.
#[derive(Debug, Clone)]
pub struct Claimer {
    /// Of the last claim; a number is never used twice.
    number: u64,
    not_after_ms: i64,
    hints: Hints,
}

impl Claimer {
    /// A claimer with numbers that no earlier one of this process has used. `now_ms` is Redis time.
    pub fn new(now_ms: i64) -> Self {
        let not_after_ms = now_ms + i64::try_from(LEASE.as_millis()).unwrap_or(i64::MAX);
        Claimer { number: now_ms.unsigned_abs() << 16, not_after_ms, hints: Hints::default() }
    }

    /// Whether there was no claim before the last one.
    pub(super) fn was_first(&self) -> bool {
        self.number & 0xffff == 1
    }

    /// Claims at most `most` elements that are due.
    ///
    /// # Errors
    ///
    /// When Redis cannot be asked.
    pub async fn claim(&mut self, conn: &Conn, queue: &Ledger, most: usize) -> Result<Claimed, Ended> {
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
        match queue.claim(conn, &request).await? {
            ClaimReply::Claimed(reply) => {
                self.hints = reply.hints.clone();
                Ok(reply)
            }
            ClaimReply::Late { .. } => Err(Ended::Failed("a claim came to Redis an hour after it was sent".to_owned())),
        }
    }
}

/// What was claimed, with the verdict of a sink that confirms everything.
pub fn confirmed(reply: Claimed) -> Vec<(Bytes, Move)> {
    reply.entries.into_iter().map(|(_, entry)| (entry.member, Move::Confirm)).collect()
}

/// Settles what was claimed.
///
/// # Errors
///
/// When a verdict is refused, and when Redis cannot be asked.
pub async fn settle(conn: &Conn, queue: &Ledger, moves: &[(Bytes, Move)]) -> Result<(), Ended> {
    let settled = queue.settle(conn, moves, None, None).await?;
    match settled.answers.iter().all(|answer| *answer == Answer::Done) {
        true => Ok(()),
        false => Err(Ended::Failed("a settling was refused; does another client claim from this queue?".to_owned())),
    }
}
