//! The body of a message: the payload alone, or wrapped with what is known of the element.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use redisson_codecs::{Payload, View};

use super::{ElementInfo, Envelope};

/// The body that `envelope` makes of the payload.
pub(super) fn wrap(envelope: Envelope, element: &ElementInfo<'_>, payload: &Payload) -> Bytes {
    match envelope {
        // In binary mode all that CloudEvents adds is in headers.
        Envelope::Raw | Envelope::CloudEvents => payload.bytes().clone(),
        Envelope::Decoded => payload.decoded(),
        Envelope::Json => object(element, payload),
    }
}

/// One JSON object on one line.
fn object(element: &ElementInfo<'_>, payload: &Payload) -> Bytes {
    let bytes = payload.bytes();
    let mut body = Vec::with_capacity(bytes.len() + bytes.len() / 2 + element.queue.len() + 96);
    body.extend_from_slice(b"{\"id\":\"");
    body.extend_from_slice(element.id.to_string().as_bytes());
    body.extend_from_slice(b"\",\"queue\":");
    json_string(&mut body, element.queue);
    if let Some(due) = element.due_ms {
        body.extend_from_slice(b",\"due_ms\":");
        body.extend_from_slice(due.to_string().as_bytes());
    }
    body.extend_from_slice(b",\"attempt\":");
    body.extend_from_slice(element.attempt.to_string().as_bytes());
    match payload.view() {
        View::Json(_) => {
            body.extend_from_slice(b",\"payload\":");
            // The producer's own text, so that no digit changes. A line break in valid JSON is between tokens only,
            // where a space means the same: the object stays one line.
            let decoded = payload.decoded();
            let text = decoded.trim_ascii();
            body.extend(text.iter().map(|&byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte }));
        }
        View::Text(text) => {
            body.extend_from_slice(b",\"payload\":");
            json_string(&mut body, text);
        }
        View::Opaque => {
            body.extend_from_slice(b",\"payload_base64\":\"");
            body.extend_from_slice(STANDARD.encode(payload.decoded()).as_bytes());
            body.push(b'"');
        }
    }
    body.push(b'}');
    body.into()
}

fn json_string(body: &mut Vec<u8>, text: &str) {
    // A string always has a JSON form.
    body.extend_from_slice(serde_json::Value::from(text).to_string().as_bytes());
}
