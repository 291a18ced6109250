//! The record of an element's fate: one JSON object on one line, without the payload. Pure.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::claim::element::ElementState;
use crate::settle::verdict::{Death, Verdict};
use delaybridge_model::AuditFate;

/// The version of the format. A field that is added does not change it.
const VERSION: u32 = 1;

/// Returns the record of an element that has this fate at this time of Redis.
pub(super) fn record(state: &ElementState, (fate, verdict): (AuditFate, &Verdict), attempt: u32, now_ms: i64) -> Bytes {
    let header = &state.header;
    let queue = state.queue();
    let death = match verdict {
        Verdict::Dead(death) => Some(death),
        _ => None,
    };
    let confirmed = queue.routes.iter().enumerate().filter(|(_, route)| header.confirmed.contains(&route.handle.hash));
    let destinations: Vec<Value> = confirmed.map(|(place, _)| destination(state, place).into()).collect();
    let counted = header.attempts.saturating_add(death.is_some_and(Death::ended_an_attempt).into());
    let time = |ms: i64| (ms != 0).then_some(ms);
    let fields = [
        ("version", Some(json!(VERSION))),
        ("fate", Some(json!(fate.as_str()))),
        ("queue", Some(json!(&*queue.spec.id))),
        ("id", Some(json!(state.id))),
        ("origin", Some(json!(header.origin.as_str()))),
        ("due_ms", header.due_ms().map(|ms| json!(ms))),
        // Nothing is delivered before its time by Redis's clock, of which the daemon's estimate may be some ms behind.
        ("at_ms", Some(json!(header.due_ms().unwrap_or(now_ms).max(now_ms)))),
        ("attempt", Some(json!(attempt))),
        ("counted_attempts", Some(json!(counted))),
        ("first_attempt_ms", time(header.first_attempt_ms).map(|ms| json!(ms))),
        ("last_attempt_ms", time(header.last_attempt_ms).map(|ms| json!(ms))),
        ("confirmed", Some(json!(destinations))),
        ("reason", death.map(|death| json!(death.reason.as_str()))),
        ("failed", death.and_then(|death| Some(destination(state, death.sink?).into()))),
        ("class", death.and_then(|death| Some(json!(death.failure.as_ref()?.class.as_str())))),
        ("code", death.and_then(|death| Some(json!(death.failure.as_ref()?.code)))),
    ];
    let fields = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(fields.collect()).to_string().into()
}

/// Returns a destination of the element, by its sink, and by its name if the element went there in this attempt.
fn destination(state: &ElementState, place: usize) -> Map<String, Value> {
    let sink = state.queue().routes.get(place).map(|route| ("sink".to_owned(), json!(&*route.spec.sink)));
    let found = state.sent_to.iter().find(|(sent, _)| *sent == place);
    sink.into_iter().chain(found.map(|(_, name)| ("destination".to_owned(), json!(name)))).collect()
}
