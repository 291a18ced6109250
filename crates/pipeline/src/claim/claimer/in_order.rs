//! The claims of a queue in order: what has gone back, or is to be taken over, comes before what is claimed next.

use std::time::Duration;

use super::Claimer;
use super::order::ClaimOrder;
use crate::claim::lost::Lost;
use delaybridge_source::StoreError;
use delaybridge_telemetry::labels::Wakeup;

/// Wait before a look at Redis that had no answer is repeated.
const AGAIN: Duration = Duration::from_millis(5);

impl Claimer {
    /// Returns the order, if a failover may have brought something back to its claims.
    pub(super) fn unknown_order(&self) -> Option<&ClaimOrder> {
        self.order.as_ref().filter(|order| order.returned.are_unknown(&self.queue))
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
                order.returned.look(&queue.leases, returning).await
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
}
