//! From a claimed element to what its sinks get: the payload is decoded once, and routed for each sink.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redisson_codecs::DecodeError;

use crate::claim::element::ElementState;
use crate::claim::record::Claim;
use crate::deliver::mark::{self, ElementHistory, Marked};
use crate::deliver::understand::{self, CodecSaid, Understood, dead, routed, understand_by};
pub use crate::deliver::understand::{skipped, unroutable};
use crate::limits::large::{LargeTurn, SMALL};
use crate::queue::Queue;
use crate::settle::verdict::{ReleaseCause, Verdict};
use delaybridge_core::carried::Carried;
use delaybridge_core::clock::Instant;
use delaybridge_core::message::{Class, Failure, Identity, lateness};
use delaybridge_core::template::{ElementInfo, Filler, Template};
use delaybridge_ledger::NoPayload;
use delaybridge_ledger::claims::{Element, Header, Writer};
use delaybridge_model::{LeftOut, Payload};
use delaybridge_sink::{DeliveryMark, Destination, Outbound};
use delaybridge_spans::Subject as Traced;
use delaybridge_telemetry::labels::{DeadReason, LeftOutReason};

/// An element, as far as decoding and routing look at it.
pub struct ElementView<'a> {
    /// The claim that holds the element.
    pub claim: &'a Claim,
    /// The identity of the element.
    pub id: &'a Identity,
    /// The payload that the application offered; junk has none.
    pub payload: &'a Result<Bytes, NoPayload>,
    /// Due time by Redis's clock; none for elements of the ready list.
    pub due_ms: Option<i64>,
    /// Attempts that counted before.
    pub attempts: u32,
    /// A sink may have had it in an attempt that did not count.
    pub doubt: bool,
    /// The element as it is in Redis.
    pub element: &'a Element,
    /// The topic of a job.
    pub topic: Option<Arc<str>>,
    /// The address, headers and properties of a message of an input.
    pub carried: Option<Arc<Carried>>,
    /// The place of the element in the claim.
    pub place: usize,
}

impl<'a> ElementView<'a> {
    /// Creates the view of the element at this place of a claim, opened.
    pub fn at(claim: &'a Claim, place: usize, id: &'a Identity, payload: &'a Result<Bytes, NoPayload>) -> Self {
        ElementView::new(claim, place, &claim.elements[place], id, payload)
    }

    /// Creates the view of the element with this state.
    pub fn of(state: &'a ElementState) -> Self {
        let ElementState { claim, id, payload, header, element, place, .. } = state;
        let Header { attempts, doubt, .. } = *header;
        ElementView { attempts, doubt, ..ElementView::new(claim, *place, element, id, payload) }
    }

    fn new(
        claim: &'a Claim,
        place: usize,
        element: &'a Element,
        id: &'a Identity,
        payload: &'a Result<Bytes, NoPayload>,
    ) -> Self {
        let store = &claim.queue.store;
        ElementView {
            claim,
            id,
            payload,
            due_ms: element.due_ms(),
            attempts: element.attempts(),
            doubt: element.header.as_ref().is_some_and(|header| header.doubt || claim.queue.may_have_had(header)),
            element,
            topic: store.topic(element),
            carried: store.carried(element),
            place,
        }
    }

    /// Returns the element as its spans show it.
    fn traced(&self) -> Traced<'_> {
        Traced { queue: &self.claim.queue.spec.id, id: self.id, due_ms: self.due_ms, attempt: self.attempt() }
    }

    /// Returns the element as templates see it.
    fn info(&self) -> ElementInfo<'_> {
        let queue = &*self.claim.queue.spec.id;
        let topic = self.topic.as_deref();
        let carried = self.carried.as_deref();
        ElementInfo { id: self.id, queue, due_ms: self.due_ms, attempt: self.attempt(), topic, carried }
    }

    fn attempt(&self) -> u32 {
        self.claim.attempt(self.attempts, self.doubt)
    }

    /// Returns the mark of the message for this destination.
    fn mark(&self, sink: &str, destination: &Destination) -> DeliveryMark {
        let queue = &self.claim.queue;
        let claim = self.claim;
        let payload = self.payload.as_ref().map_or(&[][..], |payload| &payload[..]);
        let marked = Marked { queue: &queue.spec.id, sink, destination, id: self.id, due_ms: self.due_ms, payload };
        let header = self.element.header.as_deref();
        let history = ElementHistory {
            may_repeat: self.doubt || claim.may_repeat || claim.name.expiries > 0,
            unique: queue.spec.source.has_unique_ids(),
            writer: header.map(|header| header.writer),
            first_attempt_ms: header.map_or(0, |header| header.first_attempt_ms),
            // The score of a retry is its own time.
            claimable_ms: self.due_ms.unwrap_or(i64::MAX).min(self.element.score_ms),
        };
        mark::mark(&marked, claim.writer(self.place), history)
    }

    fn lateness(&self) -> Option<Duration> {
        lateness(self.due_ms?, self.claim.queue.home().now_ms())
    }
}

impl Readable<'_> {
    /// Returns the payload, to be kept for a moment; `None` of a large one.
    pub fn keep(self) -> Option<Box<Payload>> {
        self.turn.is_none().then(|| Box::new(self.payload))
    }
}

/// A payload, and the turn that a large one has until its bodies are made.
pub struct Readable<'a> {
    payload: Payload,
    turn: Option<LargeTurn<'a>>,
}

impl Deref for Readable<'_> {
    type Target = Payload;

    fn deref(&self) -> &Payload {
        &self.payload
    }
}

#[cfg(test)]
thread_local! {
    /// The number of payloads that this thread has decoded.
    pub(crate) static DECODED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Decodes, in a turn what may become large.
fn decode<'a>(subject: &ElementView<'a>, payload: &Bytes) -> (Result<Payload, DecodeError>, Option<LargeTurn<'a>>) {
    #[cfg(test)]
    DECODED.set(DECODED.get() + 1);
    let queue = &subject.claim.queue;
    match queue.spec.decode_within(payload, SMALL) {
        Some(decoded) => (decoded, None),
        None => {
            let turn = queue.process.large.turn();
            (queue.spec.decode(payload), Some(turn))
        }
    }
}

/// Reads the payload, or returns the verdict of an element that needs no sink. `decoded`: what a [look](peeked) at it
/// has decoded.
pub fn readable<'a>(subject: &ElementView<'a>, decoded: Option<Box<Payload>>) -> Result<Readable<'a>, Verdict> {
    let queue = &subject.claim.queue;
    if let Some(traces) = &subject.claim.traces {
        traces.begun(subject.place, &subject.traced());
    }
    if subject.claim.name.is_exhausted() {
        let failure = Failure::new(
            Class::Unknown,
            "lease_expired",
            "ten leases in a row expired: the process died or stalled each time it worked on this element",
        );
        return Err(dead(DeadReason::LeaseExpired, failure));
    }
    if let Some(due_ms) = subject.due_ms.filter(|_| is_new(subject.element.header.as_deref()))
        && let Some(verdict) = understand::absurd(&queue.spec, due_ms)
    {
        queue.events.absurd_due(subject.id, due_ms, verdict.as_str());
        return Err(verdict);
    }
    let payload = match subject.payload {
        Ok(payload) => payload,
        Err(NoPayload::Junk(junk)) => return Err(understand::junk(junk)),
        // Where none was ever met, the configuration may look for them in the wrong place: no id is dropped for that.
        Err(NoPayload::Missing) if queue.spec.source.buries_without_body() || !queue.store.has_met_bodies() => {
            let text =
                "the id has no job; its user may have deleted it, or `job` in the configuration names another place";
            let failure = Failure::new(Class::MessagePermanent, "no_body", text);
            return Err(dead(DeadReason::Junk, failure));
        }
        Err(NoPayload::Missing) => return Err(Verdict::Gone),
        Err(NoPayload::NoRoom) => return Err(Verdict::Release { why: ReleaseCause::NoRoom }),
        Err(NoPayload::NotDue(at_ms)) => return Err(Verdict::Return { at_ms: *at_ms }),
    };
    let mut turn = None;
    let decode = || {
        if let Some(decoded) = decoded {
            return Ok(*decoded);
        }
        let (decoded, its) = decode(subject, payload);
        turn = its;
        decoded
    };
    let Understood { payload, expired, said, opaque } =
        understand_by(&queue.spec, payload, subject.lateness(), queue.refused_in_a_row(), decode);
    if expired {
        queue.events.metrics().expired_delivery();
    }
    queue.decoded(said);
    if matches!(said, CodecSaid::Refused | CodecSaid::Opaque) {
        queue.events.metrics().decode_error(queue.spec.codec.as_str());
    }
    if let Some(why) = opaque {
        queue.events.opaque(&why);
    }
    payload.map(|payload| Readable { payload, turn })
}

/// Returns whether nothing was decided about an element with this header, at most that it goes back. One that was held,
/// tried or redriven is brought back on purpose.
fn is_new(header: Option<&Header>) -> bool {
    header.is_none_or(|header| header.code().is_empty() && header.writer != Writer::default())
}

/// Returns the payload as templates see it, without a verdict and uncounted.
pub fn peeked<'a>(subject: &ElementView<'a>) -> Option<Readable<'a>> {
    let (decoded, turn) = decode(subject, subject.payload.as_ref().ok()?);
    Some(Readable { payload: decoded.ok()?, turn })
}

/// Returns the text that a template makes of an element.
pub fn text(subject: &ElementView<'_>, payload: &Payload, template: &Template) -> Option<String> {
    Filler::new(&subject.info(), payload, None).text(template, &"order_key").ok()
}

/// Returns the destination of an element at the first sink of its queue, without a message and uncounted.
pub fn destination(subject: &ElementView<'_>, payload: &Payload) -> Option<Destination> {
    let route = subject.claim.queue.routes.first()?;
    route.spec.destination(&subject.info(), payload).ok()
}

/// Returns whether the destination at this place is meant for the element.
pub fn takes(subject: &ElementView<'_>, payload: &Payload, place: usize) -> bool {
    let spec = &subject.claim.queue.routes[place].spec;
    spec.rules.is_none() || spec.takes(&subject.info(), payload)
}

/// Builds the message for the sink at this place among the queue's destinations; fails if a template has no value.
pub fn message(
    subject: &ElementView<'_>,
    payload: &Payload,
    place: usize,
    now_ms: i64,
    send_before: Instant,
) -> Result<Outbound, Failure> {
    let queue = &subject.claim.queue;
    let spec = &queue.routes[place].spec;
    let due_ms = subject.due_ms;
    // Once for an element, and not for every attempt.
    if place == 0 && subject.attempts == 0 && subject.id.text.is_none() && queue.spec.source.names_elements() {
        queue.events.metrics().id_by_hash();
    }
    let element = subject.info();
    let attempt = element.attempt;
    let mut routed = routed(spec, &element, payload)?;
    if let Some(traces) = &subject.claim.traces {
        let carries = routed.destination.carries_traces();
        let headers = &mut routed.message.headers;
        // A message continues its trace also where its header does not pass.
        let of_message = subject.carried.as_ref().and_then(|carried| carried.field("header.traceparent"));
        let route = (place, &spec.sink);
        traces.routed(subject.place, &subject.traced(), route, headers, of_message.as_deref(), carries);
    }
    count_left_out(queue, &spec.sink, routed.left_out);
    let carried = subject.carried.as_ref().map(|carried| routed.carried(carried));
    let mark = spec.looks().then(|| Box::new(subject.mark(&spec.sink, &routed.destination)));
    Ok(Outbound {
        id: subject.id.clone(),
        queue: queue.spec.id.clone(),
        due_ms,
        attempt,
        now_ms,
        send_before,
        destination: routed.destination,
        body: routed.message.body,
        headers: routed.message.headers,
        carried,
        mark,
    })
}

/// Counts the headers of a message that its destination does not get.
pub fn count_left_out(queue: &Queue, sink: &str, left_out: LeftOut) {
    let LeftOut { control, unfit, rule } = left_out;
    for (reason, count) in
        [(LeftOutReason::Control, control), (LeftOutReason::Unfit, unfit), (LeftOutReason::Rule, rule)]
    {
        queue.events.metrics().headers_left_out(sink, reason, count);
    }
}

/// Returns the memory that the message takes beyond the bytes that came, until the sink has answered.
pub fn growth(subject: &ElementView<'_>, message: &Outbound, place: usize) -> u64 {
    let came = subject.payload.as_ref().map_or(&[][..], |payload| &payload[..]);
    let body = message.body.len() as u64;
    let own = if is_within(&message.body, came) { 0 } else { body };
    let copied = body * subject.claim.queue.routes[place].handle.copies(message.body.len());
    let headers: usize = message.headers.iter().map(|(_, value)| value.len()).sum();
    own + copied + headers as u64
}

/// Returns whether these bytes are a part of those in memory.
fn is_within(part: &[u8], all: &[u8]) -> bool {
    let part = part.as_ptr_range();
    let all = all.as_ptr_range();
    all.start <= part.start && part.end <= all.end
}

#[cfg(test)]
mod tests {
    use super::*;
    use delaybridge_core::message::{MessageId, Origin};

    #[test]
    fn what_was_only_given_back_is_looked_at_as_if_it_were_new() {
        let redriven = Header::redriven(Origin::Delayed, MessageId([0; 8]), 7, Vec::new());
        let mut released = Header::new(7);
        released.writer = Writer { owner: [1; 8], claim: 2, place: 3 };
        let mut held = released.clone();
        held.set_failure(Class::MessagePermanent, "absurd_due");
        assert!(is_new(None) && is_new(Some(&released)));
        assert!(!is_new(Some(&held)) && !is_new(Some(&redriven)));
    }
}
