//! What the reply to a claim brings: elements to take over, and what it says about ghosts, clocks, and entries of ours.

use std::time::Duration;

use crate::active::ActiveQueue;
use crate::claim::batch::ClaimBatch;
use crate::claim::isolation::Isolation;
use crate::claim::record::ClaimContents;
use crate::gate::GateProbe;
use crate::limits::reserved::RoomReserved;
use crate::queue::Queue;
use delaybridge_core::clock::Instant;
use delaybridge_core::message::Origin;
use delaybridge_ledger::claims::Claimed;
use delaybridge_telemetry::labels::ClaimLabel;

/// Returns whether something is due that the claim did not take.
pub fn more_is_due(claimed: &Claimed) -> bool {
    claimed.more || claimed.next_ms.is_some_and(|next| next <= claimed.now_ms)
}

/// Notes what the due times show about the producers' clocks: see [`Queue::saw_nothing_due`].
pub fn look_at_due_times(queue: &Queue, claimed: &Claimed, nothing_due_ms: i64) {
    let delayed = claimed.elements.iter().filter(|element| element.header.is_none());
    for due_ms in delayed.filter_map(|element| element.due_ms()) {
        let by = nothing_due_ms.saturating_sub(due_ms);
        if by > 0 {
            queue.events.metrics().offered_overdue(Duration::from_millis(by.unsigned_abs()));
        }
    }
    if !more_is_due(claimed) {
        queue.saw_nothing_due(claimed.now_ms);
    }
}

/// Counts elements that may be delivered twice: after a failover that lost writes, what was confirmed here is claimed
/// as if for the first time.
pub fn look_for_repeats(queue: &ActiveQueue, claimed: &Claimed) {
    queue.recent.answered(Instant::now(), queue.home().history(), || queue.leases.hashes());
    queue.events.metrics().possible_duplicates(queue.recent.met(claimed.elements.iter()));
}

/// Adds damaged entries to the elements, which makes dead letters of them (R8). Other unreadable entries are left to
/// the newer version that wrote them.
pub fn take_damaged(claimed: &mut Claimed) {
    let damaged = std::mem::take(&mut claimed.damaged);
    claimed.unknown = claimed.unknown.saturating_sub(damaged.len() as u64);
    claimed.unreadable = claimed.unreadable.saturating_sub(damaged.len() as u64);
    claimed.retried += damaged.len();
    claimed.elements.splice(0..0, damaged);
}

/// Reports what cannot be read, and what a sweep of the list would find; asks for a sweep if it is time for one.
pub fn note(queue: &Queue, claimed: &Claimed) {
    if claimed.unknown > 0 {
        queue.events.unknown_entries(claimed.unknown);
    }
    // Where the claim did not look, the gauges do.
    let (metrics, Some(leftovers)) = (queue.events.metrics(), &claimed.leftovers) else { return };
    if let Some(terms) = queue.store.metric_names() {
        metrics.leftovers(terms, leftovers.count, leftovers.oldest);
    }
    let full = queue.home().is_nearly_full();
    if leftovers.want_turn(queue.spec.source.leftover_max_age(), more_is_due(claimed) && !full) {
        queue.want_upkeep();
    }
}

/// Takes up what a claim or takeover took.
pub fn accept(
    queue: &ActiveQueue,
    taken: ClaimContents,
    retried: usize,
    (room, isolation, probe): (RoomReserved, Isolation, Option<GateProbe>),
) -> Option<ClaimBatch> {
    let name = taken.name;
    let elements = &taken.elements;
    if elements.is_empty() {
        return None;
    }
    let metrics = queue.events.metrics();
    let count = |label, n: usize| {
        if n > 0 {
            metrics.claimed(label, n as u64);
        }
    };
    if name.expiries > 0 {
        count(ClaimLabel::Expired, elements.len());
        if !name.is_exhausted() {
            // The owner of the expired lease may have delivered them.
            metrics.possible_duplicates(elements.len() as u64);
        }
    } else {
        let of_source = &elements[retried.min(elements.len())..];
        let ready = of_source.iter().filter(|element| element.origin() == Origin::Ready).count();
        count(ClaimLabel::Retry, retried);
        count(ClaimLabel::Ready, ready);
        count(ClaimLabel::Delayed, of_source.len() - ready);
    }
    let claim = queue.leases.take_up(taken, room);
    Some(ClaimBatch::new(queue.settler.clone(), claim, isolation, probe))
}
