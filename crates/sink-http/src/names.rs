//! Names of headers that are not the user's to choose.

use delaybridge_sink::headers;

/// Headers that belong to the connection or say where the body ends.
const FRAMING: [&str; 9] =
    ["connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"];

/// Header with the element's id, by which a receiver recognises a second copy.
pub(super) const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Returns whether every request has this header already, in any spelling.
pub(super) fn is_ours(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    headers::is_standard(&name) || name == IDEMPOTENCY_KEY || name.starts_with("webhook-")
}

/// Returns whether the header belongs to the connection, in any spelling.
pub(super) fn is_framing(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    FRAMING.contains(&name.as_str()) || name.starts_with("proxy-")
}

/// Returns whether HTTP has a header of this name.
pub(super) fn is_name(name: &str) -> bool {
    hyper::header::HeaderName::try_from(name).is_ok()
}
