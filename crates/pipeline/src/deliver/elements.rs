//! The elements of a delivery: what goes to which sink of each of them, and how it leaves its sinks.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use delaybridge_model::Payload;
use tokio::time::Instant as Timer;

use crate::claim::batch::ClaimBatch;
use crate::claim::claimed::ClaimedElement;
use crate::claim::isolation::Isolation;
use crate::claim::record::Claim;
use crate::deliver::at_sink::{Admitted, AtSink, Outbox};
use crate::deliver::outbound::{self, ElementView};
use crate::gate::GateProbe;
use crate::limits::growth::Growth;
use crate::queue::{Queue, SinkRoute};
use crate::settle::Settler;
use crate::settle::judge::SinkAnswer;
use crate::settle::verdict::Verdict;
use delaybridge_core::clock::Instant;
use delaybridge_core::message::MessageId;
use delaybridge_ledger::claims::RECORD_PENDING;
use delaybridge_link::Side;
use delaybridge_sink::Destination;

/// The elements of a delivery. Those that are at their sinks when it is dropped are released.
pub(super) struct Elements {
    pub(super) claim: Arc<Claim>,
    pub(super) settler: Arc<Settler>,
    /// The guard of those that are no [`ClaimedElement`] yet.
    pub(super) isolation: Option<Isolation>,
    /// The elements; `None` when all of their sinks have answered.
    pub(super) sent: Vec<Option<SentElement>>,
    /// The elements that have left.
    pub(super) left: Vec<Delivered>,
}

/// An element at its sinks.
pub(super) enum SentElement {
    /// At the one sink of its queue, to be confirmed together with others.
    Place { place: usize, id: MessageId },
    /// At several sinks, or by itself.
    Round(Box<ElementRound>),
}

/// An element that has left its sinks, without a verdict of the judge.
pub(super) enum Delivered {
    /// The sinks have answered, or were not asked.
    Answered(Box<ElementRound>),
    /// The verdict is there without a sink.
    Decided(ClaimedElement, Verdict),
    /// The lease is over: the element is not ours to send, and not ours to settle.
    Stale(ClaimedElement),
}

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

impl Elements {
    /// Returns the element at this place of the claim, by itself.
    pub(super) fn claimed(&self, place: usize, probe: Option<GateProbe>) -> ClaimedElement {
        ClaimedElement::new(&self.settler, &self.claim, place).by_itself(self.isolation.clone(), probe)
    }

    /// Takes an element that is at its sinks, by itself from here on.
    pub(super) fn take(&mut self, element: usize) -> Option<Box<ElementRound>> {
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
    pub(super) fn heard(&mut self, element: usize, mut round: Box<ElementRound>) {
        round.open -= 1;
        match round.open {
            0 => self.left.push(round.leave()),
            _ => self.sent[element] = Some(SentElement::Round(round)),
        }
    }

    /// Gives up what has no answer.
    pub(super) fn give_up(&mut self) {
        for element in 0..self.sent.len() {
            let Some(mut round) = self.take(element) else { continue };
            round.given_up = true;
            self.left.push(round.leave());
        }
        self.sent.clear();
    }
}

impl Drop for Elements {
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

    /// Ends the element's round at its sinks.
    pub(super) fn leave(self: Box<Self>) -> Delivered {
        let stale = |answer: &SinkAnswer| matches!(&answer.outcome, Err(failure) if failure.is_stale());
        let is_heard = !self.answers.is_empty() && !self.panicked && !self.given_up;
        if is_heard && self.answers.iter().all(stale) {
            Delivered::Stale(self.element)
        } else {
            Delivered::Answered(self)
        }
    }

    /// Returns whether the element was to find out if a destination works again.
    pub(super) fn is_probe(&self) -> bool {
        self.passes.iter().any(Admitted::is_probe)
    }
}

/// The beginning of a delivery: messages that are not handed over yet.
pub(super) struct Outgoing {
    elements: Elements,
    /// The messages for the first sink.
    first: Outbox,
    /// The messages for the others. Nearly every queue has one sink.
    others: Vec<Outbox>,
    /// The sinks that are not meant for the element of the messages that were made last.
    passed_over: Vec<usize>,
    /// The end of the list that the settling script pushes to, if it delivers.
    push: Option<Side>,
    now_ms: i64,
    send_before: Instant,
}

/// By how much its messages make an element grow, or the verdict that it needs none; an error if work on it panicked.
pub(super) type Made = std::thread::Result<Result<u64, Verdict>>;

impl Outgoing {
    pub(super) fn new(
        (claim, settler): (&Arc<Claim>, &Arc<Settler>),
        isolation: Option<Isolation>,
        about: usize,
        (now_ms, send_before): (i64, Instant),
    ) -> Outgoing {
        let others = claim.queue.routes.iter().skip(1).map(|_| Outbox::default()).collect();
        let mut first = Outbox::default();
        first.messages.reserve_exact(about);
        let claim = claim.clone();
        let settler = settler.clone();
        let sent = Vec::with_capacity(about);
        let elements = Elements { claim, settler, isolation, sent, left: Vec::new() };
        let push = elements.claim.queue.exactly_once().map(|(_, side)| side);
        Outgoing { elements, first, others, passed_over: Vec::new(), push, now_ms, send_before }
    }

    /// Makes the messages of the element at this place of the claim.
    pub(super) fn make(&mut self, claim: &Claim, place: usize, decoded: Option<Box<Payload>>) -> Made {
        let element = &claim.elements[place];
        let (id, payload) = claim.queue.store.open_element(element);
        let subject = ElementView::at(claim, place, &id, &payload);
        let confirmed = element.header.as_ref().map_or(&[][..], |header| &header.confirmed);
        self.fill(&subject, confirmed, decoded)
    }

    /// Makes the messages of an element by itself.
    pub(super) fn make_of(&mut self, element: &mut ClaimedElement) -> Made {
        let decoded = element.decoded.take();
        let state = element.state();
        self.fill(&ElementView::of(state), &state.header.confirmed, decoded)
    }

    /// Makes the messages of an element for the sinks that are meant for it and have not confirmed it. One that only sinks have
    /// confirmed that are not meant for it any more, by a new configuration, is not skipped.
    pub(super) fn fill(&mut self, subject: &ElementView<'_>, confirmed: &[u64], decoded: Option<Box<Payload>>) -> Made {
        if confirmed.contains(&RECORD_PENDING) {
            // Also if it is late by now: it was delivered.
            let routes = self.elements.claim.queue.routes.iter().enumerate();
            let missing = routes.filter(|(_, route)| !confirmed.contains(&route.handle.hash));
            self.passed_over = missing.map(|(place, _)| place).collect();
            return Ok(Ok(0));
        }
        let made = std::panic::catch_unwind(AssertUnwindSafe(|| {
            let payload = outbound::readable(subject, decoded)?;
            let queue = &subject.claim.queue;
            let routes = &queue.routes;
            let mut grown = 0;
            self.passed_over.clear();
            for (place, route) in routes.iter().enumerate() {
                if confirmed.contains(&route.handle.hash) {
                    continue;
                }
                // Of several destinations in one sink, the first that is meant for the element gets it.
                let is_taken = |earlier: &SinkRoute| earlier.handle.hash == route.handle.hash;
                let mut before = routes[..place].iter().enumerate().filter(|(at, _)| !self.passed_over.contains(at));
                if before.any(|(_, earlier)| is_taken(earlier)) || !outbound::takes(subject, &payload, place) {
                    self.passed_over.push(place);
                    continue;
                }
                let message = outbound::message(subject, &payload, place, self.now_ms, self.send_before)
                    .map_err(|failure| outbound::unroutable(place, failure))?;
                grown += outbound::growth(subject, &message, place);
                let outbox = if place == 0 { &mut self.first } else { &mut self.others[place - 1] };
                outbox.messages.push(message);
                if routes.len() > 1 {
                    outbox.elements.push(self.elements.sent.len());
                }
            }
            if !routes.is_empty() && self.passed_over.len() == routes.len() {
                Err(outbound::skipped(&queue.spec))
            } else {
                Ok(grown)
            }
        }));
        if !matches!(made, Ok(Ok(_))) {
            self.take_back();
        }
        made
    }

    /// Lets the messages go to the sinks in their order.
    pub(super) fn in_run(mut self) -> Outgoing {
        std::iter::once(&mut self.first).chain(&mut self.others).for_each(|outbox| outbox.in_run = true);
        self
    }

    /// Returns the destination of the message that was made last, at the first sink. `None`: it has none for the
    /// element.
    pub(super) fn destination(&self) -> Option<&Destination> {
        let is_its_own = self.first.ends_with(self.elements.sent.len());
        self.first.messages.last().filter(|_| is_its_own).map(|message| &message.destination)
    }

    /// Takes back the messages that were made last.
    pub(super) fn take_back(&mut self) {
        let element = self.elements.sent.len();
        std::iter::once(&mut self.first).chain(&mut self.others).for_each(|outbox| outbox.truncate(element));
    }

    /// Lets an element leave before a sink has it.
    pub(super) fn leaves(
        &mut self,
        place: usize,
        batch: &mut ClaimBatch,
        how: impl FnOnce(ClaimedElement) -> Delivered,
    ) {
        let element = self.elements.claimed(place, batch.take_probe());
        self.elements.left.push(how(element));
    }

    /// Adds the element of the messages that were made last, with its part of `growth`.
    pub(super) fn add(&mut self, queue: &Queue, place: usize, probe: Option<GateProbe>, growth: &mut Growth) {
        let has_message = self.first.ends_with(self.elements.sent.len());
        let may_be_confirmed_with_others =
            self.others.is_empty() && self.push.is_none() && probe.is_none() && !queue.records_deliveries();
        if may_be_confirmed_with_others
            && has_message
            && let Some(message) = self.first.messages.last()
        {
            return self.elements.sent.push(Some(SentElement::Place { place, id: message.id.id }));
        }
        let mut element = self.elements.claimed(place, probe);
        match self.push.filter(|_| has_message).zip(self.first.messages.pop_if(|_| self.push.is_some())) {
            // The settling script delivers.
            Some((side, message)) => {
                element.state().keep_room(std::mem::replace(growth, queue.growth()));
                let verdict = Verdict::Push { side, body: message.body };
                self.elements.left.push(Delivered::Decided(element, verdict));
            }
            None => self.add_round(element),
        }
    }

    /// Adds an element as a round of its own.
    pub(super) fn add_round(&mut self, mut element: ClaimedElement) {
        element.state().passed_over = std::mem::take(&mut self.passed_over);
        let number = self.elements.sent.len();
        let outboxes = std::iter::once(&self.first).chain(&self.others).enumerate();
        let asked = outboxes.filter(|(_, outbox)| outbox.ends_with(number)).map(|(sink, _)| sink);
        let round = ElementRound::new(element, asked.collect());
        match round.open {
            0 => self.elements.left.push(round.leave()),
            _ => self.elements.sent.push(Some(SentElement::Round(round))),
        }
    }

    /// Hands the messages to their sinks, all at once.
    pub(super) fn hand_over(self, probing: bool) -> (Elements, Vec<AtSink>) {
        let Outgoing { mut elements, first, others, .. } = self;
        let claim = elements.claim.clone();
        let mut sinks = Vec::new();
        let routes = &claim.queue.routes;
        for (place, (route, mut outbox)) in routes.iter().zip(std::iter::once(first).chain(others)).enumerate() {
            outbox.pass(&claim.queue, route, probing, |element, wait| elements.not_asked(element, place, wait));
            if let Some(sink) = AtSink::begin(route, place, outbox) {
                sinks.reserve_exact(routes.len() - place);
                sinks.push(sink);
            }
        }
        (elements, sinks)
    }
}
