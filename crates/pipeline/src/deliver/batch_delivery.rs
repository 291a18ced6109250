//! The common way of a claim: one sink, and every element goes there at once. Its elements are decoded, routed and handed
//! over in a loop, and its confirmations are written together. An element that has anything else to hear than "confirmed"
//! leaves this way, and is a [`ClaimedElement`] of its own from there.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use crate::claim::batch::ClaimBatch;
use crate::claim::claimed::ClaimedElement;
use crate::claim::isolation::Isolation;
use crate::claim::record::Claim;
use crate::deliver::answer::answer;
use crate::deliver::conclude;
use crate::deliver::delivery::SinkDelivery;
use crate::deliver::outbound::{self, ElementView};
use crate::deliver::pass::{Admitted, Decision, Decisions, pass};
use crate::deliver::result::RoundResult;
use crate::limits::growth::Growth;
use crate::queue::{Queue, SinkRoute};
use crate::settle::verdict::Verdict;
use crate::settle::{Settler, VerdictWriter};
use crate::tail;
use delaybridge_core::clock::Instant;
use delaybridge_core::message::{Failure, MessageId, lateness};
use delaybridge_sink::Outbound;

/// Elements of a claim at the one sink of their queue. Those without an answer when it is dropped are released.
pub struct BatchDelivery {
    claim: Arc<Claim>,
    settler: Arc<Settler>,
    isolation: Isolation,
    delivery: SinkDelivery,
    /// The elements in the batch at the sink, by their places there; `None` when answered.
    sent: Vec<Option<SentElement>>,
    /// Boxed, because few claims have any of it.
    rare: Option<Box<Rare>>,
}

/// The beginning of a delivery.
pub struct Started {
    /// The elements that were handed over; `None` if nothing is to be waited for.
    pub delivery: Option<BatchDelivery>,
    /// The bytes that the next element of the batch grows by, if there is no room for them. The rest of the batch is to be begun
    /// when there is.
    pub missing_bytes: Option<u64>,
}

/// The state that few deliveries have.
struct Rare {
    /// The places of the elements at their destinations, where these differ; else none.
    passes: Vec<Option<Admitted>>,
    /// The room of their bodies; the last of them is dropped with the delivery.
    _growth: Growth,
}

/// An element at the sink.
struct SentElement {
    /// The place of the element in the claim.
    place: usize,
    id: MessageId,
}

/// Whether the elements of this batch go the common way.
pub fn is_common(batch: &ClaimBatch) -> bool {
    let (claim, queue) = (batch.claim(), &batch.claim().queue);
    queue.routes.len() == 1
        && queue.spec.claim_ahead.is_zero()
        && queue.exactly_once().is_none()
        && !batch.is_probe()
        && !claim.name.is_exhausted()
}

impl BatchDelivery {
    /// Decodes, routes and hands over, as far as there is room for what the elements become.
    pub fn begin(batch: &mut ClaimBatch) -> Started {
        let mut missing_bytes = None;
        let delivery = BatchDelivery::of(batch, &mut missing_bytes);
        Started { delivery, missing_bytes }
    }

    fn of(batch: &mut ClaimBatch, missing_bytes: &mut Option<u64>) -> Option<BatchDelivery> {
        let (claim, settler) = (batch.claim().clone(), batch.settler().clone());
        let isolation = batch.isolation()?.clone();
        let queue = claim.queue.clone();
        let route = queue.routes.first()?;
        let Some(send_before) = claim.fresh() else {
            let mut stale = 0;
            while let Some(place) = batch.take_place() {
                settler.leases().stale(&claim, place);
                stale += 1;
            }
            queue.events.stale_drops(stale);
            return None;
        };
        let now_ms = queue.home().now_ms();
        let alone = matches!(isolation, Isolation::Alone(_));
        let (mut messages, mut sent) = (Vec::with_capacity(batch.about()), Vec::with_capacity(batch.about()));
        let (mut growth, mut came) = (batch.take_growth(), 0);
        while let Some(place) = batch.take_place() {
            let made = std::panic::catch_unwind(AssertUnwindSafe(|| message(&claim, place, now_ms, send_before)));
            match made {
                Ok(Ok((message, grown))) => {
                    if grown > 0 && alone {
                        growth.take_anyway(grown);
                    } else if grown > 0 && !growth.take(grown) {
                        // Its body is dropped: memory holds what was granted.
                        batch.put_back();
                        *missing_bytes = Some(grown);
                        break;
                    }
                    came += claim.elements[place].weight() as u64;
                    sent.push(Some(SentElement { place, id: message.id.id }));
                    messages.push(message);
                }
                Ok(Err(verdict)) => {
                    leave(&settler, &claim, place, &isolation, |held| conclude::without_sinks(held, verdict))
                }
                Err(_panic) => leave(&settler, &claim, place, &isolation, |mut held| {
                    queue.events.panicked(&held.state().id, "deliver");
                    conclude::by_answers(held, RoundResult { panicked: true, ..RoundResult::default() });
                }),
            }
        }
        let grew = growth.settle();
        queue.budget.grew(came, grew);
        let mut passes = Vec::new();
        match pass(&queue, route, false, messages.iter()) {
            Decisions::All => {}
            // The breaker opened after the claim: it is not thrown at a sink that is down.
            Decisions::None => {
                let back =
                    |sent: SentElement| leave(&settler, &claim, sent.place, &isolation, |held| not_asked(held, None));
                sent.drain(..).flatten().for_each(back);
                messages.clear();
            }
            Decisions::Each(entries) => {
                let mut all = std::mem::take(&mut sent).into_iter().flatten();
                let mut entries = entries.into_iter();
                messages.retain(|_| match (all.next(), entries.next()) {
                    (Some(go), Some(Decision::Go(pass))) => {
                        sent.push(Some(go));
                        passes.push(Some(pass));
                        true
                    }
                    (Some(back), Some(Decision::Back(wait))) => {
                        leave(&settler, &claim, back.place, &isolation, |held| not_asked(held, Some(wait)));
                        false
                    }
                    _ => unreachable!("each message has a place and an entry"),
                });
            }
        }
        let first = messages.first()?;
        let one = route.only(&first.destination).filter(|_| !route.handle.has_parts(&first.destination));
        let delivery = SinkDelivery::begin(&route.handle, messages, route.spec.target.clone(), one);
        let rare = (grew > 0 || !passes.is_empty()).then(|| Box::new(Rare { passes, _growth: growth }));
        Some(BatchDelivery { claim, settler, isolation, delivery, sent, rare })
    }

    /// Waits for the answers, and brings every element to its verdict.
    pub async fn finish(mut self) {
        let queue = self.claim.queue.clone();
        let Some(route) = queue.routes.first() else { return };
        let writer = loop {
            // Order: what a sink has answered counts, even if the drain's time is up.
            let answered = tokio::select! {
                biased;
                answered = self.delivery.wave() => answered,
                () = queue.abandon.cancelled() => break None,
            };
            let Some(answered) = answered else { break None };
            let writer = self.confirmed(&queue, route, &answered.confirmed);
            for (at, failure) in answered.failed {
                self.failed(route, at, failure);
            }
            for at in answered.panicked {
                self.end(at, |mut held| {
                    queue.events.panicked(&held.state().id, "deliver");
                    conclude::by_answers(
                        held,
                        RoundResult { asked: vec![0], panicked: true, ..RoundResult::default() },
                    );
                });
            }
            // While others of the claim are at the sink, a task of its own writes.
            if self.delivery.is_over() {
                break writer;
            }
        };
        // Given up by the drain. An answer that never comes is impossible otherwise.
        for at in 0..self.sent.len() {
            let found = RoundResult { asked: vec![0], given_up: true, ..RoundResult::default() };
            self.end(at, |held| conclude::by_answers(held, found));
        }
        // No element can do harm any more, so none blocks anything while it is written.
        drop(self);
        if let Some(writer) = writer {
            writer.write().await;
        }
    }

    /// Takes an element out of the batch, if it is still in it.
    fn take(&mut self, at: usize) -> Option<(SentElement, Option<Admitted>)> {
        let sent = self.sent.get_mut(at)?.take()?;
        let pass = self.rare.as_mut().and_then(|rare| rare.passes.get_mut(at)?.take());
        Some((sent, pass))
    }

    /// Ends the common way of an element that has no answer.
    fn end(&mut self, at: usize, then: impl FnOnce(ClaimedElement)) {
        if let Some((sent, _pass)) = self.take(at) {
            leave(&self.settler, &self.claim, sent.place, &self.isolation, then);
        }
    }

    fn confirmed(&mut self, queue: &Queue, route: &SinkRoute, confirmed: &[usize]) -> Option<VerdictWriter> {
        if confirmed.is_empty() {
            return None;
        }
        let (now_ms, watched) = (queue.home().now_ms(), queue.process.events.tail().is_watched());
        let mut places = Vec::with_capacity(confirmed.len());
        for at in confirmed {
            let Some((sent, _pass)) = self.take(*at) else { continue };
            let element = &self.claim.elements[sent.place];
            route.metrics.attempt(&Ok(()));
            if let Some(late) = element.due_ms().and_then(|due_ms| lateness(due_ms, now_ms)) {
                route.metrics.late(late);
            }
            queue.history.forget(sent.id);
            if watched {
                tail::delivered(&self.claim, sent.place);
            }
            if let Some(traces) = &self.claim.traces {
                traces.answered(sent.place, 0, None);
                traces.judged(sent.place, Verdict::Confirm.as_str());
            }
            places.push(sent.place);
        }
        queue.release_hold();
        self.settler.confirmed_now(&self.claim, places)
    }

    fn failed(&mut self, route: &SinkRoute, at: usize, failure: Failure) {
        let Some((sent, pass)) = self.take(at) else { return };
        let (sent_ms, destination) = (self.delivery.sent_ms(), self.delivery.destination(at).clone());
        if let Some(traces) = &self.claim.traces {
            traces.answered(sent.place, 0, Some(&failure));
        }
        leave(&self.settler, &self.claim, sent.place, &self.isolation, |mut held| {
            if failure.is_stale() {
                return held.drop_stale();
            }
            let outcome = Err(failure);
            route.metrics.attempt(&outcome);
            let state = held.state();
            let answers = vec![answer(state.queue(), 0, &destination, outcome, &state.header, sent_ms)];
            let probe = pass.as_ref().is_some_and(Admitted::is_probe);
            let (asked, destinations) = (vec![0], vec![(0, destination)]);
            conclude::by_answers(held, RoundResult { answers, asked, destinations, probe, ..RoundResult::default() });
        });
        // Its verdict is known: the next one may ask the destination.
        drop(pass);
    }
}

impl Drop for BatchDelivery {
    fn drop(&mut self) {
        for sent in self.sent.iter_mut().filter_map(Option::take) {
            leave(&self.settler, &self.claim, sent.place, &self.isolation, |mut held| held.state().header.doubt = true);
        }
    }
}

/// No sink was asked; `wait`: because the destination is in trouble.
fn not_asked(held: ClaimedElement, wait: Option<Duration>) {
    conclude::by_answers(held, RoundResult { held: wait, ..RoundResult::default() });
}

/// An element leaves the common way.
fn leave(
    settler: &Arc<Settler>,
    claim: &Arc<Claim>,
    place: usize,
    isolation: &Isolation,
    then: impl FnOnce(ClaimedElement),
) {
    if let Some(held) = ClaimedElement::new(settler, claim, place, Some(isolation.clone()), None) {
        then(held);
    }
}

/// The element on its way to the one sink of its queue, with what it grew by; or its verdict without a sink.
fn message(claim: &Claim, place: usize, now_ms: i64, send_before: Instant) -> Result<(Outbound, u64), Verdict> {
    let element = &claim.elements[place];
    let (id, payload) = claim.queue.store.open_element(element);
    let (due_ms, attempts, topic) = (element.due_ms(), element.attempts(), claim.queue.store.topic(element));
    let doubt = element.is_doubtful();
    let subject = ElementView { claim, id: &id, payload: &payload, due_ms, attempts, doubt, topic, place };
    let payload = outbound::readable(&subject)?;
    let message = outbound::message(&subject, &payload, 0, now_ms, send_before)
        .map_err(|failure| outbound::unroutable(0, failure))?;
    let grown = outbound::growth(&subject, &message, 0);
    Ok((message, grown))
}
