//! The protobuf messages of OTLP that are sent: a request with the spans of finished elements. Pure.
//!
//! Written by hand, because the usual library brings 18 crates. The tests parse it as the specification says.

use std::time::Duration;

use super::context::SpanId;
use super::{Delivery, Finished};
use delaybridge_core::clock::Instant;
use delaybridge_core::message::lateness;

/// A protobuf message under construction.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn number(&mut self, field: u64, number: u64) {
        self.varint(field << 3);
        self.varint(number);
    }

    fn fixed(&mut self, field: u64, number: u64) {
        self.varint(field << 3 | 1);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn message(&mut self, field: u64, inner: Message) {
        self.bytes(field, &inner.0);
    }

    /// Appends a `KeyValue` in this field.
    fn attribute(&mut self, field: u64, name: &str, value: Attribute<'_>) {
        let mut pair = Message::default();
        let mut any = Message::default();
        match value {
            Attribute::Text(text) => any.bytes(1, text.as_bytes()),
            // An int64: negative numbers take ten bytes.
            Attribute::Number(number) => any.number(3, number as u64),
        }
        pair.bytes(1, name.as_bytes());
        pair.message(2, any);
        self.message(field, pair);
    }
}

enum Attribute<'a> {
    Text(&'a str),
    Number(i64),
}

/// Values of `SpanKind`.
const INTERNAL: u64 = 1;
const PRODUCER: u64 = 4;
const CONSUMER: u64 = 5;
/// A value of `StatusCode`.
const ERROR: u64 = 2;

/// Encodes an `ExportTraceServiceRequest` with all spans of these elements.
pub(super) fn request(elements: &[Finished], instance: &str) -> Vec<u8> {
    let mut resource = Message::default();
    for (name, value) in [
        ("service.name", "delaybridge"),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("service.instance.id", instance),
    ] {
        resource.attribute(1, name, Attribute::Text(value));
    }
    let mut scope = Message::default();
    scope.bytes(1, b"delaybridge");
    scope.bytes(2, env!("CARGO_PKG_VERSION").as_bytes());
    let mut spans = Message::default();
    spans.message(1, scope);
    elements.iter().for_each(|element| all_of(element, &mut spans));
    let mut of_resource = Message::default();
    of_resource.message(1, resource);
    of_resource.message(2, spans);
    let mut request = Message::default();
    request.message(1, of_resource);
    request.0
}

struct Span<'a> {
    name: &'a str,
    id: SpanId,
    parent: Option<SpanId>,
    kind: u64,
    from: Instant,
    to: Instant,
    attributes: Vec<(&'static str, Attribute<'a>)>,
    /// The class and code of a failure.
    failure: Option<(&'static str, &'static str)>,
}

fn all_of(element: &Finished, spans: &mut Message) {
    let Finished { trace, claimed, ended, .. } = element;
    let routed = trace.deliveries.first().map(|delivery| delivery.begun);
    let (verdict, judged) = trace.judged.unwrap_or(("unknown", *ended));
    let text = |text| Attribute::Text(text);
    let id = trace.id.to_string();
    let mut attributes = vec![
        ("delaybridge.queue", text(&trace.queue)),
        ("delaybridge.id", text(&id)),
        ("delaybridge.attempt", Attribute::Number(trace.attempt.into())),
        ("delaybridge.verdict", text(verdict)),
    ];
    if let Some(due_ms) = trace.due_ms {
        attributes.push(("delaybridge.due_ms", Attribute::Number(due_ms)));
        // As in the histogram of lateness: until the last sink has answered.
        let answers = trace.deliveries.iter().filter_map(|delivery| delivery.answered.map(|(at, _)| at));
        let since = answers.max().map_or(Duration::ZERO, |at| ended.since(at));
        let at_ms = element.ended_ms.saturating_sub(i64::try_from(since.as_millis()).unwrap_or(0));
        if let Some(late) = lateness(due_ms, at_ms) {
            let late = i64::try_from(late.as_millis()).unwrap_or(i64::MAX);
            attributes.push(("delaybridge.lateness_ms", Attribute::Number(late)));
        }
    }
    let failure = trace.deliveries.iter().find_map(|delivery| delivery.answered?.1);
    let name = format!("{} process", trace.queue);
    let from = *claimed;
    let to = *ended;
    let root =
        Span { name: &name, id: trace.span, parent: trace.parent, kind: CONSUMER, from, to, attributes, failure };
    spans.message(2, span(element, root));
    let parent = trace.span;
    spans.message(2, span(element, inner(parent, "claim", *claimed, trace.begun)));
    spans.message(2, span(element, inner(parent, "decode", trace.begun, routed.unwrap_or(judged))));
    for Delivery { sink, span: id, begun, answered, .. } in &trace.deliveries {
        let name = format!("deliver {sink}");
        let (to, failure) = answered.unwrap_or((judged, None));
        let attributes = vec![("delaybridge.sink", text(sink))];
        let delivery = Span { id: *id, kind: PRODUCER, attributes, failure, ..inner(parent, &name, *begun, to) };
        spans.message(2, span(element, delivery));
    }
    spans.message(2, span(element, inner(parent, "settle", judged, *ended)));
}

/// Returns a child of the element's span.
fn inner(parent: SpanId, name: &str, from: Instant, to: Instant) -> Span<'_> {
    let id = SpanId::random();
    let parent = Some(parent);
    Span { name, id, parent, kind: INTERNAL, from, to, attributes: Vec::new(), failure: None }
}

fn span(element: &Finished, span: Span<'_>) -> Message {
    let mut message = Message::default();
    message.bytes(1, &element.trace.trace.0);
    message.bytes(2, &span.id.0);
    if let Some(parent) = span.parent {
        message.bytes(4, &parent.0);
    }
    message.bytes(5, span.name.as_bytes());
    message.number(6, span.kind);
    message.fixed(7, unix_nanos(element, span.from));
    message.fixed(8, unix_nanos(element, span.to.max(span.from)));
    for (name, value) in span.attributes {
        message.attribute(9, name, value);
    }
    if let Some((class, code)) = span.failure {
        message.attribute(9, "delaybridge.class", Attribute::Text(class));
        message.attribute(9, "error.type", Attribute::Text(code));
        let mut status = Message::default();
        status.number(3, ERROR);
        message.message(15, status);
    }
    message
}

/// Converts a point of our clock to nanoseconds since the epoch by Redis's clock.
fn unix_nanos(element: &Finished, at: Instant) -> u64 {
    let ended = u64::try_from(element.ended_ms).unwrap_or(0).saturating_mul(1_000_000);
    let before = element.ended.since(at);
    ended.saturating_sub(u64::try_from(before.as_nanos()).unwrap_or(u64::MAX))
}
