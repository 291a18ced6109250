//! The dead letter that an operator makes of an element: the fields of one that a daemon writes.

use bytes::Bytes;

use super::SeenAttempt;
use crate::session::Queue;
use delaybridge_core::message::Identity;
use delaybridge_ledger::claims::Element;
use delaybridge_ledger::{IN_DOUBT, sink_hash};

/// Why it died: what a daemon never writes.
pub const KILLED: &str = "killed";

/// The fields, in the order of a daemon's letters. `message` says who and why. The attempts are those that a daemon has `seen`, and the
/// last one as the header has it, without the sink.
pub fn fields(
    queue: &Queue,
    id: &Identity,
    element: &Element,
    now_ms: i64,
    message: &str,
    seen: &[SeenAttempt],
) -> Vec<(&'static str, Bytes)> {
    let header = element.header();
    let last = (header.last_attempt_ms > 0 && !header.code().is_empty()).then(|| SeenAttempt {
        at_ms: header.last_attempt_ms,
        sink: String::new(),
        class: header.class.map_or("", |class| class.as_str()).to_owned(),
        code: header.code().to_owned(),
    });
    // Numbers and texts can always be written.
    let attempts_seen =
        serde_json::to_string(&SeenAttempt::with_last(seen.to_vec(), last)).unwrap_or_else(|_| "[]".to_owned());
    let spec = &queue.spec;
    let text = |value: &str| Bytes::copy_from_slice(value.as_bytes());
    let time = |ms: i64| if ms == 0 { Bytes::new() } else { ms.to_string().into() };
    let confirmed: Vec<&str> =
        spec.to.iter().map(|to| &*to.sink).filter(|sink| header.confirmed.contains(&sink_hash(sink))).collect();
    let mut fields = vec![
        ("id", id.to_string().into()),
        ("reason", text(KILLED)),
        ("queue", text(&spec.id)),
        ("origin", text(header.origin.as_str())),
        ("due_ms", header.due_ms().map(|ms| Bytes::from(ms.to_string())).unwrap_or_default()),
        ("died_ms", now_ms.to_string().into()),
        ("attempts", header.attempts.to_string().into()),
        ("expiries", text("0")),
        (IN_DOUBT, text(if header.doubt { "1" } else { "0" })),
        ("first_attempt_ms", time(header.first_attempt_ms)),
        ("last_attempt_ms", time(header.last_attempt_ms)),
        ("class", text(header.class.map_or("", |class| class.as_str()))),
        ("code", text(header.code())),
        ("message", text(message)),
        ("sink", Bytes::new()),
        ("destination", Bytes::new()),
        ("confirmed", confirmed.join(",").into()),
        ("codec", text(spec.codec.as_str())),
        ("attempts_seen", attempts_seen.into()),
    ];
    fields.extend(header.kept_score().map(|score| ("score", Bytes::from(score.to_string()))));
    fields.push(("element", element.bytes()));
    fields.extend(element.body_bytes().map(|body| ("body", body.clone())));
    fields
}
