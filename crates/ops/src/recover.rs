//! Brings back elements of claims that have lost their leases: their keys are there, and no daemon would find them.

use serde::Serialize;

use super::error::{Attempted, Error};
use super::session::Queue;

/// The outcome of a recovery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Recovered {
    /// The queue.
    pub queue: String,
    /// Claims that had keys and no lease, and have one now.
    pub claims: usize,
    /// The elements in them.
    pub elements: usize,
}

/// Gives every claim of the queue without a lease one that is over, so that the next daemon takes it over. Daemons may run.
///
/// # Errors
///
/// When Redis cannot be asked, and when the right to `SCAN` is missing.
pub async fn recover(queue: &Queue) -> Result<Recovered, Error> {
    let what = format!("recover claims of `{}`", queue.id());
    let ledger = &queue.ledger;
    let names = ledger.unleased(&queue.conn).await.attempt(&what)?;
    let mut elements = 0;
    for name in &names {
        elements += ledger.claim_size(&queue.conn, *name).await.attempt(&what)?;
    }
    if !names.is_empty() {
        ledger.give_leases(&queue.conn, &names).await.attempt(&what)?;
    }
    Ok(Recovered { queue: queue.id().to_owned(), claims: names.len(), elements })
}
