//! The beginning of a delivery: elements of a claim are decoded and routed, and their messages handed to the sinks that have not
//! confirmed them, as far as there is room for what the elements become.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use delaybridge_model::Payload;

use crate::audit;
use crate::claim::batch::ClaimBatch;
use crate::claim::claimed::ClaimedElement;
use crate::claim::isolation::Isolation;
use crate::claim::record::Claim;
use crate::deliver::at_sink::{AtSink, Outbox};
use crate::deliver::delivery::{ClaimDelivery, DeliveredWave, SentElement};
use crate::deliver::outbound::{self, ElementView};
use crate::deliver::round::{self, ElementRound};
use crate::gate::GateProbe;
use crate::limits::growth::Growth;
use crate::queue::{Queue, SinkRoute};
use crate::settle::Settler;
use crate::settle::verdict::{ReleaseCause, Verdict};
use delaybridge_core::clock::Instant;
use delaybridge_ledger::claims::RECORD_PENDING;
use delaybridge_link::Side;
use delaybridge_sink::Destination;

/// Decodes, routes and hands over what is due of a batch, as far as there is room for what the elements become. The batch says
/// what the next of them [lacks](ClaimBatch::lack). Returns the delivery, unless nothing is to be waited for.
///
/// Every element is at its sink's door when this returns, as far as the door is open: two batches, each in a task of its own,
/// could overtake each other on the way there, and elements of one Kafka partition would change places.
pub(super) fn begin(batch: &mut ClaimBatch) -> Option<ClaimDelivery> {
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
    let about = batch.about();
    let growth = batch.take_growth();
    let mut start = Outgoing::new((&claim, &settler), Some(isolation), growth, about, (now_ms, send_before));
    while let Some(place) = batch.take_place(now_ms) {
        let made = if on_hold {
            Ok(Err(Verdict::Release { why: ReleaseCause::OnHold }))
        } else {
            start.make(&claim, place, None)
        };
        match made {
            Ok(Ok(grown)) => {
                if !start.takes_room(place, grown, alone) {
                    batch.put_back(grown);
                    break;
                }
                start.add(&queue, place, batch.take_probe());
            }
            Ok(Err(verdict)) => start.leaves(place, batch, |element| round::decided(element, verdict)),
            Err(_panic) => {
                start.leaves(place, batch, |element| ElementRound::new(element, Vec::new()).panics().leave())
            }
        }
    }
    let mut delivery = start.hand_over(probing);
    let left = std::mem::take(&mut delivery.left);
    if !left.is_empty() {
        left.into_iter().for_each(|(element, verdict)| audit::settle(element, verdict));
        let _ = delivery.confirm(Vec::new());
    }
    (!delivery.sinks.is_empty()).then_some(delivery)
}

/// Brings one element of a queue in order to its sinks, and waits for its verdict; none if the lease is over. Dropped meanwhile,
/// it is released. In order nothing is claimed ahead, and no script delivers.
pub(super) async fn of_one(mut element: ClaimedElement) -> Option<(ClaimedElement, Option<Verdict>)> {
    let queue = element.state().queue().clone();
    let claim = element.state().claim.clone();
    let mut granted = None;
    let mut delivery = loop {
        let Some(send_before) = claim.fresh() else { return Some((element, None)) };
        let now_ms = queue.home().now_ms();
        let growth = granted.take().unwrap_or_else(|| queue.growth());
        let mut start = Outgoing::new((&claim, element.settler()), None, growth, 1, (now_ms, send_before));
        let grown = match start.make_of(&mut element) {
            Ok(Ok(grown)) => grown,
            Ok(Err(verdict)) => return Some(round::decided(element, verdict)),
            Err(_panic) => return Some(ElementRound::new(element, Vec::new()).panics().leave()),
        };
        if !start.takes_room(element.place(), grown, element.state().is_alone()) {
            // Made once more when there is room.
            drop(start);
            element.state().leave_shared();
            // Order: a stop goes first. Both may be left at any time.
            granted = tokio::select! {
                biased;
                () = queue.stopping.cancelled() => {
                    let why = ReleaseCause::Shutdown;
                    return Some((element, Some(Verdict::Release { why })));
                }
                granted = async {
                    let granted = queue.grown(grown).await;
                    element.join_shared().await;
                    granted
                } => Some(granted),
            };
            continue;
        }
        let probing = element.state().probe.is_some();
        start.add_round(element);
        break start.hand_over(probing);
    };
    loop {
        let DeliveredWave { mut left, is_over, .. } = delivery.next_answers().await;
        if is_over || !left.is_empty() {
            return left.pop();
        }
    }
}

/// The beginning of a delivery: messages that are not handed over yet.
pub(super) struct Outgoing {
    delivery: ClaimDelivery,
    /// The messages for the first sink.
    first: Outbox,
    /// The messages for the others. Nearly every queue has one sink.
    others: Vec<Outbox>,
    /// The sinks that are not meant for the element of the messages that were made last.
    passed_over: Vec<usize>,
    /// The end of the list that the settling script pushes to, if it delivers.
    push: Option<Side>,
    /// The room of the bytes that the messages have beyond those that came.
    growth: Growth,
    /// The number of these bytes.
    grew: u64,
    /// The number of bytes that came.
    came: u64,
    now_ms: i64,
    send_before: Instant,
}

/// By how much its messages make an element grow, or the verdict that it needs none; an error if work on it panicked.
pub(super) type Made = std::thread::Result<Result<u64, Verdict>>;

impl Outgoing {
    pub(super) fn new(
        (claim, settler): (&Arc<Claim>, &Arc<Settler>),
        isolation: Option<Isolation>,
        growth: Growth,
        about: usize,
        (now_ms, send_before): (i64, Instant),
    ) -> Outgoing {
        let others = claim.queue.routes.iter().skip(1).map(|_| Outbox::default()).collect();
        let mut first = Outbox::default();
        first.messages.reserve_exact(about);
        let claim = claim.clone();
        let settler = settler.clone();
        let sent = Vec::with_capacity(about);
        let push = claim.queue.exactly_once().map(|(_, side)| side);
        let delivery =
            ClaimDelivery { claim, settler, isolation, sent, left: Vec::new(), sinks: Vec::new(), growth: None };
        let passed_over = Vec::new();
        Outgoing { delivery, first, others, passed_over, push, growth, grew: 0, came: 0, now_ms, send_before }
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
            let routes = self.delivery.claim.queue.routes.iter().enumerate();
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
                    outbox.elements.push(self.delivery.sent.len());
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
        let is_its_own = self.first.ends_with(self.delivery.sent.len());
        self.first.messages.last().filter(|_| is_its_own).map(|message| &message.destination)
    }

    /// Takes back the messages that were made last.
    pub(super) fn take_back(&mut self) {
        let element = self.delivery.sent.len();
        std::iter::once(&mut self.first).chain(&mut self.others).for_each(|outbox| outbox.truncate(element));
    }

    /// Takes room for the messages that were made last, of the element at this place of the claim, which have so many bytes beyond
    /// those that came. `alone`: whether there is room or not, because nothing is in flight beside it. Without room the messages are
    /// dropped, because memory holds what was granted.
    pub(super) fn takes_room(&mut self, place: usize, grown: u64, alone: bool) -> bool {
        if grown > 0 && alone {
            self.growth.take_anyway(grown);
        } else if grown > 0 && !self.growth.take(grown) {
            self.take_back();
            return false;
        }
        self.came += self.delivery.claim.elements[place].weight() as u64;
        self.grew += grown;
        true
    }

    /// Lets an element leave before a sink has it.
    pub(super) fn leaves(
        &mut self,
        place: usize,
        batch: &mut ClaimBatch,
        how: impl FnOnce(ClaimedElement) -> (ClaimedElement, Option<Verdict>),
    ) {
        let element = self.delivery.claimed(place, batch.take_probe());
        self.delivery.left.push(how(element));
    }

    /// Adds the element of the messages that were made last.
    pub(super) fn add(&mut self, queue: &Queue, place: usize, probe: Option<GateProbe>) {
        let has_message = self.first.ends_with(self.delivery.sent.len());
        let may_be_confirmed_with_others =
            self.others.is_empty() && self.push.is_none() && probe.is_none() && !queue.records_deliveries();
        if may_be_confirmed_with_others
            && has_message
            && let Some(message) = self.first.messages.last()
        {
            return self.delivery.sent.push(Some(SentElement::Place { place, id: message.id.id }));
        }
        let mut element = self.delivery.claimed(place, probe);
        match self.push.filter(|_| has_message).zip(self.first.messages.pop_if(|_| self.push.is_some())) {
            // The settling script delivers.
            Some((side, message)) => {
                element.state().keep_room(std::mem::replace(&mut self.growth, queue.growth()));
                let verdict = Verdict::Push { side, body: message.body };
                self.delivery.left.push(round::decided(element, verdict));
            }
            None => self.add_round(element),
        }
    }

    /// Adds an element as a round of its own.
    pub(super) fn add_round(&mut self, mut element: ClaimedElement) {
        element.state().passed_over = std::mem::take(&mut self.passed_over);
        let number = self.delivery.sent.len();
        let outboxes = std::iter::once(&self.first).chain(&self.others).enumerate();
        let asked = outboxes.filter(|(_, outbox)| outbox.ends_with(number)).map(|(sink, _)| sink);
        let round = ElementRound::new(element, asked.collect());
        match round.open {
            0 => self.delivery.left.push(round.leave()),
            _ => self.delivery.sent.push(Some(SentElement::Round(round))),
        }
    }

    /// Hands the messages to their sinks, all at once.
    pub(super) fn hand_over(self, probing: bool) -> ClaimDelivery {
        let Outgoing { mut delivery, first, others, mut growth, grew, came, .. } = self;
        let claim = delivery.claim.clone();
        claim.queue.budget.grew(came, grew);
        let routes = &claim.queue.routes;
        for (place, (route, mut outbox)) in routes.iter().zip(std::iter::once(first).chain(others)).enumerate() {
            outbox.pass(&claim.queue, route, probing, |element, wait| delivery.not_asked(element, place, wait));
            if let Some(sink) = AtSink::begin(route, place, outbox) {
                delivery.sinks.reserve_exact(routes.len() - place);
                delivery.sinks.push(sink);
            }
        }
        delivery.growth = (growth.settle() > 0).then(|| Box::new(growth));
        delivery
    }
}
