//! Keeps the leases of everything in flight: at half of its time each gets a new end. And buries the names of claims that
//! have ended, as soon as these cannot run again.
//!
//! 80 % of `lease` must exceed every sink's timeout. In the last fifth of a lease no sink receives the element or begins to
//! send it (`QueueSpec::lease_margin`, `Outbound::send_before`). One call extends all claims of a queue. After a gap longer
//! than half a lease, leases are extended before anything is claimed.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};

use crate::claim::record::Claim;
use crate::leases::Leases;
use crate::leases::extension::ExtensionCall;
use crate::leases::reconcile::reconcile;
use crate::registry::QueueRegistry;
use delaybridge_core::clock::Instant;
use delaybridge_ledger::BATCH_ENTRIES;
use delaybridge_ledger::claims::{Buried, EXTENDED, Extended};
use delaybridge_telemetry::status::Heartbeat;

/// Queues that are extended at the same time.
const PARALLEL: usize = 16;

/// Extends until the process gives up its leases.
pub async fn run(registry: Arc<QueueRegistry>, heartbeat: Heartbeat) {
    let process = registry.process().clone();
    let mut every = Duration::from_secs(1);
    let mut seen = None;
    loop {
        let changes = registry.changes();
        if seen.replace(changes) != Some(changes) {
            // Those that are about to go count as well.
            let at_work = registry.at_work().into_iter().map(|(_, queue)| queue.spec.lease);
            let shortest = registry.places().into_iter().map(|place| registry.spec(place).lease).chain(at_work).min();
            every = (shortest.unwrap_or(Duration::from_secs(30)) / 8)
                .clamp(Duration::from_millis(10), Duration::from_secs(1));
        }
        // Order: the end goes first; a sleep may be left at any time.
        tokio::select! {
            biased;
            () = process.give_up.cancelled() => return,
            () = tokio::time::sleep(every) => {}
        }
        heartbeat.beat();
        // Of a server that is away nothing can be extended, and its queues must not hold up the others.
        let busy = registry.find(|queue| !queue.leases.is_idle() && queue.home().is_up());
        let round = stream::iter(busy).for_each_concurrent(PARALLEL, |queue| async move {
            reconcile(&queue.leases).await;
            extend(&queue.leases).await;
            bury(&queue.leases).await;
        });
        tokio::select! {
            biased;
            () = process.give_up.cancelled() => return,
            () = round => {}
        }
    }
}

/// Extends every lease of the queue that has less than half of its time left. False if they are to be extended again
/// before anything else is claimed: there was no answer, it came late, or a slot is on the move.
pub async fn extend(leases: &Leases) -> bool {
    extend_all(leases, leases.queue().spec.lease / 2).await
}

/// Extends every lease that has less than `left` of its time left. `false`: some are left to the next round.
pub async fn extend_all(leases: &Leases, left: Duration) -> bool {
    for claims in leases.due(Instant::now(), left).chunks(EXTENDED) {
        if !extend_some(leases, claims).await {
            return false;
        }
    }
    true
}

/// Extends the leases of these claims. `false`: it has to be sent again. After an answer that it came late, the clock
/// of Redis is known: it is sent again once.
async fn extend_some(leases: &Leases, claims: &[Arc<Claim>]) -> bool {
    let queue = leases.queue();
    for _ in 0..2 {
        let call = ExtensionCall::begin(leases);
        let sent = call.sent;
        // What was let go of since is not extended.
        let claims: Vec<_> = claims.iter().filter(|claim| leases.contains(claim.name)).collect();
        let names: Vec<_> = claims.iter().map(|claim| claim.name).collect();
        if names.is_empty() {
            call.withdraw();
            return true;
        }
        let held = match call.extend(&names).await {
            Ok(Extended::Done { held, .. }) => held,
            Ok(Extended::Late { .. }) => continue,
            // The next round asks again. With a slot on the move the answer may be another one for each key.
            Err(problem) if problem.passes() => return false,
            // A key of a wrong type, a missing right: the claimer's to report.
            Err(_) => return true,
        };
        queue.process.events.metrics().script("extend").took(sent.elapsed());
        let mut lost = 0;
        for (claim, held) in claims.into_iter().zip(held) {
            if held { claim.extended(sent.after(queue.spec.lease)) } else { lost += claim.set_lost() as u64 }
        }
        queue.events.leases_lost(lost);
        return true;
    }
    false
}

/// Removes the names of ended claims.
pub async fn bury(leases: &Leases) {
    let queue = leases.queue();
    let now_ms = queue.home().now_ms();
    while let Some((not_after_ms, names)) = leases.take_ended(now_ms, BATCH_ENTRIES) {
        // Our idea of Redis's clock is not exact. What is not buried now is a name without elements: whoever meets it when
        // its lease is over removes it.
        match queue.store.bury(not_after_ms, &names).await {
            Ok(Buried::Done { .. }) => {}
            Ok(Buried::Wait { now_ms }) => {
                queue.home().observe(now_ms);
                names.iter().for_each(|name| leases.bury_name(*name, not_after_ms));
                return;
            }
            Err(_) => {
                names.iter().for_each(|name| leases.bury_name(*name, not_after_ms));
                return;
            }
        }
    }
}
