//! The fields of a dead letter: everything that redrive needs byte for byte, and everything that a person asks first.
//! No payload but the raw element, no secret.

use bytes::Bytes;

use crate::claim::element::ElementState;
use crate::settle::verdict::Death;
use delaybridge_ledger::IN_DOUBT;

/// Returns the fields of the dead stream, in their order.
pub fn fields(state: &ElementState, death: &Death) -> Vec<(&'static str, Bytes)> {
    let Death { reason, sink, destination, failure, shown: _ } = death;
    let header = &state.header;
    let queue = state.queue();
    let attempts = header.attempts.saturating_add(death.ended_an_attempt().into());
    let in_doubt = header.doubt || state.claim.name.expiries > 0;
    let now_ms = queue.home().now_ms();
    let text = |value: String| Bytes::from(value);
    let time = |ms: i64| if ms == 0 { Bytes::new() } else { text(ms.to_string()) };
    let sink_name = |place: usize| queue.routes.get(place).map(|route| route.spec.sink.to_string());
    let confirmed: Vec<String> = queue
        .routes
        .iter()
        .filter(|route| header.confirmed.contains(&route.handle.hash))
        .map(|route| route.spec.sink.to_string())
        .collect();
    let (class, code, message) = match failure {
        Some(failure) => (failure.class.as_str(), failure.code.to_owned(), failure.message.clone()),
        None => (header.class.map_or("", |class| class.as_str()), header.code().to_owned(), String::new()),
    };
    let attempts_seen = serde_json::to_string(&queue.history.take(state.id.id)).unwrap_or_default();
    let mut fields = vec![
        ("id", text(state.id.to_string())),
        ("reason", Bytes::from_static(reason.as_str().as_bytes())),
        ("queue", text(queue.spec.id.to_string())),
        ("origin", Bytes::from_static(header.origin.as_str().as_bytes())),
        ("due_ms", header.due_ms().map(|ms| text(ms.to_string())).unwrap_or_default()),
        ("died_ms", text(now_ms.to_string())),
        ("attempts", text(attempts.to_string())),
        ("expiries", text(state.claim.name.expiries.to_string())),
        (IN_DOUBT, Bytes::from_static(if in_doubt { b"1" } else { b"0" })),
        ("first_attempt_ms", time(header.first_attempt_ms)),
        ("last_attempt_ms", time(header.last_attempt_ms)),
        ("class", Bytes::from_static(class.as_bytes())),
        ("code", text(code)),
        ("message", text(message)),
        ("sink", text(sink.and_then(sink_name).unwrap_or_default())),
        ("destination", text(destination.clone().unwrap_or_default())),
        ("confirmed", text(confirmed.join(","))),
        ("codec", Bytes::from_static(queue.spec.codec.as_str().as_bytes())),
        ("attempts_seen", text(attempts_seen)),
    ];
    // Only of a source with scores that are no times in ms, which go back as they were.
    fields.extend(header.kept_score().map(|score| ("score", text(score.to_string()))));
    fields.push(("element", state.element.bytes()));
    // The letter has the job whole, because its body goes from where it was.
    fields.extend(state.element.body_bytes().map(|body| ("body", body.clone())));
    fields
}
