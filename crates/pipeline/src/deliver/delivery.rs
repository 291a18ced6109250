//! Elements of one claim at all of their sinks, from the hand-over ([`outgoing`](super::outgoing)) to their verdicts.
//!
//! ```text
//! outcome = decode -> route -> deliver        verdict = judge(round)        element.settle(verdict)
//! ```
//!
//! Elements with one sink that confirms them need no more than their places in the claim, and are confirmed together. Any other
//! element is a [`ClaimedElement`] in a [`round`](super::round) of its own until the last of its sinks has answered.
//!
//! If one sink has confirmed an element and another has not within a second, that progress is written, so that a crash does not
//! deliver to the first again.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant as Timer;

use crate::claim::batch::ClaimBatch;
use crate::claim::claimed::ClaimedElement;
use crate::claim::isolation::Isolation;
use crate::deliver::answer::answer;
use crate::deliver::at_sink::AtSink;
use crate::deliver::conclude;
use crate::deliver::elements::{Delivered, ElementRound, Elements, Outgoing, SentElement};
use crate::limits::growth::Growth;
use crate::settle::VerdictWriter;
use crate::settle::verdict::{ReleaseCause, Verdict};
use crate::tail;
use delaybridge_core::message::{Outcome, lateness};

/// The time that answered elements of a batch wait for its others before they are judged: what a crash delivers twice.
const WAVE: Duration = Duration::from_millis(20);
/// The time that one sink is waited for after another has confirmed, before that is written down.
const PROGRESS_AFTER: Duration = Duration::from_secs(1);

/// Elements of a claim at the sinks of their queue. Those without an answer when it is dropped are released.
pub(super) struct ClaimDelivery {
    elements: Elements,
    sinks: Vec<AtSink>,
    /// The room of their bodies; the last of them is dropped with the delivery. Boxed, because few elements grow.
    _growth: Option<Box<Growth>>,
}

/// The elements that have left their sinks with the next answers.
pub(super) struct DeliveredWave {
    /// The places in the claim of those that are confirmed together.
    pub(super) confirmed: Vec<usize>,
    /// The other elements.
    pub(super) left: Vec<Delivered>,
    /// Whether no more answers come.
    pub(super) is_over: bool,
}

impl ClaimDelivery {
    /// Decodes, routes and hands over what is due of a batch, as far as there is room for what the elements become. The batch says
    /// what the next of them [lacks](ClaimBatch::lack). Returns the delivery, unless nothing is to be waited for.
    ///
    /// Every element is at its sink's door when this returns, as far as the door is open: two batches, each in a task of its own,
    /// could overtake each other on the way there, and elements of one Kafka partition would change places.
    pub fn begin(batch: &mut ClaimBatch) -> Option<ClaimDelivery> {
        let isolation = batch.isolation()?.clone();
        let claim = batch.claim().clone();
        let settler = batch.settler().clone();
        let probing = batch.is_probe();
        let queue = claim.queue.clone();
        let now_ms = queue.home().now_ms();
        let alone = matches!(isolation, Isolation::Alone(_));
        let Some(send_before) = claim.fresh() else {
            let mut stale = 0;
            while let Some(place) = batch.take_place(now_ms) {
                settler.leases().stale(&claim, place);
                stale += 1;
            }
            queue.events.stale_drops(stale);
            return None;
        };
        // What was on its way to a sink when the hold began is sent all the same; what waited for its due time need not be.
        let on_hold = batch.has_waited() && !probing && queue.hold().why().is_some();
        let mut start = Outgoing::new((&claim, &settler), Some(isolation), batch.about(), (now_ms, send_before));
        let mut growth = batch.take_growth();
        let mut came = 0;
        let mut grew = 0;
        while let Some(place) = batch.take_place(now_ms) {
            let made = if on_hold {
                Ok(Err(Verdict::Release { why: ReleaseCause::OnHold }))
            } else {
                start.make(&claim, place, None)
            };
            match made {
                Ok(Ok(grown)) if grown > 0 && !alone && !growth.take(grown) => {
                    // Its body is dropped: memory holds what was granted.
                    start.take_back();
                    batch.put_back(grown);
                    break;
                }
                Ok(Ok(grown)) => {
                    if grown > 0 && alone {
                        growth.take_anyway(grown);
                    }
                    came += claim.elements[place].weight() as u64;
                    grew += grown;
                    start.add(&queue, place, batch.take_probe(), &mut growth);
                }
                Ok(Err(verdict)) => start.leaves(place, batch, |element| Delivered::Decided(element, verdict)),
                Err(_panic) => {
                    start.leaves(place, batch, |element| ElementRound::new(element, Vec::new()).panics().leave())
                }
            }
        }
        queue.budget.grew(came, grew);
        let mut delivery = ClaimDelivery::of(start, growth, probing);
        let left = std::mem::take(&mut delivery.elements.left);
        if !left.is_empty() {
            left.into_iter().for_each(conclude::conclude);
            let _ = delivery.confirm(Vec::new());
        }
        (!delivery.sinks.is_empty()).then_some(delivery)
    }

    /// Brings one element of a queue in order to its sinks, and waits until it leaves them. Dropped meanwhile, it is released. In
    /// order nothing is claimed ahead, and no script delivers.
    pub(super) async fn of_one(mut element: ClaimedElement) -> Option<Delivered> {
        let queue = element.state().queue().clone();
        let claim = element.state().claim.clone();
        let mut granted = None;
        let mut delivery = loop {
            let Some(send_before) = claim.fresh() else { return Some(Delivered::Stale(element)) };
            let now_ms = queue.home().now_ms();
            let mut start = Outgoing::new((&claim, element.settler()), None, 1, (now_ms, send_before));
            let grown = match start.make_of(&mut element) {
                Ok(Ok(grown)) => grown,
                Ok(Err(verdict)) => return Some(Delivered::Decided(element, verdict)),
                Err(_panic) => return Some(ElementRound::new(element, Vec::new()).panics().leave()),
            };
            let mut growth = granted.take().unwrap_or_else(|| queue.growth());
            if grown > 0 && element.state().is_alone() {
                growth.take_anyway(grown);
            } else if grown > 0 && !growth.take(grown) {
                // Made once more when there is room.
                drop((start, growth));
                element.state().leave_shared();
                // Order: a stop goes first. Both may be left at any time.
                granted = tokio::select! {
                    biased;
                    () = queue.stopping.cancelled() => {
                        let why = ReleaseCause::Shutdown;
                        return Some(Delivered::Decided(element, Verdict::Release { why }));
                    }
                    granted = async {
                        let granted = queue.grown(grown).await;
                        element.join_shared().await;
                        granted
                    } => Some(granted),
                };
                continue;
            }
            queue.budget.grew(element.state().element.weight() as u64, grown);
            let probing = element.state().probe.is_some();
            start.add_round(element);
            break ClaimDelivery::of(start, growth, probing);
        };
        loop {
            let DeliveredWave { mut left, is_over, .. } = delivery.next_answers().await;
            if is_over || !left.is_empty() {
                return left.pop();
            }
        }
    }

    /// Hands the messages to their sinks, all at once.
    pub(super) fn of(start: Outgoing, mut growth: Growth, probing: bool) -> ClaimDelivery {
        let (elements, sinks) = start.hand_over(probing);
        let _growth = (growth.settle() > 0).then(|| Box::new(growth));
        ClaimDelivery { elements, sinks, _growth }
    }

    /// Waits for the answers, and brings every element to its verdict.
    pub async fn finish(mut self) {
        let writer = loop {
            let DeliveredWave { confirmed, left, is_over } = self.next_answers().await;
            left.into_iter().for_each(conclude::conclude);
            let writer = self.confirm(confirmed);
            // While others of the claim are at the sink, a task of its own writes.
            if is_over {
                break writer;
            }
        };
        // No element can do harm any more, so none blocks anything while it is written.
        drop(self);
        if let Some(writer) = writer {
            writer.write().await;
        }
    }

    /// Waits for the next answers. Dropped meanwhile, everything is released.
    pub(super) async fn next_answers(&mut self) -> DeliveredWave {
        let given_up = !self.wave().await;
        let confirmed = self.take_answers();
        // An answer that never comes is impossible, unless the drain has given up.
        let is_over = given_up || self.is_over();
        if is_over {
            self.elements.give_up();
        }
        DeliveredWave { confirmed, left: std::mem::take(&mut self.elements.left), is_over }
    }

    /// Passes what is confirmed, and what else is of its claim, to its verdict. It is to be written by the caller, or else by a task.
    pub(super) fn confirm(&self, places: Vec<usize>) -> Option<VerdictWriter> {
        self.elements.settler.confirmed(&self.elements.claim, places)
    }

    /// Waits for answers: all that come within a moment, or all that are left. Whether the drain has not given up. Cancel safe.
    async fn wave(&mut self) -> bool {
        if self.is_over() {
            return true;
        }
        let queue = self.elements.claim.queue.clone();
        // One element waits for no other.
        let wave = (self.elements.sent.len() > 1).then(|| Timer::now() + WAVE);
        let progress = self.progress_at();
        let until = progress.into_iter().chain(wave).min();
        let over = poll_fn(|cx| {
            if self.sinks.iter_mut().any(|sink| sink.poll(cx).is_ready()) { Poll::Ready(()) } else { Poll::Pending }
        });
        // Order: what a sink has answered counts, even if the drain's time is up. All may be left at any time.
        let goes_on = tokio::select! {
            biased;
            () = over => true,
            () = queue.abandon.cancelled() => false,
            () = tokio::time::sleep_until(until.unwrap_or_else(Timer::now)), if until.is_some() => true,
        };
        if progress.is_some() {
            self.write_progress();
        }
        goes_on
    }

    fn is_over(&self) -> bool {
        self.sinks.iter().all(AtSink::is_over)
    }

    /// Takes the answers that have come. Returns the places in the claim of the elements that are confirmed together.
    fn take_answers(&mut self) -> Vec<usize> {
        let mut confirmed = Vec::new();
        let mut sinks = std::mem::take(&mut self.sinks);
        for sink in &mut sinks {
            let answered = sink.take(&self.elements.claim.queue.routes[sink.route]);
            // Of several sinks, none has elements that are confirmed together.
            confirmed = self.confirmed(sink, answered.confirmed);
            for (at, failure) in answered.failed {
                self.answered(sink, at, Some(Err(failure)));
            }
            for at in answered.panicked {
                self.answered(sink, at, None);
            }
        }
        self.sinks = sinks;
        confirmed
    }

    /// Records that a sink has confirmed these. Returns the places in the claim of those that are confirmed together.
    fn confirmed(&mut self, sink: &mut AtSink, mut confirmed: Vec<usize>) -> Vec<usize> {
        let claim = self.elements.claim.clone();
        let queue = &claim.queue;
        let traces = claim.traces.as_deref();
        let now_ms = queue.home().now_ms();
        let watched = queue.process.events.tail().is_watched();
        let route = &queue.routes[sink.route];
        confirmed.retain_mut(|at| {
            let sent = self.elements.sent.get_mut(sink.element(*at));
            let Some((place, id)) = sent.and_then(|sent| {
                let Some(SentElement::Place { place, id }) = *sent else { return None };
                *sent = None;
                Some((place, id))
            }) else {
                self.answered(sink, *at, Some(Ok(())));
                return false;
            };
            let _ = sink.leaves(*at);
            route.metrics.attempt(&Ok(()));
            if let Some(late) = claim.elements[place].due_ms().and_then(|due_ms| lateness(due_ms, now_ms)) {
                route.metrics.late(late);
            }
            queue.history.forget(id);
            if watched {
                tail::delivered(&claim, place);
            }
            if let Some(traces) = traces {
                traces.answered(place, sink.route, None);
                traces.judged(place, Verdict::Confirm.as_str());
            }
            *at = place;
            true
        });
        if !confirmed.is_empty() {
            queue.release_hold();
        }
        confirmed
    }

    /// Records a sink's answer about one element; `None`: its work on it panicked.
    fn answered(&mut self, sink: &mut AtSink, at: usize, outcome: Option<Outcome>) {
        let element = sink.element(at);
        let Some(mut round) = self.elements.take(element) else { return };
        round.passes.extend(sink.leaves(at));
        round.destinations.push((sink.route, sink.destination(at).clone()));
        let Some(outcome) = outcome else { return self.elements.heard(element, round.panics()) };
        let state = round.element.state();
        let route = &state.queue().routes[sink.route];
        if !matches!(&outcome, Err(failure) if failure.is_stale()) {
            route.metrics.attempt(&outcome);
        }
        if let (Ok(()), Some(late)) = (&outcome, state.lateness()) {
            route.metrics.late(late);
        }
        if let Some(traces) = &state.claim.traces {
            traces.answered(state.place, sink.route, outcome.as_ref().err());
        }
        if outcome.is_ok() {
            round.progress_at.get_or_insert_with(|| Timer::now() + PROGRESS_AFTER);
        }
        let destination = sink.destination(at);
        let sent_ms = sink.sent_ms();
        round.answers.push(answer(state.queue(), sink.route, destination, outcome, &state.header, sent_ms));
        self.elements.heard(element, round);
    }

    /// Returns the time from which it is to be written down that sinks have confirmed.
    fn progress_at(&self) -> Option<Timer> {
        let at = |sent: &SentElement| match sent {
            SentElement::Round(round) => round.progress_at,
            SentElement::Place { .. } => None,
        };
        // One sink has nothing to wait for.
        let several = self.elements.claim.queue.routes.len() > 1;
        self.elements.sent.iter().filter(|_| several).flatten().filter_map(at).min()
    }

    /// Writes which sinks have confirmed, as far as it is time for that.
    fn write_progress(&mut self) {
        let now = Timer::now();
        for sent in self.elements.sent.iter_mut().flatten() {
            let SentElement::Round(round) = sent else { continue };
            if round.progress_at.take_if(|at| *at <= now).is_none() {
                continue;
            }
            let state = round.element.state();
            for answer in round.answers.iter().filter(|answer| answer.outcome.is_ok()) {
                state.header.confirm(state.claim.queue.routes[answer.sink].handle.hash);
            }
            // Those that have not answered may have it.
            state.has_left();
            // Its answer needs no action: after a refusal, the verdict is refused and counted as well.
            let _ = round.element.note_header();
        }
    }
}
