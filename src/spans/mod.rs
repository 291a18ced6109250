//! Traces: a span for each sampled element, with spans for its claim, decoding, deliveries and settling, sent to a collector by OTLP.
//!
//! ```text
//! pipeline -> Traces (of a claim) -> Tracer (a bounded queue) -> export -> collector
//! ```
//!
//! The pipeline asks one `Option` a claim whether there is a tracer; without one nothing here runs. What a span says has no payload in
//! it. A collector that is away, or slow, costs spans and never an element: the queue drops them, and counts.
//!
//! The trace of an element is made of its queue and its id, so that all attempts, of every daemon, are in one trace and sampled alike. A
//! producer that has a trace of its own passes it in a header `traceparent` of the route, which a template fills from the payload.

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
use crate::clock::Instant;
use crate::message::{Failure, Identity};
use crate::telemetry::metrics::spans::SpanMetrics;

/// The header that carries a trace, by the W3C recommendation.
const HEADER: &str = "traceparent";

/// Elements whose spans wait for the collector, at most: at 1 KB each, 4 MB.
const WAITING: usize = 4_096;

/// Takes the spans of elements. Cheap to clone.
#[derive(Clone)]
pub struct Tracer(Arc<Inner>);

struct Inner {
    /// Traces below it are sampled; `None` for all.
    threshold: Option<u64>,
    waiting: Mutex<VecDeque<Finished>>,
    /// Knocks when something waits.
    knock: Notify,
    metrics: SpanMetrics,
}

impl Tracer {
    /// A tracer that samples this part of the elements, from 0 to 1.
    pub fn new(sample: f64, metrics: SpanMetrics) -> Tracer {
        // The largest part below 1 is below 2^64 too.
        let threshold = (sample < 1.0).then(|| (sample.max(0.0) * 18_446_744_073_709_551_616.0) as u64);
        Tracer(Arc::new(Inner { threshold, waiting: Mutex::default(), knock: Notify::new(), metrics }))
    }

    /// For the elements of a claim whose reply was read at this time.
    pub fn claim(&self, since: Instant) -> Traces {
        Traces { tracer: self.clone(), since, elements: Mutex::default() }
    }

    fn samples(&self, trace: TraceId) -> bool {
        self.0.threshold.is_none_or(|threshold| trace.number() < threshold)
    }

    /// Queues what is finished; drops and counts what finds no room.
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

    /// Up to so many of what waits.
    fn next(&self, most: usize) -> Vec<Finished> {
        let mut waiting = self.0.waiting.lock();
        let count = waiting.len().min(most);
        waiting.drain(..count).collect()
    }
}

/// The traces of the sampled elements of one claim, by their places in it.
pub struct Traces {
    tracer: Tracer,
    since: Instant,
    elements: Mutex<HashMap<usize, Trace>>,
}

/// An element as its spans show it.
#[derive(Debug, Clone)]
pub struct Subject<'a> {
    /// The queue.
    pub queue: &'a Arc<str>,
    /// The identity.
    pub id: &'a Identity,
    /// When it was due.
    pub due_ms: Option<i64>,
    /// The number of this attempt.
    pub attempt: u32,
}

/// What is known of one sampled element.
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
    /// Work on it began.
    begun: Instant,
    deliveries: Vec<Delivery>,
    /// The verdict, and when it was there.
    judged: Option<(&'static str, Instant)>,
}

/// One sink's part.
#[derive(Debug)]
struct Delivery {
    /// Its place among the queue's destinations.
    route: usize,
    sink: Arc<str>,
    span: SpanId,
    begun: Instant,
    /// When it answered, and the class and code of a failure.
    answered: Option<(Instant, Option<(&'static str, &'static str)>)>,
}

/// An element whose verdict is written.
#[derive(Debug)]
struct Finished {
    trace: Trace,
    claimed: Instant,
    ended: Instant,
    /// Redis time of the end.
    ended_ms: i64,
}

impl Finished {
    /// How many spans it is.
    fn spans(&self) -> u64 {
        // The element's own, its claim, decoding and settling.
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
    /// Work on the element at this place begins, perhaps once more.
    pub fn begun(&self, place: usize, subject: &Subject<'_>) {
        let trace = TraceId::of(subject.queue, subject.id);
        if self.tracer.samples(trace) {
            self.elements.lock().insert(place, Trace::new(subject, trace, None, Instant::now()));
        }
    }

    /// The element goes to this sink with these headers. A `traceparent` in them is its producer's: the producer has decided about the
    /// sample. Where the element is sampled, the header names the span of this delivery afterwards, if the sink `carries` headers.
    pub fn routed(
        &self,
        place: usize,
        subject: &Subject<'_>,
        (route, sink): (usize, &Arc<str>),
        headers: &mut Vec<(Arc<str>, String)>,
        carries: bool,
    ) {
        // What a template leaves empty is no header.
        headers.retain(|(name, value)| !(value.is_empty() && name.eq_ignore_ascii_case(HEADER)));
        let found = headers.iter().position(|(name, _)| name.eq_ignore_ascii_case(HEADER));
        let parent = found.and_then(|at| Parent::parse(&headers[at].1));
        let (now, mut elements) = (Instant::now(), self.elements.lock());
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

    /// A sink has answered.
    pub fn answered(&self, place: usize, route: usize, failure: Option<&Failure>) {
        let mut elements = self.elements.lock();
        let Some(trace) = elements.get_mut(&place) else { return };
        // The latest: routed anew, an element is delivered once all the same.
        if let Some(delivery) = trace.deliveries.iter_mut().rev().find(|delivery| delivery.route == route) {
            let failure = failure.map(|failure| (failure.class.as_str(), failure.code));
            delivery.answered = Some((Instant::now(), failure));
        }
    }

    /// There is a verdict.
    pub fn judged(&self, place: usize, verdict: &'static str) {
        if let Some(trace) = self.elements.lock().get_mut(&place) {
            trace.judged.get_or_insert((verdict, Instant::now()));
        }
    }

    /// The verdicts on these elements are written, by Redis's clock now.
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

/// How long the end of the process waits for the collector.
pub const LAST_WORDS: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests;
