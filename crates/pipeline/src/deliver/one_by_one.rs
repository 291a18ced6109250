//! The elements of a key that cannot go to their sinks together with others: each is delivered when the one before it has its
//! verdict.

use std::time::Duration;

use crate::audit;
use crate::claim::claimed::ClaimedElement;
use crate::deliver::key_queues::{KeyInHand, KeyQueues, NextOfKey};
use crate::deliver::outgoing;
use crate::settle::verdict::{ReleaseCause, Verdict};
use delaybridge_core::clock::Instant;

/// Brings elements of a key to their verdicts, this one first, until none is left, or the next may go together with others: then
/// the key is returned. `verdict`: what the sink's answer means, if the element was sent already.
pub(super) async fn deliver(
    mut hand: KeyInHand,
    mut element: ClaimedElement,
    mut verdict: Option<Verdict>,
) -> Option<KeyInHand> {
    let queues = hand.queues().clone();
    loop {
        one(&queues, element, verdict.take()).await;
        queues.context().progress.moves();
        (hand, element) = match hand.next()? {
            (hand, NextOfKey::Alone(element)) => (hand, element),
            (hand, NextOfKey::Run(_, elements)) => {
                elements.into_iter().rev().for_each(|element| hand.put_back(element));
                return Some(hand);
            }
        };
    }
}

/// Brings one element to its verdict.
async fn one(queues: &KeyQueues, mut element: ClaimedElement, mut answered: Option<Verdict>) {
    let queue = queues.context();
    loop {
        let judged = match answered.take() {
            Some(verdict) => Some((element, verdict)),
            None => attempt(queues, element).await,
        };
        let Some((judged, verdict)) = judged else { return };
        element = judged;
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
            verdict => return element.settle_soon(verdict),
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

/// Sends an element to its sinks, and judges their answers. `None`: it goes back, as everything in hand.
async fn attempt(queues: &KeyQueues, mut element: ClaimedElement) -> Option<(ClaimedElement, Verdict)> {
    let queue = queues.context();
    if queues.returns_all() || queue.stopping.is_cancelled() {
        return None;
    }
    element.join_shared().await;
    match outgoing::of_one(element).await {
        Some((element, Some(verdict))) => return Some((element, verdict)),
        Some((stale, None)) => queues.return_stale(vec![stale]),
        None => queues.return_all(),
    }
    None
}
