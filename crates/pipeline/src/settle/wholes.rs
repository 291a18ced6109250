//! Claims that end as a whole: every element that was ever under their names was confirmed, and one command removes them all.

use std::sync::Arc;
use std::time::Duration;

use crate::claim::record::Claim;
use crate::settle::send::{look, ready};
use crate::settle::settler::Settler;
use crate::settle::singles::finish_confirmed;
use delaybridge_core::clock::Instant;
use delaybridge_ledger::Answer;
use delaybridge_ledger::claims::Confirmed;

/// Beyond the longest call, what has to be left of a lease: clocks run apart.
const MARGIN: Duration = Duration::from_secs(1);

impl Settler {
    /// Writes these until there is an answer. A claim that may not go by its name any more is confirmed element by element: its lease
    /// may be over, and a part of it another process's; or the server may have forgotten what left it.
    pub(super) async fn write_wholes(self: &Arc<Self>, mut claims: Vec<Arc<Claim>>) {
        let leases = self.leases();
        let queue = leases.queue();
        let script = queue.process.events.metrics().script("confirm");
        let mut resent = false;
        let mut reported = false;
        while !claims.is_empty() {
            ready(leases).await;
            let sent = Instant::now();
            let until = sent.after(queue.home().call_timeout() + MARGIN);
            let mut wholes = Vec::new();
            claims.retain(|claim| match claim.whole(until) {
                Some(whole) => {
                    wholes.push(whole);
                    true
                }
                None => {
                    let _ = self.confirm_each(claim, claim.on_their_way(), resent);
                    false
                }
            });
            if wholes.is_empty() {
                break;
            }
            let answer = queue.store.confirm(&wholes).await;
            if let Some(answers) = look(queue, answer, &mut resent, &mut reported).await {
                script.took(sent.elapsed());
                let answered = Instant::now();
                for (claim, answer) in claims.iter().zip(answers) {
                    // What is gone was removed by a sending without an answer, or taken over.
                    let answer = match answer {
                        Confirmed::Done => Answer::Done,
                        Confirmed::Gone => Answer::NotMine,
                    };
                    let places = claim.on_their_way();
                    let answers = places.iter().map(|place| (*place, answer));
                    finish_confirmed(leases, claim, answers, resent, answered);
                }
                break;
            }
        }
    }
}
