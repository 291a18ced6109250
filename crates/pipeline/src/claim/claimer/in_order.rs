//! The claims of a queue in order: what has gone back, or is to be taken over, comes before what is claimed next.
//!
//! The claimer knows no more of the order than these steps, each of which does nothing in another queue.

use std::time::Duration;

use super::Claimer;
use super::order::ClaimOrder;
use crate::claim::expired::{ClaimHead, ExpiredClaim, MetClaims};
use crate::claim::lost::Lost;
use crate::claim::outstanding::ClaimReplied;
use delaybridge_ledger::StoreError;
use delaybridge_ledger::claims::{ClaimName, Element, TakeOverReply};
use delaybridge_telemetry::labels::Wakeup;

/// Wait before a look at Redis that had no answer is repeated.
const AGAIN: Duration = Duration::from_millis(5);

impl Claimer {
    /// Returns the order, if a failover may have brought something back to its claims.
    pub(super) fn unknown_order(&self) -> Option<&ClaimOrder> {
        self.order.as_ref().filter(|order| order.is_unknown(&self.queue))
    }

    /// Returns whether the next claim may be made. Not before everything that goes back is written; and what may kill
    /// the process is alone, so it waits for what is before it, and what is behind it waits for it.
    pub(super) async fn may_claim_in_order(&mut self) -> bool {
        let queue = self.queue.clone();
        let Some(order) = &mut self.order else { return true };
        let queues = order.queues.clone();
        // What may kill the process waits until nothing else is in hand, and everything else waits for it.
        order.alone &= !(self.outstanding.is_empty() && queue.dispatch.is_idle() && queues.is_empty());
        order.gather();
        if queues.returns() && queues.is_gathering() {
            // What came before waits for the end of the takeover, which waits for it.
            queues.return_all();
        }
        let returning = queues.returns();
        if returning {
            order.forget_next();
            self.receive_all().await;
        }
        // What was claimed last may not have come to its key yet.
        let settled = || queue.dispatch.is_idle() && queues.is_empty() && queue.settler.is_idle();
        let is_alone = self.order.as_ref().is_some_and(|order| order.alone || order.is_cleared(&self.expired));
        // Until it has, the next claim would wait for the room that this fills, and would not be compared with it.
        let is_coming = self.order.as_ref().is_some_and(|order| order.gathering) && !queue.dispatch.is_idle();
        let waits = if returning { !settled() } else { is_coming || is_alone && !queues.is_empty() };
        if waits && !queue.stopping.is_cancelled() {
            self.pulse.rest();
            // A lost claim is looked for first: it holds room and isolation for which what is in hand may wait.
            if self.lost.is_empty() {
                // Order: a stop goes first; a bell that was not heard rings again.
                tokio::select! {
                    biased;
                    () = queue.stopping.cancelled() => {}
                    () = queue.rests() => {}
                }
            }
            return false;
        }
        // What is outstanding or lost is not in hand either, and is found by itself.
        let compares = self.outstanding.is_empty() && self.lost.is_empty();
        if compares && self.unknown_order().is_some() && !self.look_for_returned(returning).await {
            return false;
        }
        // Until everything is found and taken over, it goes back as well: it would be behind what has gone back. What may kill the
        // process is not taken over before that is delivered.
        let gathering =
            self.order.as_ref().is_some_and(|order| order.gathering) && self.expired.first_suspect().is_none();
        if returning && !waits && !gathering && self.lost.is_empty() {
            queues.returned_all();
            queue.alarm.ring(Wakeup::More);
        }
        true
    }

    /// Looks for elements that a failover has brought back, on a connection that is new. If there are some, everything in hand goes
    /// back first, and then those. Returns whether there is none, or the queue stops.
    async fn look_for_returned(&mut self, returning: bool) -> bool {
        let queue = self.queue.clone();
        let Some(order) = &mut self.order else { return true };
        self.pulse.rest();
        // Order: a stop goes first; reads may be left at any time.
        let looked = tokio::select! {
            biased;
            () = queue.stopping.cancelled() => return true,
            looked = async {
                queue.home().ready().await;
                order.look_for_returned(&queue, returning).await
            } => looked,
        };
        match looked {
            Ok(names) if names.is_empty() => {
                // Those of another server: the next claim meets what there is.
                self.expired.forget();
                return true;
            }
            Ok(names) if returning => {
                // The new master may have forgotten a confirmation as well.
                let now_ms = queue.home().now_ms();
                self.lost.extend(names.into_iter().map(|name| Lost::stray(name, now_ms, false)));
            }
            Ok(_) => order.queues.return_all(),
            Err(StoreError::NotSent { .. } | StoreError::Unknown { .. }) => self.pause(AGAIN).await,
            Err(problem) => self.refused(&problem).await,
        }
        false
    }

    /// Returns everything in hand to Redis, if something that is due before may have come back with a new connection.
    pub(super) fn return_unless_known(&self) {
        if let Some(order) = self.unknown_order() {
            order.queues.return_all();
        }
    }

    /// Gives the order back, where the queue has one.
    pub(super) async fn leave_order(&mut self) {
        if let Some(order) = &self.order {
            // Boxed, because it is rare.
            Box::pin(order.leave(&self.queue)).await;
        }
    }

    /// Notes that another daemon delivers: what was gathered is that one's now.
    pub(super) fn loses_order(&mut self) {
        if let Some(order) = &mut self.order {
            order.gathering = false;
            order.forget_next();
        }
    }

    /// Notes that Redis has refused a claim.
    pub(super) fn refused_in_order(&mut self, problem: &StoreError) {
        let Some(order) = &mut self.order else { return };
        // The server may have been a replica for a while, on the same connection.
        order.compared_in = None;
        if let StoreError::NotDurable { released: 1.., .. } = problem
            && order.gathering
        {
            // What is to be the first of what is gathered has gone back.
            order.queues.return_all();
        }
    }

    /// Returns what was gathered to Redis, if a claim has taken something that is due before: that went back, and there may be more
    /// of it than this claim took.
    pub(super) fn compare_gathered(&self, elements: &[Element]) {
        if let Some(order) = self.order.as_ref().filter(|order| order.gathering)
            && elements.iter().any(|element| order.queues.hold_later_than(element.due_ms()))
        {
            order.queues.return_all();
        }
    }

    /// Notes the claims with an expired lease that a claim has met, which may have taken what has gone back and was due before this
    /// time. `seen_all`: there was nothing; `saw_first`: nothing that it could not read was before it. Returns whether something
    /// that could not be read may come before the first that may kill the process.
    pub(super) fn met_in_order(
        &mut self,
        met: &MetClaims,
        before_ms: Option<i64>,
        seen_all: bool,
        saw_first: bool,
    ) -> bool {
        let Some(order) = &mut self.order else { return false };
        let is_unsure = order.gathering && !saw_first && !order.queues.is_empty();
        order.met(&self.expired, met, before_ms.filter(|_| saw_first), seen_all);
        order.gathering |= is_unsure;
        // Before anything is found: it would be delivered.
        order.gather();
        let is_hidden = |first: ExpiredClaim| !met.are_all || first.head == ClaimHead::Unread;
        self.expired.first_suspect().is_some_and(is_hidden)
    }

    /// Notes, for a queue in order, whether a takeover left nothing of the old claim, so that the claims behind it can
    /// be taken over.
    pub(super) fn goes_on_after(&mut self, old: ClaimName, answer: &Result<ClaimReplied, StoreError>) {
        match answer {
            Ok(ClaimReplied::TakeOver(TakeOverReply::Taken { left: 0, .. } | TakeOverReply::Nothing { .. })) => {
                self.expired.taken_over(old);
            }
            // It did not run, or there is more in it than was taken.
            Ok(ClaimReplied::TakeOver(TakeOverReply::Taken { .. } | TakeOverReply::Late { .. }))
            | Err(
                StoreError::NotSent { .. }
                | StoreError::Moving { .. }
                | StoreError::Passing { .. }
                | StoreError::Refused { .. },
            ) => {}
            // The next claim meets what is left, in its place.
            _ if self.order.is_some() => self.expired.forget(),
            _ => {}
        }
    }

    /// Looks, for a queue in order, for a gap at the front: what may kill the process was the first in its claim. Its
    /// former owner may have returned it since then, and what was taken instead must not overtake it.
    pub(super) fn look_for_gap(&mut self, answer: &Result<ClaimReplied, StoreError>) {
        let Some(order) = &mut self.order else { return };
        let Some(first_ms) = order.forget_next().and_then(|first| first.due_ms()) else { return };
        if let Ok(ClaimReplied::TakeOver(TakeOverReply::Taken { elements, .. })) = answer
            && elements.iter().any(|element| element.due_ms() > Some(first_ms))
        {
            order.queues.return_all();
        }
    }

    /// Reports, for a queue in order, which claim cannot be read while another one waits for that.
    pub(super) fn report_unreadable(&mut self, waits: bool) {
        let Some(order) = &mut self.order else { return };
        let reason = if waits { self.expired.unreadable() } else { None };
        if let Some(reason) = &reason {
            self.queue.events.on_hold(None, "claim", "", reason);
        } else if order.reported {
            self.queue.resume();
        }
        order.reported = reason.is_some();
    }
}
