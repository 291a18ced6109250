//! What the reply to a claim brings: elements to take over, and what it says about ghosts, clocks, and entries of ours.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::clock::Instant;
use crate::pipeline::claim::{Claim, Isolation};
use crate::pipeline::gate::Probe;
use crate::pipeline::limits::reserved::Reserved;
use crate::pipeline::queue::Queue;
use crate::source::ledger::{ClaimKey, Claimed, ClaimedFrom, Entry};
use crate::telemetry::labels::ClaimLabel;

/// Whether something is due that the claim did not take.
pub fn more_is_due(claimed: &Claimed) -> bool {
    claimed.more || claimed.next_ms.is_some_and(|next| next <= claimed.now_ms)
}

/// What the due times show about the producers' clocks: see [`Queue::saw_nothing_due`].
pub fn look_at_due_times(queue: &Queue, claimed: &Claimed, nothing_due_ms: i64) {
    let delayed = claimed.entries.iter().filter(|(from, _)| *from == ClaimedFrom::Delayed);
    for due_ms in delayed.filter_map(|(_, entry)| entry.header.due_ms()) {
        let by = nothing_due_ms.saturating_sub(due_ms);
        if by > 0 {
            queue.events.metrics().offered_overdue(Duration::from_millis(by.unsigned_abs()));
        }
    }
    if !more_is_due(claimed) {
        queue.saw_nothing_due(claimed.now_ms);
    }
}

/// Reports what cannot be read, and what a sweep of the list would find; asks for a sweep if it is time for one.
pub fn note(queue: &Queue, claimed: &Claimed) {
    if claimed.unknown > 0 {
        queue.events.unknown_entries(claimed.unknown);
    }
    let (metrics, leftovers) = (queue.events.metrics(), &claimed.leftovers);
    if let Some(terms) = queue.store.terms().filter(|_| leftovers.count > 0 || metrics.has_gauges()) {
        metrics.leftovers(terms, leftovers.count, leftovers.oldest);
    }
    let full = queue.process.redis_nearly_full.load(Ordering::Relaxed);
    if leftovers.want_turn(queue.spec.source.leftover_max_age(), more_is_due(claimed) && !full) {
        queue.sweep_due.store(true, Ordering::Relaxed);
    }
}

/// Takes up the elements under a lease that ends at `deadline`, with what the claim was made with. What is not needed of
/// that is released.
pub fn accept(
    queue: &Arc<Queue>,
    entries: Vec<(ClaimedFrom, Entry)>,
    deadline: Instant,
    (mut room, isolation, mut probe): (Reserved, Isolation, Option<Probe>),
) -> Vec<Claim> {
    let metrics = queue.events.metrics();
    let worn = entries.iter().filter(|(from, _)| *from == ClaimedFrom::Exhausted).count() as u64;
    let mut claims = Vec::with_capacity(entries.len());
    let mut counts = [0u64; ClaimLabel::ALL.len()];
    for (from, entry) in entries {
        let room = room.split(entry.member.len() as u64);
        counts[label(from) as usize] += 1;
        if let Some(mut claim) = Claim::accept(queue, from, entry, deadline, room, isolation.clone()) {
            if let Some(probe) = probe.take() {
                claim = claim.with_probe(probe);
            }
            claims.push(claim);
        }
    }
    for &label in ClaimLabel::ALL {
        if counts[label as usize] > 0 {
            metrics.claimed(label, counts[label as usize]);
        }
    }
    // The owner of the expired lease may have delivered it.
    metrics.possible_duplicates(counts[ClaimLabel::Expired as usize] - worn);
    claims
}

fn label(from: ClaimedFrom) -> ClaimLabel {
    match from {
        ClaimedFrom::Delayed => ClaimLabel::Delayed,
        ClaimedFrom::Ready => ClaimLabel::Ready,
        ClaimedFrom::Retry => ClaimLabel::Retry,
        ClaimedFrom::Expired | ClaimedFrom::Exhausted => ClaimLabel::Expired,
    }
}

/// Entries of this process with an expired lease, which the claim has renewed. Returns the claims of those
/// that are not here.
pub fn extend_own(queue: &Queue, own: &[ClaimKey], deadline: Instant) -> Vec<u64> {
    let mut strays: Vec<u64> = Vec::new();
    for &key in own {
        match queue.leases.contains(key) {
            true => queue.leases.extended(key, deadline),
            false if !strays.contains(&key.claim) => strays.push(key.claim),
            false => {}
        }
    }
    strays
}
