//! Traces: a span for each sampled element, with child spans for its claim, decoding, deliveries and settling, exported
//! by OTLP.
//!
//! ```text
//! pipeline -> Traces (of a claim) -> Tracer (a bounded queue) -> export -> collector
//! ```
//!
//! The pipeline checks one `Option` for each claim; without a tracer nothing here runs. Spans contain no payload. A
//! collector that is unreachable or slow costs spans, never an element: the queue drops spans and counts them.
//!
//! The trace id of an element is derived from its queue and its id, so that all attempts of every daemon are in one
//! trace and are sampled alike. A producer with a trace of its own passes it in the route's header `traceparent`, which
//! a template fills from the payload.

pub mod config;
mod context;
pub mod export;
mod proto;
mod send;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

pub use self::config::OtlpSpec;
use self::context::{Parent, SpanId, TraceId, traceparent};
use delaybridge_core::clock::Instant;
use delaybridge_core::message::{Failure, Identity};
use delaybridge_telemetry::metrics::spans::SpanMetrics;

/// The header that carries a trace, as the W3C recommendation defines it.
const HEADER: &str = "traceparent";

/// Maximum number of elements whose spans wait for the collector: at 1 KB each, 4 MB.
const WAITING: usize = 4_096;

/// The collector of elements' spans. Cheap to clone.
#[derive(Clone)]
pub struct Tracer(Arc<Inner>);

struct Inner {
    /// The bound below which trace numbers are sampled; `None` samples all.
    threshold: Option<u64>,
    waiting: Mutex<VecDeque<Finished>>,
    /// Notified when spans are queued.
    knock: Notify,
    metrics: SpanMetrics,
}

impl Tracer {
    /// Creates a tracer that samples this fraction of the elements, `0.0..=1.0`.
    pub fn new(sample: f64, metrics: SpanMetrics) -> Tracer {
        // The largest fraction below 1 gives a threshold below 2^64 too.
        let threshold = (sample < 1.0).then(|| (sample.max(0.0) * 18_446_744_073_709_551_616.0) as u64);
        Tracer(Arc::new(Inner { threshold, waiting: Mutex::default(), knock: Notify::new(), metrics }))
    }

    /// Starts the traces of a claim whose reply was read at `since`.
    pub fn claim(&self, since: Instant) -> Traces {
        Traces { tracer: self.clone(), since, elements: Mutex::default() }
    }

    fn samples(&self, trace: TraceId) -> bool {
        self.0.threshold.is_none_or(|threshold| trace.number() < threshold)
    }

    /// Keeps finished elements for sending; drops and counts those for which there is no room.
    fn take(&self, finished: Vec<Finished>) {
        let mut waiting = self.0.waiting.lock();
        for one in finished {
            if waiting.len() < WAITING {
                waiting.push_back(one);
            } else {
                self.0.metrics.dropped(one.spans());
            }
        }
        drop(waiting);
        self.0.knock.notify_one();
    }

    /// Takes up to `most` of the queued elements.
    fn next(&self, most: usize) -> Vec<Finished> {
        let mut waiting = self.0.waiting.lock();
        let count = waiting.len().min(most);
        waiting.drain(..count).collect()
    }
}

/// The traces of the sampled elements of one claim, by their positions in it.
pub struct Traces {
    tracer: Tracer,
    since: Instant,
    elements: Mutex<HashMap<usize, Trace>>,
}

/// The data of an element that its spans show.
#[derive(Debug, Clone)]
pub struct Subject<'a> {
    /// The queue.
    pub queue: &'a Arc<str>,
    /// The identity.
    pub id: &'a Identity,
    /// The due time, in ms since the epoch.
    pub due_ms: Option<i64>,
    /// The number of this attempt.
    pub attempt: u32,
}

/// The trace of one sampled element.
#[derive(Debug)]
struct Trace {
    queue: Arc<str>,
    id: Identity,
    due_ms: Option<i64>,
    attempt: u32,
    trace: TraceId,
    span: SpanId,
    /// The span that the producer named.
    parent: Option<SpanId>,
    /// The start of the work on it.
    begun: Instant,
    deliveries: Vec<Delivery>,
    /// The verdict and its time.
    judged: Option<(&'static str, Instant)>,
}

#[derive(Debug)]
struct Delivery {
    /// The position among the queue's destinations.
    route: usize,
    sink: Arc<str>,
    span: SpanId,
    begun: Instant,
    /// The time of the answer, and the class and code of a failure.
    answered: Option<(Instant, Option<(&'static str, &'static str)>)>,
}

/// An element whose verdict is written.
#[derive(Debug)]
struct Finished {
    trace: Trace,
    claimed: Instant,
    ended: Instant,
    /// The end in Redis time, in ms.
    ended_ms: i64,
}

impl Finished {
    fn spans(&self) -> u64 {
        // The element's own span, and those for claim, decoding and settling.
        4 + self.trace.deliveries.len() as u64
    }
}

impl Trace {
    fn new(subject: &Subject<'_>, trace: TraceId, parent: Option<SpanId>, begun: Instant) -> Trace {
        Trace {
            queue: subject.queue.clone(),
            id: subject.id.clone(),
            due_ms: subject.due_ms,
            attempt: subject.attempt,
            trace,
            span: SpanId::random(),
            parent,
            begun,
            deliveries: Vec::new(),
            judged: None,
        }
    }
}

impl Traces {
    /// Records that work on the element at this position starts, possibly once more.
    pub fn begun(&self, place: usize, subject: &Subject<'_>) {
        let trace = TraceId::of(subject.queue, subject.id);
        if self.tracer.samples(trace) {
            self.elements.lock().insert(place, Trace::new(subject, trace, None, Instant::now()));
        }
    }

    /// Records that the element goes to this sink. A `traceparent` in the headers, or else that `of_message`, is the producer's, whose
    /// sampling decision counts. If the element is sampled, the header then names the span of this delivery, provided that the
    /// sink `carries` headers.
    pub fn routed(
        &self,
        place: usize,
        subject: &Subject<'_>,
        (route, sink): (usize, &Arc<str>),
        headers: &mut Vec<(Arc<str>, String)>,
        of_message: Option<&str>,
        carries: bool,
    ) {
        // An empty result of a template is no header.
        headers.retain(|(name, value)| !(value.is_empty() && name.eq_ignore_ascii_case(HEADER)));
        let found = headers.iter().position(|(name, _)| name.eq_ignore_ascii_case(HEADER));
        let parent = found.map(|at| headers[at].1.as_str()).or(of_message).and_then(Parent::parse);
        let now = Instant::now();
        let mut elements = self.elements.lock();
        match parent {
            Some(Parent { sampled: false, .. }) => {
                elements.remove(&place);
            }
            Some(Parent { trace, span, .. }) => {
                let known = elements.entry(place).or_insert_with(|| Trace::new(subject, trace, Some(span), now));
                (known.trace, known.parent) = (trace, Some(span));
            }
            None => {}
        }
        let Some(known) = elements.get_mut(&place) else { return };
        let span = SpanId::random();
        known.deliveries.push(Delivery { route, sink: sink.clone(), span, begun: now, answered: None });
        if carries {
            let value = traceparent(known.trace, span);
            match found {
                Some(at) => headers[at].1 = value,
                None => headers.push((HEADER.into(), value)),
            }
        }
    }

    /// Records the answer of a sink.
    pub fn answered(&self, place: usize, route: usize, failure: Option<&Failure>) {
        let mut elements = self.elements.lock();
        let Some(trace) = elements.get_mut(&place) else { return };
        // The latest delivery: an element that was routed anew is still delivered once.
        if let Some(delivery) = trace.deliveries.iter_mut().rev().find(|delivery| delivery.route == route) {
            let failure = failure.map(|failure| (failure.class.as_str(), failure.code));
            delivery.answered = Some((Instant::now(), failure));
        }
    }

    /// Records the verdict.
    pub fn judged(&self, place: usize, verdict: &'static str) {
        if let Some(trace) = self.elements.lock().get_mut(&place) {
            trace.judged.get_or_insert((verdict, Instant::now()));
        }
    }

    /// Ends the traces of elements whose verdicts are written; `ended_ms` is the Redis time.
    pub fn ended(&self, places: impl IntoIterator<Item = usize>, ended_ms: i64) {
        let ended = Instant::now();
        let mut elements = self.elements.lock();
        let finished = places.into_iter().filter_map(|place| elements.remove(&place));
        let finished: Vec<_> = finished.map(|trace| Finished { trace, claimed: self.since, ended, ended_ms }).collect();
        drop(elements);
        if !finished.is_empty() {
            self.tracer.take(finished);
        }
    }
}

/// Time that the end of the process grants the collector.
pub const LAST_WORDS: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests;
