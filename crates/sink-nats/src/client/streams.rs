//! Streams, as JetStream describes them: which of them takes a subject, and its settings. Pure.

use serde_json::json;

use super::session::Body;
use crate::errors;
use delaybridge_core::json::Json;

/// The question for the streams that take a subject.
pub(super) const NAMES: &str = "$JS.API.STREAM.NAMES";

/// The body of that question.
pub(super) fn of_subject(subject: &str) -> Vec<u8> {
    json!({ "subject": subject }).to_string().into_bytes()
}

/// The streams in the answer. The error is that of JetStream; `None` if nobody answers, or the answer is none.
pub(super) fn names(body: Body) -> Result<Vec<String>, Option<(u64, String)>> {
    let members = body.and_then(errors::members).ok_or(None)?;
    if let Some(error) = errors::error_in(&members) {
        return Err(Some(error));
    }
    // Without any, it is absent or null.
    let items = errors::member(&members, "streams").and_then(|streams| streams.items(1000).ok()).unwrap_or_default();
    let name = |item: &Json| item.text().map(|name| String::from_utf8_lossy(&name).into_owned());
    Ok(items.iter().filter_map(name).collect())
}
