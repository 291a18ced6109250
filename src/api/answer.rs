//! The common parts of requests and answers: the id of a request, its token, and the last headers of its answer.

use hyper::header::{ALLOW, AUTHORIZATION, CONTENT_ENCODING, HeaderName, HeaderValue, VARY};
use hyper::{HeaderMap, Response};

use super::gzip;
use super::handover::{ReplyBody, Unflushed};
use super::problem::Problem;
use super::reply::Reply;
use super::room::BodyMemory;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Longest answer that is packed where it is made: that takes a few milliseconds.
const PACKED_HERE: usize = 256 << 10;

/// The token behind `Authorization: Bearer`.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The client's own id of the request, if it is harmless, else a new one.
pub fn request_id(headers: &HeaderMap) -> HeaderValue {
    let given = headers.get(REQUEST_ID).filter(|id| {
        let bytes = id.as_bytes();
        (1..=64).contains(&bytes.len())
            && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(byte))
    });
    let new = || {
        HeaderValue::try_from(format!("{:016x}", fastrand::u64(..))).unwrap_or_else(|_| HeaderValue::from_static("0"))
    };
    given.cloned().unwrap_or_else(new)
}

/// Writes the answer as it leaves. A large one is packed on another thread.
pub async fn finish(
    reply: Reply,
    asked: &HeaderMap,
    id: HeaderValue,
    unflushed: Unflushed,
    memory: &BodyMemory,
) -> Response<ReplyBody> {
    let Reply { status, headers, body, reserved, feed } = reply;
    let packed = match body.len() {
        length if !gzip::is_wanted(asked, length) => None,
        ..=PACKED_HERE => gzip::pack(&body),
        _ => {
            let body = body.clone();
            // Not packed, it is right as well.
            memory.aside(move || gzip::pack(&body)).await.unwrap_or_default()
        }
    };
    let coded = packed.is_some();
    let mut response = Response::new(ReplyBody::new(packed.unwrap_or(body), reserved, unflushed).followed_by(feed));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, id);
    headers.insert(hyper::header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(hyper::header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if coded {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    }
    response
}

/// Adds the header for a path with other methods.
pub fn allow(reply: Reply, problem: &Problem) -> Reply {
    match problem.fields.get("allow").and_then(|allow| allow.as_str()) {
        Some(allow) => reply.header(ALLOW, allow),
        None => reply,
    }
}
