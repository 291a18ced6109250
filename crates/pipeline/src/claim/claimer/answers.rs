//! What becomes of the answer to a claim or a takeover.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{BUSY, Claimer};
use crate::claim::lost::Lost;
use crate::claim::outstanding::{ClaimAnswer, ClaimCall, ClaimReplied, PendingClaim};
use crate::claim::record::ClaimContents;
use crate::claim::reply;
use delaybridge_core::backoff::{Backoff, Jitter};
use delaybridge_ledger::StoreError;
use delaybridge_ledger::claims::{ClaimReply, Claimed, Element, TakeOverReply};
use delaybridge_telemetry::labels::{ReleaseReason, Stage, Wakeup};

/// Waits after Redis refused claims.
const REFUSED: Backoff = Backoff::doubling(Duration::from_secs(1), Duration::from_secs(30), Jitter::None);

/// Waits while the cluster moves the queue's slot.
const MIGRATING: Backoff = Backoff::doubling(Duration::from_millis(50), Duration::from_secs(1), Jitter::None);

impl Claimer {
    pub(super) async fn receive(&mut self, answered: Box<ClaimAnswer>) {
        let queue = self.queue.clone();
        let process = &queue.process;
        let ClaimAnswer { claim, answer, took } = *answered;
        let most = claim.request.most();
        self.pace.backlog = false;
        if let ClaimCall::TakeOver(request) = &claim.request {
            self.goes_on_after(request.old, &answer);
            self.look_for_gap(&answer);
        }
        match answer {
            Ok(
                ClaimReplied::Claim(ClaimReply::Late { now_ms })
                | ClaimReplied::TakeOver(TakeOverReply::Late { now_ms }),
            ) => {
                queue.home().observe(now_ms);
                self.pace.came_late(claim.patience);
                queue.refund_rate(most as u32);
                queue.alarm.ring(Wakeup::More);
            }
            // Another sending of it has run: what it took is found by its name.
            Ok(
                ClaimReplied::Claim(ClaimReply::Twice { now_ms })
                | ClaimReplied::TakeOver(TakeOverReply::Twice { now_ms }),
            ) => {
                queue.home().observe(now_ms);
                self.lose(claim);
            }
            // Another daemon delivers: it may end, or release the order earlier, so the safety poll looks too.
            Ok(ClaimReplied::Claim(ClaimReply::Standby { now_ms, until_ms })) => {
                self.answered(now_ms, claim.patience);
                queue.refund_rate(most as u32);
                self.loses_order();
                self.expired.forget();
                self.report_unreadable(false);
                queue.stands_by(until_ms);
                queue.alarm.next(Some(until_ms.saturating_add(1)), false);
            }
            Ok(ClaimReplied::Claim(ClaimReply::Claimed(claimed))) => {
                queue.is_active();
                process.events.metrics().script("claim").took(took);
                self.answered(claimed.now_ms, claim.patience);
                reply::look_at_due_times(&queue, &claimed, claim.nothing_due_ms);
                reply::look_for_repeats(&queue, &claimed);
                self.take_up(claimed, claim).await;
            }
            Ok(ClaimReplied::TakeOver(TakeOverReply::Nothing { now_ms })) => {
                process.events.metrics().script("take_over").took(took);
                self.answered(now_ms, claim.patience);
                queue.refund_rate(most as u32);
                queue.alarm.ring(Wakeup::More);
            }
            Ok(ClaimReplied::TakeOver(TakeOverReply::Taken { now_ms, mut elements, unknown, damaged, .. })) => {
                process.events.metrics().script("take_over").took(took);
                self.answered(now_ms, claim.patience);
                let unknown = unknown.saturating_sub(damaged.len() as u64);
                elements.extend(damaged);
                if unknown > 0 {
                    queue.events.unknown_entries(unknown);
                }
                self.hand_over(elements, 0, unknown > 0, claim);
                queue.alarm.ring(Wakeup::More);
            }
            Err(StoreError::NotSent { .. }) => {
                queue.refund_rate(most as u32);
                queue.alarm.ring(Wakeup::Reconnect);
            }
            Err(StoreError::Unknown { .. }) => self.lose(claim),
            Err(problem) => {
                queue.refund_rate(most as u32);
                drop(claim);
                // What the next one took does not wait until Redis may be asked again.
                self.receive_all().await;
                self.refused(&problem).await;
            }
        }
    }

    /// Records that Redis has run a claim or a takeover.
    fn answered(&mut self, now_ms: i64, patience: Duration) {
        self.queue.renewed(now_ms);
        let refused_before = self.pace.ran(patience);
        let migrated = self.queue.slot_migrating.swap(false, Ordering::Relaxed);
        if refused_before || migrated {
            self.queue.resume();
        }
    }

    fn lose(&mut self, claim: PendingClaim) {
        let means = (claim.room, claim.isolation);
        self.lost.push(Lost::reply(claim.request.forget(), claim.sent.after(claim.patience), means));
    }

    /// Handles a refusal by Redis: a key of a wrong type, a missing right. Nothing was changed.
    pub(super) async fn refused(&mut self, problem: &StoreError) {
        self.pulse.rest();
        let queue = self.queue.clone();
        queue.progress.at(Stage::Refused);
        let migrating = matches!(problem, StoreError::Moving { .. });
        if migrating {
            queue.slot_migrates()
        } else {
            queue.events.on_hold(None, "claim", "", &format!("claim: {problem}"))
        }
        self.pulse.extend_first |= migrating;
        self.refused_in_order(problem);
        if let StoreError::NotDurable { released, may_repeat, .. } = problem {
            queue.events.metrics().released(ReleaseReason::NotDurable, *released);
            if *may_repeat {
                // They come again as retries, which are not counted.
                queue.events.metrics().possible_duplicates(*released);
            }
        }
        let refusals = self.pace.refused();
        let wait = match (migrating, problem.passes()) {
            (true, _) => MIGRATING.bound(refusals),
            (false, true) => BUSY,
            (false, false) => REFUSED.bound(refusals),
        };
        queue.alarm.ring(Wakeup::Poll);
        // In the drain a lost claim is still looked for, but not without a pause.
        let stopping = queue.stopping.is_cancelled();
        let end = if stopping { &queue.abandon } else { &queue.stopping };
        // Order: the end goes first; a sleep may be left at any time.
        tokio::select! {
            biased;
            () = end.cancelled() => {}
            () = tokio::time::sleep(if stopping { BUSY } else { wait }) => {}
        }
    }

    async fn take_up(&mut self, mut claimed: Claimed, claim: PendingClaim) {
        let queue = self.queue.clone();
        reply::take_damaged(&mut claimed);
        let most = claim.request.most();
        let probing = claim.probe.is_some();
        let taken = claimed.elements.len();
        let more_due = reply::more_is_due(&claimed);
        reply::note(&queue, &claimed);
        let before_ms = claim.request.back_before_ms();
        // What it cannot read may have hidden others.
        let saw_first = taken > 0 || claimed.unknown == 0;
        *queue.hints() = claimed.hints;
        self.compare_gathered(&claimed.elements);
        queue.alarm.next(claimed.next_ms, taken > 0);
        self.hand_over(claimed.elements, claimed.retried, claimed.unreadable > 0, claim);
        let met = self.expired.met(&queue.leases, claimed.expired, claimed.unknown_names).await;
        let hidden = self.met_in_order(&met, before_ms, taken == 0, saw_first);
        self.look_for(met.strays, claimed.now_ms);
        self.report_unreadable(hidden);
        if hidden {
            // There may be something before it that could not be read: it waits until that can be.
            Box::pin(self.pause(BUSY)).await;
        }
        // A probe that found nothing but expired leases waits for the safety poll: the gate would let it through again at
        // once.
        let left = taken >= most || claimed.more;
        queue.claimed(taken > 0, left);
        self.pace.backlog = left && !probing;
        let probed_nothing = probing && taken == 0;
        if left || !self.expired.is_empty() && !probed_nothing {
            queue.alarm.ring(Wakeup::More);
        } else if taken == 0 && more_due {
            // Another daemon was faster: not again in lockstep.
            tokio::time::sleep(Duration::from_millis(fastrand::u64(1..5))).await;
        }
    }

    /// Gives what was taken to the delivery. What was reserved for more is released.
    fn hand_over(&mut self, elements: Vec<Element>, retried: usize, unreadable: bool, claim: PendingClaim) {
        let queue = self.queue.clone();
        self.return_unless_known();
        let PendingClaim { request, sent, room, isolation, probe, history, .. } = claim;
        let unused = request.most().saturating_sub(elements.len());
        queue.refund_rate(u32::try_from(unused).unwrap_or(0));
        if queue.give_up.is_cancelled() {
            // Too late to write a verdict: it is not sent, and the queue that follows looks for it.
            if !elements.is_empty() {
                self.lost.push(Lost::forgotten(request.forget(), queue.home().now_ms()));
            }
            return;
        }
        let deadline = sent.after(queue.spec.lease);
        let name = request.name();
        let not_after_ms = request.not_after_ms();
        if !elements.is_empty() {
            self.linger(sent);
        }
        let may_repeat = name.expiries > 0;
        let taken =
            ClaimContents { name, not_after_ms, may_repeat, elements, complete: !unreadable, deadline, history };
        if let Some(batch) = reply::accept(&queue, taken, retried, (room, isolation, probe)) {
            queue.dispatch.push(batch);
        }
    }
}
