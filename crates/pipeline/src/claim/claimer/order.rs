//! The order of one queue, as its claimer sees it.

use std::sync::Arc;

use crate::active::ActiveQueue;
use crate::claim::expired::Expired;
use crate::claim::returned::ReturnedClaims;
use crate::deliver::key_queues::KeyQueues;

/// The order of one queue, as its claimer sees it.
pub(super) struct ClaimOrder {
    /// The elements in hand.
    pub(super) queues: Arc<KeyQueues>,
    /// There are claims to be taken over, or the last claim has met some.
    pub(super) gathering: bool,
    /// The element that was taken over last may kill the process, and is delivered before anything else is taken over.
    pub(super) alone: bool,
    /// The elements that a failover may have brought back.
    pub(super) returned: ReturnedClaims,
}

impl ClaimOrder {
    pub(super) fn new(queues: Arc<KeyQueues>) -> ClaimOrder {
        ClaimOrder { queues, gathering: false, alone: false, returned: ReturnedClaims::default() }
    }

    /// Lets what comes wait until everything is taken over, or not.
    pub(super) fn gather(&self, expired: &Expired) {
        self.queues.gather(self.gathering && !self.alone && !expired.is_first_suspect());
    }
}

/// Gives the order back when nothing is in flight any more: another daemon need not wait for the end of a lease.
pub(super) async fn leave_order(queue: &ActiveQueue, returned: &ReturnedClaims) {
    // When it gives up, what is left is forgotten, and stays under its leases.
    while !queue.leases.is_empty() {
        // Order: the end goes first; a bell that was not heard rings again.
        tokio::select! {
            biased;
            () = queue.give_up.cancelled() => return,
            () = queue.rests() => {}
        }
    }
    // Another daemon would not wait for the claims that a failover has brought back, also during the wait above.
    if !queue.give_up.is_cancelled() && !returned.are_unknown(queue) {
        // Without an answer it ends by itself.
        drop(queue.store.leave_order().await);
    }
}
