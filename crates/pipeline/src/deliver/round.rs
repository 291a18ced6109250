//! One round of an element at its sinks, and its verdict: when the last of them has answered the judge is asked, and everything
//! that learns from the verdict is told, before the element is settled: the history, the queue's hold, the breakers that wait for a
//! probe.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant as Timer;

use crate::claim::claimed::ClaimedElement;
use crate::claim::element::ElementState;
use crate::deliver::at_sink::Admitted;
use crate::deliver::redact::{name, redacted};
use crate::deliver::sink_handle::SinkHandle;
use crate::queue::Queue;
use crate::settle;
use crate::settle::judge::{Judged, JudgedRound, SinkAnswer};
use crate::settle::verdict::{Death, ReleaseCause, Verdict};
use delaybridge_core::message::{Class, Failure};
use delaybridge_model::RetryPolicy;
use delaybridge_sink::Destination;
use delaybridge_telemetry::attempts::FailedAttempt;

/// One round of an element at its sinks.
pub(super) struct ElementRound {
    pub(super) element: ClaimedElement,
    pub(super) answers: Vec<SinkAnswer>,
    /// The sinks that have got the element.
    pub(super) asked: Vec<usize>,
    /// The number of those that have not answered.
    pub(super) open: usize,
    /// The destinations of the element, by sink.
    pub(super) destinations: Vec<(usize, Destination)>,
    /// The places at its destinations, which the next element may take when the verdict is known.
    pub(super) passes: Vec<Admitted>,
    /// The time from which it is to be written down that a sink has confirmed.
    pub(super) progress_at: Option<Timer>,
    /// Work on the element panicked.
    pub(super) panicked: bool,
    /// The drain's time was up before the sinks had answered.
    pub(super) given_up: bool,
    /// The time until the element comes back, if a destination is in trouble and was not asked.
    pub(super) held: Option<Duration>,
}

impl ElementRound {
    /// Creates an element that these sinks get.
    pub(super) fn new(element: ClaimedElement, asked: Vec<usize>) -> Box<ElementRound> {
        Box::new(ElementRound {
            element,
            answers: Vec::new(),
            open: asked.len(),
            asked,
            destinations: Vec::new(),
            passes: Vec::new(),
            progress_at: None,
            panicked: false,
            given_up: false,
            held: None,
        })
    }

    /// Notes that work on the element panicked.
    pub(super) fn panics(mut self: Box<Self>) -> Box<Self> {
        self.panicked = true;
        let state = self.element.state();
        state.queue().events.panicked(&state.id, "deliver");
        self
    }

    /// Ends the element's round at its sinks. Returns the verdict; `None` if the lease is over: the element was not ours to send, and
    /// is not ours to settle.
    pub(super) fn leave(mut self) -> (ClaimedElement, Option<Verdict>) {
        let stale = |answer: &SinkAnswer| matches!(&answer.outcome, Err(failure) if failure.is_stale());
        let is_heard = !self.answers.is_empty() && !self.panicked && !self.given_up;
        if is_heard && self.answers.iter().all(stale) {
            return (self.element, None);
        }
        let verdict = self.judge();
        (self.element, Some(verdict))
    }

    /// Returns whether the element was to find out if a destination works again.
    pub(super) fn is_probe(&self) -> bool {
        self.passes.iter().any(Admitted::is_probe)
    }

    /// Judges what the sinks answered.
    fn judge(&mut self) -> Verdict {
        let Judged { mut verdict, confirmed, possible_duplicate } = self.ask_judge();
        let attempted = !self.asked.is_empty() || self.panicked;
        let has_left = self.may_have_left();
        let state = self.element.state();
        let queue = state.queue().clone();
        if possible_duplicate {
            queue.events.metrics().possible_duplicates(1);
            state.header.doubt = true;
        }
        note(state, &self.answers, self.panicked);
        complete(&queue, &self.destinations, &mut verdict);
        let recorded = queue.records_deliveries();
        // A delivery that is recorded has worked when its record is confirmed.
        let waits = recorded && verdict == Verdict::Confirm;
        let hold_moved = !waits && move_hold(&queue, &verdict, !self.answers.is_empty());
        answer_probe(state, &self.answers, hold_moved, recorded);
        if queue.audit.is_some() {
            let shown =
                |(place, to): &(usize, Destination)| Some((*place, name(to, &*queue.routes.get(*place)?.spec.target)));
            state.sent_to = self.destinations.iter().filter_map(shown).collect();
        }
        if verdict != Verdict::Confirm || recorded {
            record(state, &confirmed, attempted, has_left);
        }
        verdict
    }

    fn ask_judge(&mut self) -> Judged {
        let probe = self.is_probe();
        let ElementRound { element, answers, asked, panicked, given_up, held, .. } = self;
        let state = element.state();
        let queue = state.queue();
        let header = &state.header;
        let unanswered = |place: &usize| answers.iter().all(|answer| answer.sink != *place);
        let round = JudgedRound {
            passed_over: &state.passed_over,
            confirmed: queue.routes.iter().map(|route| header.confirmed.contains(&route.handle.hash)).collect(),
            answers,
            counted: header.attempts,
            probe: state.probe.is_some() || probe,
            panicked: *panicked,
            stopping: *given_up,
            held: *held,
            abandoned: *given_up && asked.iter().any(unanswered),
        };
        let policy = &queue.spec.retry;
        match queue.store.tries(&state.element).filter(|tries| *tries < policy.max_attempts) {
            Some(max_attempts) => {
                settle::judge::judge(round, &RetryPolicy { max_attempts, ..**policy }, fastrand::f64())
            }
            None => settle::judge::judge(round, policy, fastrand::f64()),
        }
    }

    /// Returns whether any of it may have left this process in this round.
    fn may_have_left(&self) -> bool {
        let stayed = |answer: &SinkAnswer| {
            answer.outcome.as_ref().is_err_and(|failure| failure.is_unsent() || failure.is_stale())
        };
        self.panicked || self.given_up || !self.answers.iter().all(stayed)
    }
}

/// Ends an element that needs no answer of a sink with this verdict, and reports that.
pub(super) fn decided(mut element: ClaimedElement, verdict: Verdict) -> (ClaimedElement, Option<Verdict>) {
    if let Verdict::Release { why: ReleaseCause::Hold { sink, failure } } = &verdict {
        let state = element.state();
        hold(state.queue(), *sink, failure);
        if let Some(probe) = state.probe.take() {
            probe.answered(true, |_| false);
        }
    }
    // Otherwise a probe stays with the element: the script says whether an element that it pushes was delivered, and
    // what is decided here says nothing about a sink.
    (element, Some(verdict))
}

/// Adds to a verdict where the element was to go, as far as it may be shown.
fn complete(queue: &Queue, destinations: &[(usize, Destination)], verdict: &mut Verdict) {
    let of = |sink: usize| {
        let (_, destination) = destinations.iter().find(|(place, _)| *place == sink)?;
        Some((destination, &*queue.routes.get(sink)?.spec.target))
    };
    match verdict {
        Verdict::Dead(Death { sink: Some(sink), destination, failure, shown, .. }) => {
            let Some((found, target)) = of(*sink) else { return };
            *destination = Some(found.to_string());
            *shown = failure.as_ref().map(|failure| Box::new(redacted(failure, found, target)));
        }
        // What is held is shown to all; the element keeps its destination to itself.
        Verdict::Release { why: ReleaseCause::Hold { sink: Some(sink), failure } } => {
            let Some((found, target)) = of(*sink) else { return };
            *failure = redacted(failure, found, target);
        }
        _ => {}
    }
}

/// Notes the result of this round in the entry, for every verdict that keeps or reports the entry.
fn record(state: &mut ElementState, confirmed: &[bool], attempted: bool, has_left: bool) {
    if has_left {
        state.has_left();
    }
    let now_ms = state.queue().home().now_ms();
    let queue = state.queue().clone();
    let header = &mut state.header;
    for (route, _) in queue.routes.iter().zip(confirmed).filter(|(_, confirmed)| **confirmed) {
        header.confirm(route.handle.hash);
    }
    if attempted {
        header.last_attempt_ms = now_ms;
    }
    // What did not leave the process is no attempt that anything can be left of.
    if has_left && header.first_attempt_ms == 0 {
        header.first_attempt_ms = now_ms;
    }
}

/// Ends the probe at each breaker that has seen an answer; a question that was given up is asked again. `recorded`: the
/// trail is still to be asked.
fn answer_probe(state: &mut ElementState, answers: &[SinkAnswer], hold_moved: bool, recorded: bool) {
    let Some(mut probe) = state.probe.take() else { return };
    let said = |answer: &&SinkAnswer| !matches!(&answer.outcome, Err(failure) if failure.is_stale());
    let seen = |handle: &SinkHandle| {
        answers.iter().filter(said).any(|answer| state.queue().routes[answer.sink].handle.hash == handle.hash)
    };
    probe.saw(hold_moved, seen);
    state.probe = recorded.then_some(probe);
}

fn note(state: &ElementState, answers: &[SinkAnswer], panicked: bool) {
    let at_ms = state.queue().home().now_ms();
    for answer in answers {
        if let Err(failure) = &answer.outcome {
            let sink = state.queue().routes[answer.sink].spec.sink.to_string();
            state
                .queue()
                .history
                .note(state.id.id, FailedAttempt { at_ms, sink, class: failure.class, code: failure.code });
        }
    }
    if panicked {
        let attempt = FailedAttempt { at_ms, sink: String::new(), class: Class::Unknown, code: settle::judge::PANIC };
        state.queue().history.note(state.id.id, attempt);
    }
}

/// Lets the queue's hold see the verdict; whether it learned something from it.
fn move_hold(queue: &Arc<Queue>, verdict: &Verdict, asked: bool) -> bool {
    let inconclusive = |class| {
        queue.hold_learns_nothing(class);
        true
    };
    match verdict {
        Verdict::Confirm => {
            queue.release_hold();
            true
        }
        Verdict::Release { why: ReleaseCause::Hold { sink, failure } } => {
            hold(queue, *sink, failure);
            true
        }
        Verdict::Retry { class, .. } => inconclusive(*class),
        Verdict::Dead { .. } => inconclusive(Class::MessagePermanent),
        // Its destination alone refused it.
        Verdict::Release { why: ReleaseCause::Destination { .. } } if asked => inconclusive(Class::MessagePermanent),
        // Whether a push worked, the script will say.
        Verdict::Push { .. } | Verdict::Release { .. } | Verdict::Gone | Verdict::Skipped | Verdict::Return { .. } => {
            false
        }
    }
}

fn hold(queue: &Queue, sink: Option<usize>, failure: &Failure) {
    let sink = sink.and_then(|place| queue.routes.get(place)).map(|route| &*route.spec.sink);
    queue.hold_because(sink, failure);
}
