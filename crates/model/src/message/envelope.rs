//! The payload in a JSON object, with the id, queue, due time and attempt of the element.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use redisson_codecs::View;

use crate::Payload;
use delaybridge_core::template::ElementInfo;

/// Writes one JSON object on one line.
pub(super) fn object(element: &ElementInfo<'_>, payload: &Payload) -> Bytes {
    let bytes = payload.bytes();
    let mut body = Vec::with_capacity(bytes.len() + bytes.len() / 2 + element.queue.len() + 96);
    body.extend_from_slice(b"{\"id\":\"");
    body.extend_from_slice(element.id.to_string().as_bytes());
    body.push(b'"');
    field(&mut body, "queue", element.queue);
    if let Some(due) = element.due_ms {
        body.extend_from_slice(b",\"due_ms\":");
        body.extend_from_slice(due.to_string().as_bytes());
    }
    body.extend_from_slice(b",\"attempt\":");
    body.extend_from_slice(element.attempt.to_string().as_bytes());
    value(&mut body, "payload", payload);
    body.push(b'}');
    body.into()
}

/// Adds the name of a field, behind others. Without a text of its own: each element passes here.
fn key(body: &mut Vec<u8>, name: &str, suffix: &str) {
    for part in [",\"", name, suffix, "\":"] {
        body.extend_from_slice(part.as_bytes());
    }
}

/// Adds a text.
pub(super) fn field(body: &mut Vec<u8>, name: &str, text: &str) {
    key(body, name, "");
    json_string(body, text);
}

/// Adds the payload's value under this name, bytes as base64 under `NAME_base64`.
pub(super) fn value(body: &mut Vec<u8>, name: &str, payload: &Payload) {
    match payload.view() {
        View::Json(_) => {
            key(body, name, "");
            // The producer's own text, so that no digit changes. A line break in valid JSON is between tokens only,
            // where a space means the same: the object stays one line.
            let decoded = payload.decoded();
            let text = decoded.trim_ascii();
            body.extend(text.iter().map(|&byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte }));
        }
        View::Text(text) => field(body, name, text),
        View::Opaque => {
            key(body, name, "_base64");
            body.push(b'"');
            body.extend_from_slice(STANDARD.encode(payload.decoded()).as_bytes());
            body.push(b'"');
        }
    }
}

fn json_string(body: &mut Vec<u8>, text: &str) {
    // A string always has a JSON form.
    body.extend_from_slice(serde_json::Value::from(text).to_string().as_bytes());
}
