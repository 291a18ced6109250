//! A queue in order: an element goes to its sinks when the one before it, in the queue or with the same key, has its verdict, or
//! together with it, where the sink keeps their order.
//!
//! The elements in hand wait in their [`KeyQueues`], in the order of their claims. Consecutive elements of a claim go together in a
//! [`run`](super::run). On the first failure everything of its key behind it is taken back, and delivered one by one, as far as it
//! was in the run. At a sink where the keys of a run would wait for each other, the first element of each key goes together with
//! those of other keys, and the next one when that has its verdict.
//!
//! A failed element is tried again in its place, under its lease, with its attempts written into the claim; so
//! nothing overtakes it. What has to go back to Redis takes everything in hand with it: it comes back in due order, and the claimer
//! waits until all of it is written, so that no later element is claimed in between.
//!
//! The claim script takes and renews a lease in the state hash, which never ends before a lease of its owner's claims,
//! because `extend` and the takeover move both. A new owner therefore finds all claims of the former owner expired, and
//! delivers nothing before it has taken over all of them (`KeyQueues::gather`).

use std::sync::Arc;

use foldhash::HashMap;
use futures_util::future::{BoxFuture, FutureExt, join_all};
use xxhash_rust::xxh3::xxh3_64;

use crate::claim::batch::ClaimBatch;
use crate::claim::claimed::ClaimedElement;
use crate::claim::isolation::Isolation;
use crate::claim::record::Claim;
use crate::deliver::key_queues::{KeyInHand, KeyQueues, NextOfKey};
use crate::deliver::one_by_one;
use crate::deliver::outbound::{self, ElementView};
use crate::deliver::run;
use crate::deliver::together::Together;
use crate::settle::verdict::Verdict;
use delaybridge_ledger::NoPayload;
use delaybridge_model::{Ordered, Payload};

/// The delivery of elements of some keys.
type Work = BoxFuture<'static, ()>;

/// Puts the elements of a batch into the queues of their keys, in due order, and begins to deliver those that are the first there.
/// Returns what delivers the rest.
pub fn begin(queues: &Arc<KeyQueues>, mut batch: ClaimBatch) -> Work {
    let claim = batch.claim().clone();
    let mut hands = Vec::new();
    while let Some(mut element) = take(&mut batch) {
        let Some((key, decoded)) = key_of(&claim, element.place()) else {
            // Its key is in its body, which was not read. What comes behind it must not be delivered before.
            queues.return_new();
            continue;
        };
        if queues.returns() {
            // Something before it goes back.
            continue;
        }
        element.decoded = decoded;
        hands.extend(queues.push(key, element));
    }
    if queues.is_gathering() {
        return go_on(queues.clone(), hands);
    }
    let mut work = Vec::new();
    for mut delivery in start(hands) {
        // At once, while its payload is decoded. Unconstrained: the runtime would let only so many of them get anywhere.
        if tokio::task::unconstrained(&mut delivery).now_or_never().is_none() {
            work.push(delivery);
        }
    }
    join_all(work).map(drop).boxed()
}

/// Takes the next element of a batch.
fn take(batch: &mut ClaimBatch) -> Option<ClaimedElement> {
    if batch.is_alone() || batch.is_probe() {
        let mut element = batch.next()?;
        // It waits without the guard, which an element that must be alone would wait for.
        element.state().leave_shared();
        return Some(element);
    }
    let place = batch.take_place(batch.claim().queue.home().now_ms())?;
    Some(ClaimedElement::new(batch.settler(), batch.claim(), place))
}

/// Returns the key of an element, and its payload if it was decoded for that. One that cannot be read or routed has its
/// own key: it is decided without a sink. `None`: its body was not read.
fn key_of(claim: &Claim, place: usize) -> Option<(u64, Option<Box<Payload>>)> {
    let queue = &claim.queue;
    let (id, payload) = queue.store.open_element(&claim.elements[place]);
    if matches!(payload, Err(NoPayload::NoRoom)) {
        return None;
    }
    let Some(Ordered::Key(template)) = queue.spec.order.as_deref() else { return Some((0, None)) };
    let own = u64::from_be_bytes(id.id.0);
    let subject = ElementView::at(claim, place, &id, &payload);
    let Some(payload) = outbound::peeked(&subject) else { return Some((own, None)) };
    let key = match template {
        Some(template) => outbound::text(&subject, &payload, template).map_or(own, |key| xxh3_64(key.as_bytes())),
        None => {
            let destination = outbound::destination(&subject, &payload);
            destination.as_ref().and_then(|destination| destination.record_key()).map_or(own, xxh3_64)
        }
    };
    Some((key, payload.keep()))
}

/// Delivers what is next of each of these keys, when it may begin.
fn go_on(queues: Arc<KeyQueues>, hands: Vec<KeyInHand>) -> Work {
    let go_on = async move {
        // Order: a stop goes first. Both may be left at any time.
        tokio::select! {
            biased;
            () = queues.context().stopping.cancelled() => {}
            () = queues.gathered() => {}
        }
        join_all(start(hands)).await;
    };
    go_on.boxed()
}

/// Takes what is next of each of these keys. Returns what delivers it.
fn start(hands: Vec<KeyInHand>) -> Vec<Work> {
    let mut work = Vec::new();
    let mut runs = Vec::<RunInHand>::new();
    for hand in hands {
        let (hand, claim, elements) = match hand.next() {
            None => continue,
            Some((hand, NextOfKey::Alone(element))) => {
                work.push(by_itself(hand, element, None));
                continue;
            }
            Some((hand, NextOfKey::Run(claim, elements))) => (hand, claim, elements),
        };
        let at = runs.iter().position(|run| Arc::ptr_eq(&run.claim, &claim)).unwrap_or_else(|| {
            runs.push(RunInHand { claim, hands: Vec::new(), elements: Vec::new() });
            runs.len() - 1
        });
        let run = &mut runs[at];
        run.elements.extend(elements.into_iter().map(|element| (run.hands.len(), element)));
        run.hands.push(hand);
    }
    work.extend(runs.into_iter().map(|run| run.deliver().boxed()));
    work
}

/// Delivers elements of a key one by one, this one first, as far as they cannot go together.
fn by_itself(hand: KeyInHand, element: ClaimedElement, verdict: Option<Verdict>) -> Work {
    let by_itself = async move {
        let queues = hand.queues().clone();
        if let Some(hand) = one_by_one::deliver(hand, element, verdict).await {
            queues.context().spawn("relay", go_on(queues.clone(), vec![hand]));
        }
    };
    by_itself.boxed()
}

/// Elements of one claim that are to be sent together.
struct RunInHand {
    claim: Arc<Claim>,
    /// The elements, with the places of their keys in `hands`. Dropped before these: with its key, all of it has come to rest.
    elements: Vec<(usize, ClaimedElement)>,
    hands: Vec<KeyInHand>,
}

/// A key of a run at the sink.
struct KeyOfRun {
    /// The number of its elements that have not left the sink.
    open: usize,
    /// The elements of it that have failed, with their places in the run. Dropped before the key, as above.
    failed: Vec<(usize, ClaimedElement, Verdict)>,
    hand: KeyInHand,
}

impl RunInHand {
    /// Sends the run. What fails of it, and what is behind that with the same key, is delivered one by one, each in its place.
    async fn deliver(self) {
        let RunInHand { claim, hands, elements } = self;
        let Some(queues) = hands.first().map(|hand| hand.queues().clone()) else { return };
        let isolation = Isolation::of(&queues.context().process, false).await;
        // On lines, the keys go on together, in another run. Else each goes on when its one element is answered.
        let in_lines = queues.together() == Together::Runs;
        let Some((delivery, sent)) = run::begin(&claim, &hands, elements, isolation, in_lines) else {
            queues.context().progress.moves();
            return go_on_with(&queues, hands, Vec::new());
        };
        let key_of = |hand| Some(KeyOfRun { hand, open: 0, failed: Vec::new() });
        let mut keys: Vec<Option<KeyOfRun>> = hands.into_iter().map(key_of).collect();
        for (_, key) in &sent {
            keys[*key].iter_mut().for_each(|key| key.open += 1);
        }
        // By the places of the elements in the claim.
        let of_run: HashMap<_, _> = sent.into_iter().enumerate().map(|(at, (place, key))| (place, (at, key))).collect();
        // Behind the keys, so that it is dropped before them.
        let mut delivery = delivery;
        let mut is_over = false;
        loop {
            if is_over || !in_lines {
                // At the end also those of which something was stale: it goes back, with everything that waits.
                let done = keys.iter_mut().filter_map(|key| key.take_if(|key| is_over || key.open == 0));
                go_on_after(&queues, done.collect());
            }
            if is_over {
                return;
            }
            let wave = delivery.next_answers().await;
            is_over = wave.is_over;
            for place in &wave.confirmed {
                let _ = leave(&of_run, &mut keys, *place);
            }
            let _ = delivery.confirm(wave.confirmed);
            let mut stale = Vec::new();
            for (mut element, verdict) in wave.left {
                let Some(verdict) = verdict else {
                    stale.push(element);
                    continue;
                };
                element.state().leave_shared();
                if let Some((at, key)) = leave(&of_run, &mut keys, element.place()) {
                    key.failed.push((at, element, verdict));
                }
            }
            if !stale.is_empty() {
                queues.return_stale(stale);
            }
            queues.context().progress.moves();
        }
    }
}

/// Counts one element less at the sink, by its place in the claim. Returns its place in the run, and its key.
fn leave<'a>(
    of_run: &HashMap<usize, (usize, usize)>,
    keys: &'a mut [Option<KeyOfRun>],
    place: usize,
) -> Option<(usize, &'a mut KeyOfRun)> {
    let (at, key) = of_run.get(&place)?;
    let key = keys[*key].as_mut()?;
    key.open -= 1;
    Some((*at, key))
}

/// Goes on with these keys: with what has failed of them, and else with what is next.
fn go_on_after(queues: &Arc<KeyQueues>, keys: Vec<KeyOfRun>) {
    let mut work = Vec::new();
    let mut hands = Vec::new();
    for KeyOfRun { hand, mut failed, .. } in keys {
        failed.sort_by_key(|(at, ..)| *at);
        let mut failed = failed.into_iter();
        let Some((_, element, verdict)) = failed.next() else {
            hands.push(hand);
            continue;
        };
        // What is behind a failed one was not sent, or may have been: it says so itself by now.
        failed.rev().for_each(|(_, behind, _)| hand.put_back(behind));
        work.push(by_itself(hand, element, Some(verdict)));
    }
    go_on_with(queues, hands, work);
}

/// Goes on with these keys, and with this work, in a task of its own.
fn go_on_with(queues: &Arc<KeyQueues>, hands: Vec<KeyInHand>, mut work: Vec<Work>) {
    match queues.is_gathering() {
        true if !hands.is_empty() => work.push(go_on(queues.clone(), hands)),
        _ => work.extend(start(hands)),
    }
    if !work.is_empty() {
        queues.context().spawn("relay", join_all(work).map(drop));
    }
}
