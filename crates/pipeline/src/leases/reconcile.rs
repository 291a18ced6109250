//! Claims in hand after Redis may have forgotten writes: a replica that was behind has taken over, or a server came back with older
//! data. What left a claim may be under its name again, and what is in hand may be gone.
//!
//! So before anything more is settled there, each claim is compared with what is under its name. What every sink has confirmed is
//! removed again. What was moved elsewhere goes to the retries once more, marked as possibly delivered, so that it is claimed at
//! once. A queue in order leaves it to its claimer, which has to stop what is behind it first
//! (`claim/claimer/order.rs`).

use crate::claim::differences::ClaimDifferences;
use crate::claim::record::{Claim, takes_neighbours_along};
use crate::leases::Leases;
use crate::queue::Queue;
use delaybridge_ledger::StoreError;
use delaybridge_ledger::claims::{Element, SettleCommand, SettleOp};
use delaybridge_link::History;
use delaybridge_telemetry::labels::Wakeup;

/// The outcome of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reconciled {
    /// All claims in hand are known in the history that the server has now.
    Known,
    /// There was no answer, or none now: to be asked again.
    Again,
}

/// Compares the claims in hand that were made in another history than the server has now. Costs a look at one lock where there are
/// none.
pub async fn reconcile(leases: &Leases) -> Reconciled {
    let Some(history) = leases.queue().home().history() else { return Reconciled::Again };
    if leases.are_known_in(history) || takes_neighbours_along() {
        return Reconciled::Known;
    }
    // Boxed, because it is rare.
    Box::pin(compare_all(leases, history)).await
}

async fn compare_all(leases: &Leases, history: History) -> Reconciled {
    let queue = leases.queue();
    let _turn = leases.reconciling.lock().await;
    for claim in leases.unknown_in(history) {
        match compare(queue, &claim).await {
            Ok(()) => claim.known_in(history),
            Err(problem) if problem.passes() => return Reconciled::Again,
            // A key of a wrong type, a missing right: the settler reports it, and says when it is over. Verdicts name what they are
            // about, so they do no harm to what was not compared.
            Err(_) => claim.known_in(history),
        }
    }
    match queue.home().history() {
        Some(now) if now == history => {
            leases.set_known_in(history);
            Reconciled::Known
        }
        _ => Reconciled::Again,
    }
}

async fn compare(queue: &Queue, claim: &Claim) -> Result<(), StoreError> {
    let contents = queue.store.contents(claim.name).await?;
    let mut elements = contents.elements;
    elements.extend(contents.damaged);
    let ClaimDifferences { confirmed, returned, missing } = claim.differences(elements);
    let back = if queue.spec.order.is_some() { Vec::new() } else { returned };
    let verdicts = verdicts(claim, &confirmed, &back);
    // First: if the answer is lost, the next comparison finds them gone.
    queue.events.returned(back.len() as u64);
    if !verdicts.is_empty() {
        queue.store.settle(&verdicts, None, None).await?;
    }
    let ids: Vec<_> = missing.iter().map(|place| queue.store.open_element(&claim.elements[*place]).0).collect();
    queue.events.missing(&ids);
    if !back.is_empty() {
        queue.alarm.ring(Wakeup::Reconnect);
    }
    Ok(())
}

/// Returns the verdicts on elements that are under the name of a claim again.
fn verdicts(claim: &Claim, confirmed: &[Element], back: &[Element]) -> Vec<SettleCommand> {
    let again = confirmed.iter().map(|element| SettleCommand {
        claim: claim.name,
        part: element.part(),
        member: element.member.clone(),
        step: SettleOp::Confirm,
        body: element.body_bytes().cloned(),
    });
    // Behind the places of the claim, so that no header of it is like one of these.
    let places = claim.elements.len()..;
    let back = places
        .zip(back)
        .map(|(place, element)| SettleCommand::release(claim.name, claim.name.number, place, element).doubtful(true));
    again.chain(back).collect()
}
