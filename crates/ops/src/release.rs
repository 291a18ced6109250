//! What is in flight under leases that are over: it goes to the retry set, from where everything is restored.

use std::time::Duration;

use crate::error::{Attempted, Error};
use crate::recover::recover;
use crate::session::Queue;
use delaybridge_ledger::claims::{Buried, ClaimName, SettleCommand, TakeOverReply, TakeOverRequest};
use delaybridge_ledger::{BATCH_BYTES, BATCH_ENTRIES, redis_now_ms};

/// Claims that one read asks for.
const PAGE: usize = 1_000;
/// Later than any lease ends.
const FOR_EVER_MS: i64 = i64::MAX >> 12;

/// Returns the claims that hold something, those with the earliest end of a lease first, and those without a lease
/// behind them. Reads only.
pub(super) async fn claims(queue: &Queue, what: &str) -> Result<Vec<ClaimName>, Error> {
    let mut names = leased(queue, what).await?;
    names.extend(queue.ledger.unleased(&queue.conn).await.attempt(what)?);
    Ok(names)
}

async fn leased(queue: &Queue, what: &str) -> Result<Vec<ClaimName>, Error> {
    let keys = queue.ledger.claim_keys(&queue.conn).await.attempt(what)?;
    let mut names: Vec<_> = keys.into_iter().map(|key| key.name).collect();
    names.dedup();
    Ok(names)
}

/// Returns whether one of them has a lease that is not over. A lease without elements is what a daemon leaves that has
/// stopped.
pub(super) async fn is_held(queue: &Queue, what: &str) -> Result<bool, Error> {
    let now_ms = redis_now_ms(&queue.conn).await.attempt(what)?;
    let keys = queue.ledger.claim_keys(&queue.conn).await.attempt(what)?;
    Ok(keys.iter().any(|key| key.until_ms > now_ms))
}

/// Removes the names of empty claims: the script would take them for a daemon at work.
async fn bury(queue: &Queue, what: &str) -> Result<(), Error> {
    let ledger = &queue.ledger;
    loop {
        let (names, _) = ledger.claims().expired(&queue.conn, FOR_EVER_MS, PAGE).await.attempt(what)?;
        if names.is_empty() {
            return Ok(());
        }
        let buried = ledger.claims().bury(&queue.conn, 0, &names).await.attempt(what)?;
        let removed = matches!(&buried, Buried::Done { kept, .. } if kept.contains(&false));
        if !removed || names.len() < PAGE {
            return Ok(());
        }
    }
}

/// Releases everything that is in flight. Every lease must be over; what this version cannot read stays.
pub(super) async fn release(queue: &Queue) -> Result<(), Error> {
    let what = format!("release what is in flight of `{}`", queue.id());
    recover(queue).await?;
    loop {
        let mut released = 0;
        bury(queue, &what).await?;
        for name in leased(queue, &what).await? {
            while let Some((taken, left)) = release_some(queue, name, &what).await? {
                released += taken;
                if left == 0 {
                    break;
                }
            }
        }
        if released == 0 {
            return Ok(());
        }
    }
}

/// Takes over and releases as much of a claim as one script moves: how many, and how many are left.
async fn release_some(queue: &Queue, old: ClaimName, what: &str) -> Result<Option<(usize, u64)>, Error> {
    let ledger = &queue.ledger;
    let number = fastrand::u64(..);
    let new = old.taken_over_by(ledger.owner, number);
    let request = TakeOverRequest {
        old,
        new,
        not_after_ms: FOR_EVER_MS,
        // Over at once: if this process dies here, the claim is met again.
        lease: Duration::ZERO,
        most: BATCH_ENTRIES,
        bytes: BATCH_BYTES,
        largest: 0,
    };
    let reply = ledger.claims().take_over(&queue.conn, &request).await.attempt(what)?;
    let TakeOverReply::Taken { elements, left, .. } = reply else { return Ok(None) };
    let batch: Vec<_> =
        elements.iter().enumerate().map(|(at, element)| SettleCommand::release(new, number, at, element)).collect();
    if !batch.is_empty() {
        ledger.claims().settle(&queue.conn, &batch, None, None).await.attempt(what)?;
    }
    Ok(Some((batch.len(), left)))
}
