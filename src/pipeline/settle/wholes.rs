//! Claims that end as a whole: every element that is left was confirmed, and one command removes them all.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Instant;
use crate::pipeline::claim::Claim;
use crate::pipeline::queue::Queue;
use crate::pipeline::settle::singles::{Settling, What};
use crate::pipeline::settle::{Tried, delivered, look};
use crate::source::ledger::claims::{Confirm, Confirmed, Move, Whole};

/// Beyond the longest call, what has to be left of a lease where nothing is counted: clocks run apart.
const MARGIN: Duration = Duration::from_secs(1);

/// A claim, and what is left in it.
pub(super) type Complete = (Arc<Claim>, Whole);

/// Writes until there is an answer.
pub(super) async fn write(queue: &Arc<Queue>, wholes: Vec<Complete>) {
    if wholes.is_empty() {
        return;
    }
    let (claims, wholes): (Vec<_>, Vec<_>) = wholes.into_iter().unzip();
    let (answers, resent) = send(queue, &claims, &wholes).await;
    let now = Instant::now();
    for ((claim, whole), answer) in claims.into_iter().zip(wholes).zip(answers) {
        finish(&claim, whole, answer, resent, now);
    }
}

async fn send(queue: &Arc<Queue>, claims: &[Arc<Claim>], wholes: &[Whole]) -> (Vec<Confirmed>, bool) {
    let script = queue.process.events.metrics().script("confirm");
    let (mut resent, mut reported) = (false, false);
    loop {
        queue.home().ready().await;
        let sent = Instant::now();
        // Of an expired lease a part may be another process's, and what cannot be read is not confirmed: then only a script
        // that counts removes the rest.
        let needed = queue.home().call_timeout() + MARGIN;
        let unexpired =
            claims.iter().all(|claim| !claim.unreadable && !claim.is_lost() && claim.deadline().since(sent) > needed);
        let how = if unexpired { Confirm::Unexpired } else { Confirm::Counted };
        match look(queue, queue.store.confirm(how, wholes).await, &mut reported).await {
            Tried::Answered(answers) => {
                script.took(sent.elapsed());
                return (answers, resent);
            }
            // Of several commands some may have been done before one was refused.
            Tried::Unknown | Tried::Refused => resent = true,
            Tried::NotSent => {}
        }
    }
}

fn finish(claim: &Arc<Claim>, whole: Whole, answer: Confirmed, resent: bool, now: Instant) {
    let queue = &claim.queue;
    let count = whole.bare + whole.entries;
    let places = claim.on_their_way();
    match answer {
        Confirmed::Done => {
            // The answer to a resend says nothing of when it was done.
            if !resent && claim.deadline() < now {
                queue.events.metrics().late_acks(count as u64);
            }
            delivered(claim, count);
            queue.recent.confirmed(now, claim.elements.iter());
        }
        // Written by the sending without an answer, or taken over since.
        Confirmed::Gone if resent && claim.is_over(now) => queue.events.metrics().unknown_acks(count as u64),
        // No other process takes over while the lease runs: it was the sending without an answer.
        Confirmed::Gone if resent => delivered(claim, count),
        Confirmed::Gone => queue.events.stale_acks(count as u64),
        // A part was taken over: what is left is confirmed one by one.
        Confirmed::Partly => {
            let one = |place| Settling { claim: claim.clone(), place, step: Move::Confirm, what: What::Confirmed };
            return drop(queue.settler.add(queue, |state| state.singles.extend(places.into_iter().map(one))));
        }
    }
    adapt(claim, count, now);
    claim.ended(places);
}

/// The bound on what is in flight follows the time that claims take.
pub(super) fn adapt(claim: &Claim, count: usize, now: Instant) {
    let queue = &claim.queue;
    let Some(adaptive) = &queue.adaptive else { return };
    let took = now.since(claim.since);
    if let Some(limit) = adaptive.answered(took, count as u64, queue.budget.used().count) {
        queue.budget.set_count_limit(limit);
    }
}
