//! Tests of traces, from the pipeline's calls to the bytes of a request.

use super::context::Parent;
use super::*;
use delaybridge_core::message::{Class, MessageId};
use delaybridge_telemetry::metrics::Metrics;

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

struct World {
    tracer: Tracer,
    metrics: Metrics,
    queue: Arc<str>,
    id: Identity,
}

impl World {
    fn new(sample: f64) -> World {
        let metrics = Metrics::new();
        let tracer = Tracer::new(sample, metrics.spans());
        World { tracer, metrics, queue: "q".into(), id: MessageId([7; 8]).into() }
    }

    fn subject(&self) -> Subject<'_> {
        Subject { queue: &self.queue, id: &self.id, due_ms: Some(1_000), attempt: 2 }
    }

    /// Sends an element with this `traceparent` from its route; returns the header that the sink gets.
    fn passes(&self, given: Option<&str>, carries: bool) -> (Option<String>, Vec<Finished>) {
        self.passes_beside(given, None, carries)
    }

    /// The same, for a message with such a header that does not pass to the sink.
    fn passes_beside(
        &self,
        given: Option<&str>,
        of_message: Option<&str>,
        carries: bool,
    ) -> (Option<String>, Vec<Finished>) {
        let traces = self.tracer.claim(Instant::now());
        let mut headers: Vec<(Arc<str>, String)> = vec![("tenant".into(), "acme".into())];
        headers.extend(given.map(|given| ("Traceparent".into(), given.to_owned())));
        traces.begun(3, &self.subject());
        traces.routed(3, &self.subject(), (0, &"out".into()), &mut headers, of_message, carries);
        traces.answered(3, 0, None);
        traces.judged(3, "confirm");
        traces.ended([3], 1_005);
        assert_eq!(headers[0].1, "acme");
        (headers.get(1).map(|(_, value)| value.clone()), self.tracer.next(10))
    }

    fn count(&self, outcome: &str) -> String {
        let line = format!("delaybridge_trace_spans_total{{outcome=\"{outcome}\"}} ");
        let text = self.metrics.render().expect("the metrics");
        text.lines().find_map(|other| other.strip_prefix(&*line)).unwrap_or("none").to_owned()
    }
}

#[test]
fn a_producer_s_trace_goes_on_and_its_decision_counts() {
    for sample in [0.0, 1.0] {
        let world = World::new(sample);
        let (header, finished) = world.passes(Some(PARENT), true);
        let passed = header.and_then(|header| Parent::parse(&header)).expect("a header");
        assert_eq!(passed.trace, Parent::parse(PARENT).unwrap().trace);
        assert_eq!(passed.span, finished[0].trace.deliveries[0].span);
        assert_eq!(finished[0].trace.parent, Some(Parent::parse(PARENT).unwrap().span));
        let unsampled = PARENT.replace("-01", "-00");
        let (header, finished) = world.passes(Some(&unsampled), true);
        assert_eq!((header.as_deref(), finished.len()), (Some(&*unsampled), 0));
    }
}

#[test]
fn a_message_continues_its_trace_where_its_header_does_not_pass() {
    let world = World::new(0.0);
    let trace = |finished: &[Finished]| finished[0].trace.trace;
    let (header, finished) = world.passes_beside(None, Some(PARENT), false);
    assert_eq!((header, trace(&finished)), (None, Parent::parse(PARENT).unwrap().trace));
    let (header, _) = world.passes_beside(None, Some(PARENT), true);
    let passed = header.and_then(|header| Parent::parse(&header)).expect("a header");
    assert_eq!(passed.trace, trace(&finished));
    // The route says something else.
    let other = PARENT.replace("4bf9", "4bf8");
    let (_, finished) = world.passes_beside(Some(&other), Some(PARENT), true);
    assert_eq!(trace(&finished), Parent::parse(&other).unwrap().trace);
}

#[test]
fn an_element_without_a_trace_gets_one_if_it_is_sampled() {
    for given in [None, Some("")] {
        let (header, finished) = World::new(1.0).passes(given, true);
        let passed = header.and_then(|header| Parent::parse(&header)).expect("a header");
        assert_eq!((passed.trace, None), (finished[0].trace.trace, finished[0].trace.parent));
        let (header, finished) = World::new(0.0).passes(given, true);
        assert_eq!((header, finished.len()), (None, 0));
        // A Redis list has no headers.
        let (header, finished) = World::new(1.0).passes(given, false);
        assert_eq!((header, finished.len()), (None, 1));
    }
}

#[test]
fn about_the_wanted_part_is_sampled() {
    let world = World::new(0.25);
    let traces = world.tracer.claim(Instant::now());
    for place in 0..4_000_usize {
        let id = Identity::from(MessageId((place as u64).to_be_bytes()));
        traces.begun(place, &Subject { id: &id, ..world.subject() });
    }
    let sampled = traces.elements.lock().len();
    assert!((850..1_150).contains(&sampled), "{sampled}");
}

#[test]
fn what_finds_no_room_is_dropped_and_counted() {
    let world = World::new(1.0);
    let traces = world.tracer.claim(Instant::now());
    for place in 0..WAITING + 5 {
        traces.begun(place, &world.subject());
    }
    traces.ended(0..WAITING + 5, 1_005);
    assert_eq!(world.tracer.next(WAITING + 5).len(), WAITING);
    assert_eq!((world.count("dropped"), world.count("sent")), ("20".to_owned(), "0".to_owned()));
}

/// A field of a message: its number and its value.
#[derive(Debug, Clone, PartialEq)]
enum Field {
    Number(u64, u64),
    Fixed(u64, u64),
    Bytes(u64, Vec<u8>),
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..70).step_by(7) {
        let (byte, rest) = bytes.split_first().expect("one more byte");
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return number;
        }
    }
    panic!("a number is too long")
}

fn fields(mut bytes: &[u8]) -> Vec<Field> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        fields.push(match tag & 7 {
            0 => Field::Number(tag >> 3, varint(&mut bytes)),
            1 => {
                let (fixed, rest) = bytes.split_first_chunk().expect("eight bytes");
                bytes = rest;
                Field::Fixed(tag >> 3, u64::from_le_bytes(*fixed))
            }
            2 => {
                let length = usize::try_from(varint(&mut bytes)).expect("a length");
                let (inner, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(tag >> 3, inner.to_vec())
            }
            other => panic!("wire type {other}"),
        });
    }
    fields
}

fn inner(fields: &[Field], number: u64) -> Vec<Vec<u8>> {
    let bytes = |field: &Field| match field {
        Field::Bytes(other, bytes) if *other == number => Some(bytes.clone()),
        _ => None,
    };
    fields.iter().filter_map(bytes).collect()
}

/// Field numbers as in `opentelemetry/proto/trace/v1/trace.proto`.
#[test]
fn a_request_has_the_spans_of_an_element() {
    let world = World::new(1.0);
    let traces = world.tracer.claim(Instant::now());
    traces.begun(0, &world.subject());
    traces.routed(0, &world.subject(), (0, &"a".into()), &mut Vec::new(), None, true);
    traces.routed(0, &world.subject(), (1, &"b".into()), &mut Vec::new(), None, true);
    traces.answered(0, 0, None);
    traces.answered(0, 1, Some(&Failure::new(Class::Ambiguous, "timeout", "a text that is not sent")));
    traces.judged(0, "retry");
    traces.ended([0], 1_005);
    let finished = world.tracer.next(10);
    assert_eq!(finished[0].spans(), 6);
    let request = proto::request(&finished, "0011");
    assert!(!request.windows(6).any(|text| text == b"a text"));
    let of_resource = fields(&inner(&fields(&request), 1)[0]);
    let resource = String::from_utf8_lossy(&inner(&of_resource, 1)[0]).into_owned();
    assert!(resource.contains("service.name") && resource.contains("delaybridge"), "{resource}");
    let spans: Vec<_> = inner(&fields(&inner(&of_resource, 2)[0]), 2).iter().map(|span| fields(span)).collect();
    let text = |span: &[Field], number| inner(span, number).first().map(|b| String::from_utf8_lossy(b).into_owned());
    let names: Vec<_> = spans.iter().filter_map(|span| text(span, 5)).collect();
    assert_eq!(names, ["q process", "claim", "decode", "deliver a", "deliver b", "settle"]);
    let root = inner(&spans[0], 2);
    for (at, span) in spans.iter().enumerate() {
        assert_eq!(inner(span, 1), [finished[0].trace.trace.0.to_vec()]);
        assert_eq!(inner(span, 4), if at == 0 { Vec::new() } else { root.clone() });
        let times: Vec<u64> = span
            .iter()
            .filter_map(|field| if let Field::Fixed(7 | 8, time) = field { Some(*time) } else { None })
            .collect();
        assert!(times.len() == 2 && times[0] <= times[1] && times[1] <= 1_005_000_000, "{times:?}");
    }
    let kinds: Vec<_> = spans.iter().map(|span| span.contains(&Field::Number(6, 4))).collect();
    assert_eq!(kinds, [false, false, false, true, true, false]);
    let failed = Field::Bytes(15, vec![3 << 3, 2]);
    let status: Vec<_> = spans.iter().map(|span| span.contains(&failed)).collect();
    assert_eq!(status, [true, false, false, false, true, false]);
    let attributes: Vec<_> = inner(&spans[0], 9).iter().map(|a| String::from_utf8_lossy(a).into_owned()).collect();
    let has = |name: &str| attributes.iter().any(|attribute| attribute.contains(name));
    for name in
        ["delaybridge.queue", "delaybridge.id", "delaybridge.due_ms", "delaybridge.lateness_ms", "delaybridge.attempt"]
    {
        assert!(has(name), "{name} in {attributes:?}");
    }
    assert!(has("retry") && has("timeout") && has("ambiguous"), "{attributes:?}");
}
