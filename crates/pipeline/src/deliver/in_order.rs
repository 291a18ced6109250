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
use redisson_codecs::Payload;
use xxhash_rust::xxh3::xxh3_64;

use crate::claim::batch::ClaimBatch;
use crate::claim::claimed::ClaimedElement;
use crate::claim::isolation::Isolation;
use crate::claim::record::Claim;
use crate::deliver::conclude;
use crate::deliver::delivery::DeliveredWave;
use crate::deliver::elements::Delivered;
use crate::deliver::key_queues::{KeyInHand, KeyQueues, NextOfKey};
use crate::deliver::one_by_one;
use crate::deliver::outbound::{self, ElementView};
use crate::deliver::run::{self, RunElements, SentRun};
use crate::deliver::together::Together;
use crate::settle::verdict::Verdict;
use delaybridge_model::Ordered;
use delaybridge_source::NoPayload;

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
    hands: Vec<KeyInHand>,
    /// The elements, with the places of their keys in `hands`.
    elements: RunElements,
}

/// An element that failed in a run.
struct FailedInRun {
    /// The place in the run.
    at: usize,
    /// The key, as the run has it.
    key: usize,
    element: ClaimedElement,
    verdict: Verdict,
}

impl RunInHand {
    /// Sends the run. What fails of it, and what is behind that with the same key, is delivered one by one, each in its place.
    async fn deliver(self) {
        let Some(queues) = self.hands.first().map(|hand| hand.queues().clone()) else { return };
        let isolation = Isolation::of(&queues.context().process, false).await;
        match queues.together() {
            Together::Runs => self.in_order(queues, isolation).await,
            Together::FirstOfKeys | Together::Never => self.of_keys(queues, isolation).await,
        }
    }

    /// Sends the run to a sink that keeps the order, and returns or judges what failed.
    async fn in_order(self, queues: Arc<KeyQueues>, isolation: Isolation) {
        let RunInHand { claim, hands, elements } = self;
        let failed = match run::begin(&claim, &hands, elements, isolation, true) {
            Some(SentRun { delivery, sent }) => failures(&queues, &sent, delivery.finish_run().await),
            None => Vec::new(),
        };
        queues.context().progress.moves();
        let mut heads: Vec<Option<(ClaimedElement, Verdict)>> = hands.iter().map(|_| None).collect();
        for FailedInRun { key, mut element, verdict, .. } in failed.into_iter().rev() {
            // What is behind a failed one was not sent, or may have been: it says so itself by now.
            element.state().leave_shared();
            if let Some((behind, _)) = heads[key].replace((element, verdict)) {
                hands[key].put_back(behind);
            }
        }
        let mut work = Vec::new();
        let mut others = Vec::new();
        for (hand, head) in hands.into_iter().zip(heads) {
            match head {
                Some((element, verdict)) => work.push(by_itself(hand, element, Some(verdict))),
                None => others.push(hand),
            }
        }
        go_on_with(&queues, others, work);
    }

    /// Sends a run in which each element has a key of its own. Each key goes on when its element is answered.
    async fn of_keys(self, queues: Arc<KeyQueues>, isolation: Isolation) {
        let RunInHand { claim, hands, elements } = self;
        let run = run::begin(&claim, &hands, elements, isolation, false);
        let mut hands: Vec<Option<KeyInHand>> = hands.into_iter().map(Some).collect();
        let Some(SentRun { mut delivery, sent }) = run else {
            queues.context().progress.moves();
            return go_on_with(&queues, hands.into_iter().flatten().collect(), Vec::new());
        };
        let at_sink: HashMap<usize, usize> = sent.iter().copied().collect();
        let mut is_at_sink = vec![false; hands.len()];
        sent.iter().for_each(|(_, key)| is_at_sink[*key] = true);
        let mut others: Vec<_> = hands
            .iter_mut()
            .zip(is_at_sink)
            .filter(|(_, is_at_sink)| !is_at_sink)
            .filter_map(|(hand, _)| hand.take())
            .collect();
        loop {
            if !others.is_empty() {
                go_on_with(&queues, std::mem::take(&mut others), Vec::new());
            }
            let DeliveredWave { confirmed, left, is_over } = delivery.next_answers().await;
            others.extend(confirmed.iter().filter_map(|place| hands[*at_sink.get(place)?].take()));
            let _ = delivery.confirm(confirmed);
            let mut work = Vec::new();
            for FailedInRun { key, mut element, verdict, .. } in failures(&queues, &sent, left) {
                element.state().leave_shared();
                work.extend(hands[key].take().map(|hand| by_itself(hand, element, Some(verdict))));
            }
            queues.context().progress.moves();
            if is_over {
                // Those that were stale go back, with everything that waits.
                others.extend(hands.into_iter().flatten());
                return go_on_with(&queues, others, work);
            }
            go_on_with(&queues, Vec::new(), work);
        }
    }
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

/// Returns the elements that a run has left in hand, with their verdicts, in their order. One that was stale at the
/// sink goes back, and everything in hand with it.
fn failures(queues: &KeyQueues, sent: &[(usize, usize)], left: Vec<Delivered>) -> Vec<FailedInRun> {
    if left.is_empty() {
        return Vec::new();
    }
    let of_run: HashMap<usize, (usize, usize)> =
        sent.iter().enumerate().map(|(at, (place, key))| (*place, (at, *key))).collect();
    let mut failed = Vec::new();
    let mut stale = 0;
    for delivered in left {
        // Dropped, one that is stale is released.
        let Ok((element, verdict)) = conclude::judged(delivered) else {
            stale += 1;
            continue;
        };
        // Each was sent.
        let Some(&(at, key)) = of_run.get(&element.place()) else { continue };
        failed.push(FailedInRun { at, key, element, verdict });
    }
    if stale > 0 {
        queues.context().events.stale_drops(stale);
        queues.return_all();
    }
    failed.sort_by_key(|failed| failed.at);
    failed
}
