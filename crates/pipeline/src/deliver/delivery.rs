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
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant as Timer;

use crate::audit;
use crate::claim::claimed::ClaimedElement;
use crate::claim::isolation::Isolation;
use crate::claim::record::Claim;
use crate::deliver::answer::answer;
use crate::deliver::at_sink::AtSink;
use crate::deliver::round::ElementRound;
use crate::gate::GateProbe;
use crate::limits::growth::Growth;
use crate::settle::verdict::Verdict;
use crate::settle::{Settler, VerdictWriter};
use crate::tail;
use delaybridge_core::message::{MessageId, Outcome, lateness};

/// The time that answered elements of a batch wait for its others before they are judged: what a crash delivers twice.
const WAVE: Duration = Duration::from_millis(20);
/// The time that one sink is waited for after another has confirmed, before that is written down.
const PROGRESS_AFTER: Duration = Duration::from_secs(1);

/// Elements of a claim at the sinks of their queue. Those without an answer when it is dropped are released.
pub(super) struct ClaimDelivery {
    pub(super) claim: Arc<Claim>,
    pub(super) settler: Arc<Settler>,
    /// The guard of those that are no [`ClaimedElement`] yet.
    pub(super) isolation: Option<Isolation>,
    /// The elements; `None` when all of their sinks have answered.
    pub(super) sent: Vec<Option<SentElement>>,
    /// The elements that have left, with their verdicts. None: the lease is over.
    pub(super) left: Vec<(ClaimedElement, Option<Verdict>)>,
    pub(super) sinks: Vec<AtSink>,
    /// The room of their bodies; the last of them is dropped with the delivery. Boxed, because few elements grow.
    pub(super) growth: Option<Box<Growth>>,
}

/// An element at its sinks.
pub(super) enum SentElement {
    /// At the one sink of its queue, to be confirmed together with others.
    Place { place: usize, id: MessageId },
    /// At several sinks, or by itself.
    Round(Box<ElementRound>),
}

/// The elements that have left their sinks with the next answers.
pub(super) struct DeliveredWave {
    /// The places in the claim of those that are confirmed together.
    pub(super) confirmed: Vec<usize>,
    /// The other elements, with their verdicts. None: the lease is over.
    pub(super) left: Vec<(ClaimedElement, Option<Verdict>)>,
    /// Whether no more answers come.
    pub(super) is_over: bool,
}

impl ClaimDelivery {
    /// Returns the element at this place of the claim, by itself.
    pub(super) fn claimed(&self, place: usize, probe: Option<GateProbe>) -> ClaimedElement {
        ClaimedElement::new(&self.settler, &self.claim, place).by_itself(self.isolation.clone(), probe)
    }

    /// Takes an element that is at its sinks, by itself from here on.
    fn take(&mut self, element: usize) -> Option<Box<ElementRound>> {
        match self.sent.get_mut(element)?.take()? {
            SentElement::Place { place, .. } => Some(ElementRound::new(self.claimed(place, None), vec![0])),
            SentElement::Round(round) => Some(round),
        }
    }

    /// Removes a sink from those that are asked about an element; `wait`: because the destination is in trouble.
    pub(super) fn not_asked(&mut self, element: usize, sink: usize, wait: Option<Duration>) {
        let Some(mut round) = self.take(element) else { return };
        round.asked.retain(|asked| *asked != sink);
        round.held = round.held.max(wait);
        self.heard(element, round);
    }

    /// Counts one answer less to wait for, and lets the element leave after the last.
    fn heard(&mut self, element: usize, mut round: Box<ElementRound>) {
        round.open -= 1;
        match round.open {
            0 => self.left.push(round.leave()),
            _ => self.sent[element] = Some(SentElement::Round(round)),
        }
    }

    /// Gives up what has no answer.
    fn give_up(&mut self) {
        for element in 0..self.sent.len() {
            let Some(mut round) = self.take(element) else { continue };
            round.given_up = true;
            self.left.push(round.leave());
        }
        self.sent.clear();
    }

    /// Waits for the answers, and brings every element to its verdict.
    pub async fn finish(mut self) {
        let writer = loop {
            let DeliveredWave { confirmed, left, is_over } = self.next_answers().await;
            left.into_iter().for_each(|(element, verdict)| audit::settle(element, verdict));
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
            self.give_up();
        }
        DeliveredWave { confirmed, left: std::mem::take(&mut self.left), is_over }
    }

    /// Passes what is confirmed, and what else is of its claim, to its verdict. It is to be written by the caller, or else by a task.
    pub(super) fn confirm(&self, places: Vec<usize>) -> Option<VerdictWriter> {
        self.settler.confirmed(&self.claim, places, true)
    }

    /// Waits for answers: all that come within a moment, or all that are left. Whether the drain has not given up. Cancel safe.
    async fn wave(&mut self) -> bool {
        if self.is_over() {
            return true;
        }
        let queue = self.claim.queue.clone();
        // One element waits for no other.
        let wave = (self.sent.len() > 1).then(|| Timer::now() + WAVE);
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
            let answered = sink.take(&self.claim.queue.routes[sink.route]);
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
        let claim = self.claim.clone();
        let queue = &claim.queue;
        let traces = claim.traces.as_deref();
        let now_ms = queue.home().now_ms();
        let watched = queue.process.events.tail().is_watched();
        let route = &queue.routes[sink.route];
        confirmed.retain_mut(|at| {
            let sent = self.sent.get_mut(sink.element(*at));
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
        let Some(mut round) = self.take(element) else { return };
        round.passes.extend(sink.leaves(at));
        round.destinations.push((sink.route, sink.destination(at).clone()));
        let Some(outcome) = outcome else { return self.heard(element, round.panics()) };
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
        self.heard(element, round);
    }

    /// Returns the time from which it is to be written down that sinks have confirmed.
    fn progress_at(&self) -> Option<Timer> {
        let at = |sent: &SentElement| match sent {
            SentElement::Round(round) => round.progress_at,
            SentElement::Place { .. } => None,
        };
        // One sink has nothing to wait for.
        let several = self.claim.queue.routes.len() > 1;
        self.sent.iter().filter(|_| several).flatten().filter_map(at).min()
    }

    /// Writes which sinks have confirmed, as far as it is time for that.
    fn write_progress(&mut self) {
        let now = Timer::now();
        for sent in self.sent.iter_mut().flatten() {
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

impl Drop for ClaimDelivery {
    fn drop(&mut self) {
        for element in 0..self.sent.len() {
            if let Some(mut round) = self.take(element) {
                let state = round.element.state();
                state.header.doubt = true;
                state.has_left();
            }
        }
    }
}
