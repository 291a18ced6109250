//! The order of one queue, as its claimer sees it.
//!
//! A replica that takes over may not have what was written last. If that was the return of an element, the element is in its
//! claim again, under a lease that still runs, and the next claim would take what is due after it. So after each change of the
//! server's history the claims of this process are compared with what it has in hand.

use std::sync::Arc;

use crate::active::ActiveQueue;
use crate::claim::expired::{Expired, ExpiredClaim, MetClaims};
use crate::deliver::key_queues::KeyQueues;
use crate::queue::Queue;
use delaybridge_ledger::StoreError;
use delaybridge_ledger::claims::ClaimName;
use delaybridge_link::History;

/// Names that one look for returned elements reads. A queue in order has few claims; what is not among them waits for the end of its
/// lease.
const MOST: usize = 100_000;

/// The order of one queue, as its claimer sees it.
pub(super) struct ClaimOrder {
    /// The elements in hand.
    pub(super) queues: Arc<KeyQueues>,
    /// There are claims to be taken over, or the last claim has met some.
    pub(super) gathering: bool,
    /// The element that was taken over last may kill the process, and is delivered before anything else is taken over.
    pub(super) alone: bool,
    /// Whether what is in hand comes before everything else, also before the claims that are to be taken over.
    pub(super) is_first: bool,
    /// The claim that is next and may kill the process, once everything that is due before it is in hand.
    pub(super) cleared: Option<ExpiredClaim>,
    /// Whether a claim that cannot be read was reported.
    pub(super) reported: bool,
    /// The history of the server in which the claims of this process were compared last.
    pub(super) compared_in: Option<History>,
}

impl ClaimOrder {
    pub(super) fn new(queues: Arc<KeyQueues>) -> ClaimOrder {
        ClaimOrder {
            queues,
            gathering: false,
            alone: false,
            is_first: false,
            cleared: None,
            reported: false,
            compared_in: None,
        }
    }

    /// Lets what comes wait until everything is taken over, or not.
    pub(super) fn gather(&self) {
        self.queues.gather(self.gathering && !self.alone && !self.is_first);
    }

    /// Returns whether elements that were taken over wait for the rest.
    pub(super) fn has_gathered(&self) -> bool {
        self.queues.is_gathering() && !self.queues.is_empty()
    }

    /// Finds the claim of another process to take over in this turn: the first of these.
    pub(super) fn next_takeover(&mut self, expired: &Expired) -> Option<ClaimName> {
        let first = expired.first()?;
        if first.is_suspect() && !self.is_cleared(expired) {
            // The next claim sees whether something that is due before it has gone back.
            return None;
        }
        self.alone |= first.is_suspect();
        Some(first.name)
    }

    /// Returns whether the first of these may kill the process, and everything that is due before it is in hand.
    pub(super) fn is_cleared(&self, expired: &Expired) -> bool {
        expired.first_suspect().is_some_and(|first| self.cleared == Some(first))
    }

    /// Notes what a claim has met, that may have taken what has gone back and was due before this time. `seen_all`: there was
    /// nothing.
    pub(super) fn met(&mut self, expired: &Expired, met: &MetClaims, before_ms: Option<i64>, seen_all: bool) {
        self.gathering = !(expired.is_empty() && met.strays.is_empty());
        self.alone |= self.gathering && met.strays.iter().any(|name| name.is_suspect());
        let is_next = |first: &ExpiredClaim| first.comes_after_ms().is_some_and(|due_ms| Some(due_ms) <= before_ms);
        let next = expired.first_suspect().filter(|first| met.strays.is_empty() && met.are_all && is_next(first));
        if next.is_some_and(|first| self.queues.hold_later_than(first.due_ms())) {
            // Some of what is in hand comes behind it.
            self.queues.return_all();
        }
        let next = next.filter(|_| !self.queues.returns());
        self.is_first = next.is_some();
        self.cleared = next.filter(|_| seen_all);
    }

    /// Returns whether a failover may have brought something back to the claims of this process: they were not compared in this
    /// history.
    pub(super) fn is_unknown(&self, queue: &Queue) -> bool {
        self.compared_in.is_none() || self.compared_in != queue.home().history()
    }

    /// Finds the claims of this process in Redis with an element that it does not have in hand. Nothing may be
    /// outstanding or lost. If there are some they count as seen only with `taken`: the caller takes them up.
    ///
    /// # Errors
    ///
    /// After any error it may be called again.
    pub(super) async fn look_for_returned(
        &mut self,
        queue: &ActiveQueue,
        taken: bool,
    ) -> Result<Vec<ClaimName>, StoreError> {
        let history = queue.home().history();
        // First, because a verdict may be written between the two.
        let in_hand = queue.leases.in_hand();
        let (names, _) = queue.store.expired(i64::MAX, MOST).await?;
        let mut found = Vec::new();
        for name in names.into_iter().filter(|name| name.owner == queue.store.owner()) {
            let contents = queue.store.contents(name).await?;
            if contents.elements.iter().any(|element| !in_hand.contains(&(name.number, element.bytes()))) {
                found.push(name);
            }
        }
        if found.is_empty() || taken {
            self.compared_in = history;
        }
        Ok(found)
    }

    /// Forgets what is next: something else may come before it.
    pub(super) fn forget_next(&mut self) -> Option<ExpiredClaim> {
        self.is_first = false;
        self.cleared.take()
    }

    /// Gives the order back when nothing is in flight any more: another daemon need not wait for the end of a lease.
    pub(super) async fn leave(&self, queue: &ActiveQueue) {
        // When it gives up, what is left is forgotten, and stays under its leases.
        while !queue.leases.is_empty() {
            // Order: the end goes first; a bell that was not heard rings again.
            tokio::select! {
                biased;
                () = queue.give_up.cancelled() => return,
                () = queue.rests() => {}
            }
        }
        for _ in 0..2 {
            // Another daemon would not wait for the claims that a failover has brought back, also during the wait above.
            if queue.give_up.is_cancelled() || self.is_unknown(queue) {
                return;
            }
            // Refused, it may have come behind an extension that was on its way: that one has its answer now. Without an answer the order
            // ends by itself.
            if !matches!(queue.store.leave_order(queue.order_ends_ms()).await, Ok(false)) {
                return;
            }
        }
    }
}
