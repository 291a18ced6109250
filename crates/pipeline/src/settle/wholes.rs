//! Claims that end as a whole: every element that was ever under their names was confirmed, and one command removes them all.

use std::sync::Arc;
use std::time::Duration;

use crate::claim::record::Claim;
use crate::leases::Leases;
use crate::settle::send::{Tried, delivered, look, ready};
use crate::settle::settler::{Complete, Settler};
use delaybridge_core::clock::Instant;
use delaybridge_ledger::claims::{Confirmed, Whole};

/// Beyond the longest call, what has to be left of a lease: clocks run apart.
const MARGIN: Duration = Duration::from_secs(1);

impl Settler {
    /// Writes these until there is an answer. A claim that may not go by its name any more is confirmed element by element: its lease
    /// may be over, and a part of it another process's; or the server may have forgotten what left it.
    pub(super) async fn write_wholes(self: &Arc<Self>, mut wholes: Vec<Complete>) {
        let leases = self.leases();
        let queue = leases.queue();
        let script = queue.process.events.metrics().script("confirm");
        let mut resent = false;
        let mut reported = false;
        while !wholes.is_empty() {
            ready(leases).await;
            let sent = Instant::now();
            let until = sent.after(queue.home().call_timeout() + MARGIN);
            let (now, later): (Vec<_>, Vec<_>) = wholes.into_iter().partition(|(claim, _)| claim.may_end_whole(until));
            for (claim, _) in later {
                let _ = self.confirm_each(&claim, claim.on_their_way(), resent);
            }
            let names: Vec<Whole> = now.iter().map(|(_, whole)| *whole).collect();
            if names.is_empty() {
                break;
            }
            match look(queue, queue.store.confirm(&names).await, &mut reported).await {
                Tried::Answered(answers) => {
                    script.took(sent.elapsed());
                    let answered = Instant::now();
                    for ((claim, whole), answer) in now.into_iter().zip(answers) {
                        finish(leases, &claim, whole, answer, resent, answered);
                    }
                    break;
                }
                // Of several commands some may have been done before one was refused.
                Tried::Unknown | Tried::Refused => resent = true,
                Tried::NotSent => {}
            }
            wholes = now;
        }
    }
}

fn finish(leases: &Leases, claim: &Claim, whole: Whole, answer: Confirmed, resent: bool, now: Instant) {
    let queue = leases.queue();
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
    }
    queue.adapt(now.since(claim.since), count);
    leases.ended(claim, places);
}
