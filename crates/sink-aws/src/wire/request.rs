//! A request before it is signed, and whether it was accepted as a whole.

use bytes::Bytes;

use delaybridge_http_client::HttpAnswer;

/// A request before it is signed: the headers that are not of the connection, in lower case, and the body.
pub(crate) struct WireRequest {
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    pub(crate) body: Bytes,
}

/// Returns whether the service has accepted the request as a whole.
pub(crate) fn is_accepted(answer: &HttpAnswer) -> bool {
    (200..=299).contains(&answer.status)
}
