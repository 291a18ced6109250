//! Claims and settles with nothing in between: the library's own calls, as the daemon makes them.

use std::time::Duration;

use super::super::error::explained;
use delaybridge_ledger::claims::{ClaimName, ClaimReply, ClaimRequest, Claimed, Confirmed, Part, Whole};
use delaybridge_ledger::{BATCH_BYTES, BATCH_ENTRIES, Hints, Ledger, StoreError};
use delaybridge_link::{Conn, LinkError};

/// Longer than any run.
const LEASE: Duration = Duration::from_secs(3_600);

/// Why a measurement did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// The caller asked for it.
    #[error("stopped")]
    Stopped,
    /// A failed measurement: the attempt, and its outcome.
    #[error("{0}")]
    Failed(String),
}

impl From<StoreError> for Ended {
    fn from(error: StoreError) -> Self {
        Ended::Failed(explained(&error))
    }
}

impl From<LinkError> for Ended {
    fn from(error: LinkError) -> Self {
        StoreError::from(error).into()
    }
}

/// One claim after the other.
#[derive(Debug, Clone)]
pub struct Claimer {
    /// Of the last claim; a number is never used twice.
    number: u64,
    not_after_ms: i64,
    hints: Hints,
}

impl Claimer {
    /// Creates a claimer with numbers that no earlier one of this process has used. `now_ms` is Redis time.
    pub fn new(now_ms: i64) -> Self {
        let not_after_ms = now_ms + i64::try_from(LEASE.as_millis()).unwrap_or(i64::MAX);
        Claimer { number: now_ms.unsigned_abs() << 16, not_after_ms, hints: Hints::default() }
    }

    /// Returns whether there was no claim before the last one.
    pub(super) fn was_first(&self) -> bool {
        self.number & 0xffff == 1
    }

    /// Claims at most `most` elements that are due.
    ///
    /// # Errors
    ///
    /// When Redis cannot be asked.
    pub async fn claim(&mut self, conn: &Conn, queue: &Ledger, most: usize) -> Result<Batch, Ended> {
        self.number += 1;
        let request = ClaimRequest {
            name: ClaimName::new(queue.owner, self.number),
            not_after_ms: self.not_after_ms,
            lease: LEASE,
            ahead: Duration::ZERO,
            most,
            bytes: BATCH_BYTES,
            rotation: self.number,
            hints: self.hints.clone(),
            back_before_ms: None,
        };
        match queue.claims().claim(conn, &request).await? {
            ClaimReply::Claimed(claimed) => {
                self.hints = claimed.hints.clone();
                Ok(Batch { name: request.name, claimed })
            }
            ClaimReply::Late { .. } | ClaimReply::Twice { .. } | ClaimReply::Standby { .. } => {
                Err(Ended::Failed("a claim came to Redis an hour after it was sent, or twice".to_owned()))
            }
        }
    }
}

/// A claim of the measurement.
#[derive(Debug)]
pub struct Batch {
    name: ClaimName,
    /// The reply of the claim.
    pub claimed: Claimed,
}

impl Batch {
    /// Returns the verdict of a sink that confirms everything.
    pub fn confirmed(&self) -> Whole {
        let entries = self.claimed.elements.iter().filter(|element| element.part() == Part::Entries).count();
        Whole { name: self.name, bare: self.claimed.elements.len() - entries, entries }
    }
}

/// Settles what was claimed. The names of the claims stay until [`bury`].
///
/// # Errors
///
/// When a verdict is refused, and when Redis cannot be asked.
pub async fn settle(conn: &Conn, queue: &Ledger, claims: &[Whole]) -> Result<(), Ended> {
    if claims.is_empty() {
        return Ok(());
    }
    let answers = queue.claims().confirm(conn, claims).await?;
    if answers.iter().any(|answer| *answer != Confirmed::Done) {
        return Err(Ended::Failed("a settling was refused; does another client claim from this queue?".to_owned()));
    }
    Ok(())
}

/// Removes the names of settled claims, of many at once as the daemon does.
///
/// # Errors
///
/// When Redis cannot be asked.
pub async fn bury(conn: &Conn, queue: &Ledger, claims: &[Whole]) -> Result<(), Ended> {
    // None of them can run again: each was answered. The daemon waits until it can know that without their answers.
    for some in claims.chunks(BATCH_ENTRIES) {
        let names: Vec<_> = some.iter().map(|claim| claim.name).collect();
        queue.claims().bury(conn, 0, &names).await?;
    }
    Ok(())
}
