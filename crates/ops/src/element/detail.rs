//! Everything that is known of one element.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::content::{Content, with_content};
use crate::peek::{PeekState, PeekedElement, routes_of};
use crate::session::Queue;
use delaybridge_core::message::{Identity, MessageId, Origin};
use delaybridge_ledger::claims::{Body, Element};
use delaybridge_ledger::{DeadLetter, Located, NoPayload, Place, sink_hash};
use delaybridge_model::QueueSpec;

/// One element with its history. Fields that its state does not have are left out.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct Detail {
    /// The element's id.
    pub id: Option<Identity>,
    /// The state.
    pub state: PeekState,
    /// The due time.
    pub due_ms: Option<i64>,
    /// Of one that waits for a retry: when it is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_attempt_ms: Option<i64>,
    /// Of one in flight: when its lease ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_ends_ms: Option<i64>,
    /// Of one in flight: who has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_by: Option<Holder>,
    /// Of a dead letter: its place in the stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream_id: Option<String>,
    /// Of a dead letter: when it died.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub died_ms: Option<i64>,
    /// Of a dead letter: why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Attempts that counted so far.
    pub attempts: u32,
    /// The time of the first attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_attempt_ms: Option<i64>,
    /// The time of the last attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempt_ms: Option<i64>,
    /// Class of the last failure.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub class: String,
    /// Code of the last failure.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub code: String,
    /// Message of the last failure: only a dead letter has it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The sink that decided about a dead letter.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sink: String,
    /// The destination there.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub destination: String,
    /// Sinks that have confirmed it. One that is not in the configuration any more is the 16 digits of its hash.
    pub confirmed: Vec<String>,
    /// Sinks that are still to get it.
    pub outstanding: Vec<String>,
    /// Each attempt of a dead letter, as far as the daemon that wrote it, or that killed the element, remembered them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts_seen: Option<Value>,
    /// `D` elements came from the schedule, `ready` ones from the ready list.
    pub origin: Cow<'static, str>,
    /// `old`, `new`, `bare`, `junk` or `unknown`.
    pub layout: Cow<'static, str>,
    /// Bytes of the payload.
    pub size: usize,
    /// Why there is no payload to deliver, if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The destinations of a delivery now, by sink, or the other end of the element.
    pub routes: Vec<String>,
    /// The payload.
    #[serde(flatten, skip_deserializing)]
    pub content: Content,
}

with_content!(Detail);

/// As a line of a list.
impl From<Detail> for PeekedElement {
    fn from(element: Detail) -> Self {
        PeekedElement {
            id: element.id,
            state: element.state,
            stream_id: element.stream_id,
            due_ms: element.due_ms,
            next_attempt_ms: element.next_attempt_ms,
            lease_ends_ms: element.lease_ends_ms,
            attempts: element.attempts,
            code: element.code,
            layout: element.layout,
            size: element.size,
            routes: None,
            content: element.content,
        }
    }
}

/// The claim that has an element.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Name of the claim.
    pub claim: String,
    /// The random number of the daemon that made it.
    pub daemon: String,
    /// Leases in a row that ran out on it.
    pub expiries: u16,
}

/// Returns a time in a header: 0 is none.
fn some(ms: i64) -> Option<i64> {
    (ms != 0).then_some(ms)
}

/// Returns the sinks of a queue that are among these hashes, the hashes that are of none, and the sinks that are not
/// among them.
fn sinks(spec: &QueueSpec, hashes: &[u64]) -> (Vec<String>, Vec<String>) {
    let named = |hash: &u64| spec.to.iter().find(|to| sink_hash(&to.sink) == *hash).map(|to| to.sink.to_string());
    let confirmed = hashes.iter().map(|hash| named(hash).unwrap_or_else(|| format!("{hash:016x}"))).collect();
    let mut others: Vec<String> = Vec::new();
    for to in spec.to.iter().filter(|to| !hashes.contains(&sink_hash(&to.sink))) {
        if others.iter().all(|other| **other != *to.sink) {
            others.push(to.sink.to_string());
        }
    }
    (confirmed, others)
}

impl Detail {
    /// One that is scheduled, waits for a retry or is in flight.
    pub(super) fn alive(queue: &Queue, located: &Located, element: &Element) -> Detail {
        let spec = &queue.spec;
        let header = element.header();
        let (id, opened) = queue.ledger.open(element);
        let (payload, problem) = match opened {
            Ok(payload) => (payload, None),
            // Its own record says when it is due; that it is not yet is no problem.
            Err(NoPayload::NotDue(_)) => (due_payload(queue, element), None),
            Err(why) => (element.bytes(), Some(why.to_string())),
        };
        let layout = match (&problem, element.origin()) {
            (Some(_), _) => "junk",
            (None, Origin::Ready) => "bare",
            (None, Origin::Delayed) => queue
                .ledger
                .source()
                .search()
                .read(header.given_id(), &element.bytes(), element.bytes().len())
                .shape
                .as_str(),
        };
        let (confirmed, outstanding) = sinks(spec, &header.confirmed);
        let score_ms = located.score.map(|score| score.ceil_ms());
        let claim = located.claim.as_ref();
        let attempt = header.attempts.saturating_add(1);
        Detail {
            state: match located.place {
                Place::Scheduled => PeekState::Scheduled,
                Place::Retry => PeekState::Retry,
                Place::InFlight => PeekState::InFlight,
                Place::Ready => PeekState::Ready,
            },
            due_ms: element.due_ms(),
            next_attempt_ms: score_ms.filter(|_| located.place == Place::Retry),
            lease_ends_ms: claim.map(|claim| claim.until_ms),
            held_by: claim.map(|claim| Holder {
                claim: claim.name.to_string(),
                daemon: MessageId(claim.name.owner).to_string(),
                expiries: claim.name.expiries,
            }),
            attempts: header.attempts,
            first_attempt_ms: some(header.first_attempt_ms),
            last_attempt_ms: some(header.last_attempt_ms),
            class: header.class.map(|class| class.as_str().to_owned()).unwrap_or_default(),
            code: header.code().to_owned(),
            confirmed,
            outstanding,
            origin: header.origin.as_str().into(),
            layout: layout.into(),
            size: payload.len(),
            routes: match &problem {
                Some(why) => vec![format!("nowhere: {why}")],
                None => routes_of(spec, &id, element.due_ms(), attempt, &payload),
            },
            problem,
            content: Content::new(spec.codec, payload, true).with(&spec.classes),
            id: Some(id),
            ..Detail::default()
        }
    }

    pub(super) fn dead(queue: &Queue, letter: DeadLetter) -> Detail {
        let spec = &queue.spec;
        let text = |name: &str| letter.text(name).to_owned();
        let payload = queue.ledger.dead_payload(&letter).unwrap_or_default();
        let id = letter.identity();
        let due_ms = letter.number("due_ms");
        let confirmed: Vec<String> =
            letter.text("confirmed").split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let outstanding = spec.to.iter().map(|to| to.sink.to_string()).filter(|sink| !confirmed.contains(sink));
        let unreadable = letter.reborn().err().map(|error| error.to_string());
        let origin = if letter.text("origin") == "ready" { Origin::Ready } else { Origin::Delayed };
        Detail {
            state: PeekState::Dead,
            due_ms,
            died_ms: letter.number("died_ms"),
            reason: text("reason"),
            attempts: letter.number("attempts").and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
            first_attempt_ms: letter.number("first_attempt_ms"),
            last_attempt_ms: letter.number("last_attempt_ms"),
            class: text("class"),
            code: text("code"),
            message: text("message"),
            sink: text("sink"),
            destination: text("destination"),
            outstanding: outstanding.collect(),
            confirmed,
            attempts_seen: serde_json::from_slice(letter.bytes("attempts_seen").map_or(&[], |bytes| &bytes[..])).ok(),
            origin: origin.as_str().into(),
            layout: if unreadable.is_some() { "unknown" } else { "bare" }.into(),
            size: payload.len(),
            routes: match (&unreadable, &id) {
                (None, Some(id)) => routes_of(spec, id, due_ms, 1, &payload),
                _ => vec!["nowhere: the letter cannot be read".to_owned()],
            },
            problem: unreadable,
            content: Content::new(spec.codec, payload, true).with(&spec.classes),
            stream_id: Some(letter.stream_id),
            id,
            ..Detail::default()
        }
    }
}

/// Returns the payload as it will be at its time.
fn due_payload(queue: &Queue, element: &Element) -> bytes::Bytes {
    let mut later = element.clone();
    if let Some(Body::Here { read_ms, .. }) = later.body.as_deref_mut() {
        *read_ms = i64::MAX;
    }
    queue.ledger.open(&later).1.unwrap_or_default()
}
