//! A queue in order: elements that have gone back, and that a failover put into claims of this process again.
//!
//! A replica that takes over may not have what was written last. If that was the return of an element, the element is in its
//! claim again, under a lease that still runs, and the next claim would take what is due after it. So after each change of the
//! server's history the claims of this process are compared with what it has in hand.

use crate::leases::Leases;
use crate::queue::Queue;
use delaybridge_ledger::StoreError;
use delaybridge_ledger::claims::ClaimName;
use delaybridge_link::History;

/// Names that one look reads. A queue in order has few claims; what is not among them waits for the end of its lease.
const MOST: usize = 100_000;

/// The history of the server in which the claims were compared last.
#[derive(Debug, Default)]
pub struct ReturnedClaims {
    looked_in: Option<History>,
}

impl ReturnedClaims {
    /// Returns whether the queue is in order, and its claims were not compared in this history.
    pub fn are_unknown(&self, queue: &Queue) -> bool {
        queue.spec.order.is_some() && (self.looked_in.is_none() || self.looked_in != queue.home().history())
    }

    /// Compares again before the next claim.
    pub fn forget(&mut self) {
        self.looked_in = None;
    }

    /// Finds the claims of this process in Redis with an element that it does not have in hand. Nothing may be
    /// outstanding or lost. If there are some they count as seen only with `taken`: the caller takes them up.
    ///
    /// # Errors
    ///
    /// After any error it may be called again.
    pub async fn look(&mut self, leases: &Leases, taken: bool) -> Result<Vec<ClaimName>, StoreError> {
        let queue = leases.queue();
        let looked_in = queue.home().history();
        // First, because a verdict may be written between the two.
        let in_hand = leases.in_hand();
        let (names, _) = queue.store.expired(i64::MAX, MOST).await?;
        let mut found = Vec::new();
        for name in names.into_iter().filter(|name| name.owner == queue.store.owner()) {
            let contents = queue.store.contents(name).await?;
            if contents.elements.iter().any(|element| !in_hand.contains(&(name.number, element.bytes()))) {
                found.push(name);
            }
        }
        if found.is_empty() || taken {
            self.looked_in = looked_in;
        }
        Ok(found)
    }
}
