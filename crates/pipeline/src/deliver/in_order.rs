//! A queue in order: an element goes to its sinks when the one before it, in the queue or with the same key, has its verdict.
//!
//! The elements of a key that are in hand wait in their [`KeyQueues`], in the order of their claims. One task delivers those of a
//! key, one after the other. A failed element is tried again in its place, under its lease, with its attempts written into the
//! claim; so nothing overtakes it. What has to go back to Redis takes everything in hand with it: it comes back in due order,
//! and the claimer waits until all of it is written, so that no later element is claimed in between.
//!
//! The claim script takes and renews a lease in the state hash, which never ends before a lease of its owner's claims,
//! because `extend` and the takeover move both. A new owner therefore finds all claims of the former owner expired, and
//! delivers nothing before it has taken over all of them (`KeyQueues::gather`).

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{FutureExt, join_all};
use xxhash_rust::xxh3::xxh3_64;

use crate::audit;
use crate::claim::batch::ClaimBatch;
use crate::claim::claimed::ClaimedElement;
use crate::deliver::conclude;
use crate::deliver::delivery::ClaimDelivery;
use crate::deliver::elements::Delivered;
use crate::deliver::key_queues::KeyQueues;
use crate::deliver::outbound::{self, ElementView};
use crate::settle::verdict::{ReleaseCause, Verdict};
use delaybridge_core::clock::Instant;
use delaybridge_model::Ordered;

/// Puts the elements of a batch into the queues of their keys, in due order, and begins to deliver those that are the first there.
/// Returns what delivers the rest.
pub fn begin(queues: &Arc<KeyQueues>, batch: ClaimBatch) -> impl Future<Output = ()> + use<> {
    let mut work = Vec::new();
    for mut element in batch {
        if !element.state().has_room() {
            // Its key is in its body, which was not read. What comes behind it must not be delivered before.
            queues.return_new();
        }
        if queues.returns() {
            // Something before it goes back.
            continue;
        }
        // It waits without the guard, which an element that must be alone would wait for.
        element.state().leave_shared();
        let key = key_of(&mut element);
        if queues.push(key, element) {
            let mut delivery = Box::pin(deliver(queues.clone(), key));
            // At once, while its payload is decoded. Unconstrained: the runtime would let only so many of them get anywhere.
            if tokio::task::unconstrained(&mut delivery).now_or_never().is_none() {
                work.push(delivery);
            }
        }
    }
    join_all(work).map(drop)
}

/// The key of an element. One that cannot be read or routed has its own: it is decided without a sink.
fn key_of(held: &mut ClaimedElement) -> u64 {
    let state = held.state();
    let queue = state.queue().clone();
    let Some(Ordered::Key(template)) = queue.spec.order.as_deref() else { return 0 };
    let own = u64::from_be_bytes(state.id.id.0);
    let subject = ElementView::of(state);
    let Some(payload) = outbound::peeked(&subject) else { return own };
    let key = match template {
        Some(template) => outbound::text(&subject, &payload, template).map_or(own, |key| xxh3_64(key.as_bytes())),
        None => {
            let destination = outbound::destination(&subject, &payload);
            destination.as_ref().and_then(|destination| destination.record_key()).map_or(own, xxh3_64)
        }
    };
    state.decoded = payload.keep();
    key
}

/// Delivers the elements of a key until none is left.
async fn deliver(queues: Arc<KeyQueues>, key: u64) {
    let line = KeyQueue { queues, key };
    let context = line.queues.context().clone();
    // Order: a stop goes first. Both may be left at any time.
    tokio::select! {
        biased;
        () = context.stopping.cancelled() => {}
        () = line.queues.gathered() => {}
    }
    while let Some(element) = line.queues.next(key) {
        one(&line.queues, element).await;
        context.progress.moves();
    }
}

/// The elements of a key, while a task delivers them. What a panic or the end of the process leaves goes back.
struct KeyQueue {
    queues: Arc<KeyQueues>,
    key: u64,
}

impl Drop for KeyQueue {
    fn drop(&mut self) {
        let mut left = 0;
        while let Some(element) = self.queues.next(self.key) {
            drop(element);
            left += 1;
        }
        if left > 0 {
            self.queues.return_all();
        }
    }
}

/// Brings one element to its verdict.
async fn one(queues: &KeyQueues, mut element: ClaimedElement) {
    let queue = queues.context();
    loop {
        if queues.returns_all() || queue.stopping.is_cancelled() {
            return drop(element);
        }
        element.state().join_shared().await;
        let verdict;
        (element, verdict) = match ClaimDelivery::of_one(element).await {
            Some(Delivered::Answered(round)) => conclude::judge(*round),
            Some(Delivered::Decided(mut element, verdict)) => {
                conclude::decided(&mut element, &verdict);
                (element, verdict)
            }
            // Not sent, because too little of the lease is left. It goes back, as all that is behind it: left to a lease that
            // still runs, it would be overtaken by the next claim. Where another owner has it, Redis refuses the verdict.
            Some(Delivered::Stale(element)) => {
                queue.events.stale_drops(1);
                drop(element);
                return queues.return_all();
            }
            None => return queues.return_all(),
        };
        let Some(verdict) = audit::recorded(&mut element, verdict).await else {
            element.drop_stale();
            return queues.return_all();
        };
        let wait = match verdict {
            Verdict::Retry { after, counted, class, code } => {
                let header = &mut element.state().header;
                header.attempts = header.attempts.saturating_add(counted.into());
                header.set_failure(class, code);
                if !element.write_header().await {
                    drop(element);
                    return queues.return_all();
                }
                after
            }
            // Another element may be for a destination that works, and must not be the next.
            Verdict::Release { why: ReleaseCause::Destination { after } } => after,
            Verdict::Release { .. } => {
                element.settle(verdict);
                return queues.return_all();
            }
            verdict => {
                let (settler, claim) = (element.settler().clone(), element.state().claim.clone());
                element.settle(verdict);
                return settler.flush_soon(&claim);
            }
        };
        element.state().leave_shared();
        let until = Instant::now().after(wait);
        loop {
            let left = until.since(Instant::now());
            if left.is_zero() {
                break;
            }
            // Order: a return or a stop goes first; a sleep may be left at any time. Not longer than a second: the runtime's clock
            // stops while the machine is suspended, ours does not.
            tokio::select! {
                biased;
                () = queues.returning_all() => break,
                () = queue.stopping.cancelled() => break,
                () = tokio::time::sleep(left.min(Duration::from_secs(1))) => {}
            }
        }
        // While something holds the queue up, it is not ours to try: a probe finds out.
        if !queue.is_open() && !queue.stopping.is_cancelled() {
            element.settle(Verdict::Release { why: ReleaseCause::OnHold });
            return queues.return_all();
        }
    }
}
