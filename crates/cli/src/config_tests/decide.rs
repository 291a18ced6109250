//! The daemon's decision about the element of a case, by its own functions. A back-off is drawn at both ends of its range.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::case::{Case, Failing};
use super::element::OpenedElement;
use delaybridge_core::message::{Class, Failure, FailureCode, lateness};
use delaybridge_core::template::ElementInfo;
use delaybridge_ledger::NoPayload;
use delaybridge_model::{QueueSpec, RetryPolicy, routes_taken};
use delaybridge_pipeline::deliver::answer::{Refusing, stop};
use delaybridge_pipeline::deliver::understand::{junk, routed, skipped, understand, unroutable};
use delaybridge_pipeline::settle::judge::{JudgedRound, SinkAnswer, Stop, judge};
use delaybridge_pipeline::settle::verdict::{Death, ReleaseCause, Verdict};

/// The decision about an element.
#[derive(Debug)]
pub struct Decided {
    /// The messages that went to sinks.
    pub messages: Vec<SinkMessage>,
    /// The end of the element.
    pub end: CaseEnd,
}

/// A message to a sink.
#[derive(Debug)]
pub struct SinkMessage {
    /// The sink.
    pub sink: Arc<str>,
    /// Destination keys with their values.
    pub destination: Vec<(String, Bytes)>,
    /// Headers.
    pub headers: Vec<(Arc<str>, String)>,
    /// The body.
    pub body: Bytes,
}

/// The end of an element.
#[derive(Debug, PartialEq)]
pub enum CaseEnd {
    /// A delivery to every sink.
    Delivered,
    /// A dead letter.
    Dead {
        /// The reason.
        reason: &'static str,
        /// The sink that decided it.
        sink: Option<String>,
        /// The code.
        code: String,
        /// The error.
        message: String,
    },
    /// A hold of the queue.
    Hold {
        /// The sink.
        sink: Option<String>,
        /// The code.
        code: String,
        /// The error.
        message: String,
    },
    /// Another attempt.
    Retry {
        /// The shortest wait that can be drawn.
        earliest: Duration,
        /// The longest.
        latest: Duration,
        /// Whether this attempt counts.
        counted: bool,
    },
    /// A wait that does not count as an attempt.
    Wait,
    /// Removal, because no destination is meant for it.
    Skipped,
    /// Removal, because its user has removed its body.
    Gone,
    /// A return to its source, because its own record has a later due time.
    Later,
}

/// Decides one case.
pub fn decide(case: &Case) -> Decided {
    let spec = &*case.queue;
    let OpenedElement { id, payload, topic, tries } = case.given.open(spec);
    let early = |verdict: Verdict| Decided { messages: Vec::new(), end: CaseEnd::of(spec, [verdict.clone(), verdict]) };
    let payload = match payload {
        Ok(payload) => payload,
        Err(NoPayload::Junk(bytes)) => return early(junk(&bytes)),
        Err(NoPayload::NotDue(_)) => return Decided { messages: Vec::new(), end: CaseEnd::Later },
        Err(NoPayload::Missing | NoPayload::NoRoom) => return Decided { messages: Vec::new(), end: CaseEnd::Gone },
    };
    let late = case.given.due_ms.and_then(|due_ms| lateness(due_ms, case.given.now_ms));
    let payload = match understand(spec, &payload, late).payload {
        Ok(payload) => payload,
        Err(verdict) => return early(verdict),
    };
    let attempt = case.attempts.saturating_add(1);
    let element = ElementInfo {
        id: &id,
        queue: &spec.id,
        due_ms: case.given.due_ms,
        attempt,
        topic: topic.as_deref(),
        carried: None,
    };
    let mut messages = Vec::with_capacity(spec.to.len());
    let meant = routes_taken(&spec.to, |to| to.takes(&element, &payload));
    let passed_over: Vec<usize> = (0..spec.to.len()).filter(|place| !meant.contains(place)).collect();
    if meant.is_empty() {
        return early(skipped(spec));
    }
    for &place in &meant {
        let to = &spec.to[place];
        match routed(to, &element, &payload) {
            Ok(routed) => messages.push(SinkMessage {
                sink: to.sink.clone(),
                destination: routed.destination.fields(),
                headers: routed.message.headers,
                body: routed.message.body,
            }),
            // As in a delivery: nothing is sent to any sink.
            Err(failure) => return early(unroutable(place, failure)),
        }
    }
    let answers: Vec<SinkAnswer> = meant.into_iter().map(|place| answer(spec, place, &case.fails)).collect();
    let policy = match tries {
        Some(max_attempts) if max_attempts < spec.retry.max_attempts => RetryPolicy { max_attempts, ..*spec.retry },
        _ => *spec.retry,
    };
    let verdict = |draw| judge(round(spec, &answers, &passed_over, case.attempts), &policy, draw).verdict;
    Decided { messages, end: CaseEnd::of(spec, [verdict(0.0), verdict(1.0)]) }
}

fn round<'a>(spec: &QueueSpec, answers: &'a [SinkAnswer], passed_over: &'a [usize], counted: u32) -> JudgedRound<'a> {
    JudgedRound {
        confirmed: vec![false; spec.to.len()],
        passed_over,
        answers,
        counted,
        probe: false,
        panicked: false,
        stopping: false,
        held: None,
        abandoned: false,
    }
}

/// The code of a failure that a case describes.
const STATED: &str = "as_stated";

/// Returns the answer of the sink at this place: a confirmation, unless the case says that it fails.
fn answer(spec: &QueueSpec, place: usize, fails: &[Failing]) -> SinkAnswer {
    let confirmed = SinkAnswer { sink: place, outcome: Ok(()), moved: false, stop: Stop::Queue };
    let Some(failing) = fails.iter().find(|failing| failing.place == place) else { return confirmed };
    let code: FailureCode = if failing.sent { STATED.into() } else { Failure::NOT_SENT };
    let failure = Failure::new(failing.class, code, "the failure that the case describes").about(failing.about);
    let lasted = failing.lasted;
    let worked = failing.worked;
    let stop = match failing.class {
        Class::TargetPermanent | Class::Backpressure => {
            let refusing = || Refusing { lasted, worked, wait: Duration::ZERO };
            stop(spec.unroutable, &*spec.to[place].target, (&failure, failing.about), false, refusing)
        }
        _ => Stop::Queue,
    };
    SinkAnswer { outcome: Err(failure), moved: !failing.outage, stop, ..confirmed }
}

impl CaseEnd {
    /// Sums up two verdicts: that of the shortest and that of the longest wait.
    fn of(spec: &QueueSpec, [shortest, longest]: [Verdict; 2]) -> CaseEnd {
        let name = |place: Option<usize>| place.and_then(|place| spec.to.get(place)).map(|to| to.sink.to_string());
        let told = |failure: Option<Failure>| match failure {
            Some(failure) => (failure.code.to_owned(), failure.message),
            None => (String::new(), String::new()),
        };
        match (shortest, longest) {
            (Verdict::Confirm | Verdict::Push { .. }, _) => CaseEnd::Delivered,
            (Verdict::Dead(Death { reason, sink, failure, .. }), _) => {
                let (code, message) = told(failure);
                CaseEnd::Dead { reason: reason.as_str(), sink: name(sink), code, message }
            }
            (Verdict::Release { why: ReleaseCause::Hold { sink, failure } }, _) => {
                let (code, message) = told(Some(failure));
                CaseEnd::Hold { sink: name(sink), code, message }
            }
            (Verdict::Retry { after: earliest, counted, .. }, Verdict::Retry { after: latest, .. }) => {
                CaseEnd::Retry { earliest, latest, counted }
            }
            (Verdict::Skipped, _) => CaseEnd::Skipped,
            (Verdict::Gone, _) => CaseEnd::Gone,
            (Verdict::Return { .. }, _) => CaseEnd::Later,
            (Verdict::Release { .. } | Verdict::Retry { .. }, _) => CaseEnd::Wait,
        }
    }
}
