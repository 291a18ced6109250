//! The class of every failure of a webhook; one row a status, each tested.
//!
//! A status that is in no row is `Unknown`: retried, counted, never a success. Nothing of a response is quoted but its
//! status, nothing of the URL but scheme, host and port: the rest may hold a token or a part of the payload.

use std::time::Duration;

use hyper::header::LOCATION;
use hyper::{HeaderMap, StatusCode, Uri};

use super::super::{HttpSpec, codes};
use delaybridge_core::message::{About, Class, Failure};
use delaybridge_dial::DialError;
use delaybridge_http_client::default_port;
use delaybridge_sink::ErrorRow;

/// Returns method, scheme, host and port, for messages to a person. Path and query may hold a token or a part of the
/// payload, so no message has them.
pub(super) fn attempt(spec: &HttpSpec) -> String {
    format!("{} {}", spec.method.as_str(), spec.origin)
}

/// Classifies a status; `None` is success. `path` is the path that was requested. `again`: the server may have had the element
/// before.
pub(super) fn of_status(
    spec: &HttpSpec,
    status: StatusCode,
    headers: &HeaderMap,
    path: &str,
    again: bool,
) -> Option<Failure> {
    if status.is_success() {
        return None;
    }
    let row = row(status.as_u16(), again);
    let name = status.canonical_reason().map(|name| format!(" {name}")).unwrap_or_default();
    let said = format!("{}: the server answered {}{name}", attempt(spec), status.as_u16());
    let failure = if status.is_redirection() {
        row.failure(format!("{said}: {}", points_to(spec, headers, path)))
    } else {
        row.with_cure(said)
    };
    let about = match row {
        codes::STATUS_401 => About::Account,
        codes::STATUS_409 => About::Message,
        _ if row.class == Class::MessagePermanent => About::Message,
        _ => About::Target,
    };
    Some(failure.about(about))
}

/// Returns the row of a status. `again`: the server may have had the element before.
fn row(status: u16, again: bool) -> ErrorRow {
    match status {
        400 => codes::STATUS_400,
        401 => codes::STATUS_401,
        403 => codes::STATUS_403,
        404 => codes::STATUS_404,
        405 => codes::STATUS_405,
        408 => codes::STATUS_408,
        // The idempotency key of a request that it still works on. The first one with a key is in nobody's way.
        409 if again => codes::STATUS_409,
        410 => codes::STATUS_410,
        413 => codes::STATUS_413,
        415 => codes::STATUS_415,
        422 => codes::STATUS_422,
        425 => codes::STATUS_425,
        429 => codes::STATUS_429,
        // The request was sent: what the server did with it before it failed is not known.
        500 => codes::STATUS_500,
        502 => codes::STATUS_502,
        503 => codes::STATUS_503,
        504 => codes::STATUS_504,
        _ => match status / 100 {
            3 => codes::STATUS_3XX,
            4 => codes::STATUS_4XX,
            5 => codes::STATUS_5XX,
            _ => codes::STATUS_OTHER,
        },
    }
}

/// Classifies the status of a probe. The path that was requested is not the user's, so any answer of the server itself
/// means that it is there; only a proxy before it says that it is not.
pub(super) fn of_probe(spec: &HttpSpec, status: StatusCode) -> Option<Failure> {
    let row = match status.as_u16() {
        502 => codes::STATUS_502,
        503 => codes::STATUS_503,
        504 => codes::STATUS_504,
        _ => return None,
    };
    let name = status.canonical_reason().unwrap_or_default();
    let text = format!("probe {}: the server answered {} {name}", spec.origin, status.as_u16());
    Some(row.of_class(Class::Transient).failure(text))
}

/// Builds the failure of a probe without a complete answer.
pub(super) fn probe_lost(spec: &HttpSpec, error: &hyper::Error) -> Failure {
    let (code, why) = match error.is_parse() {
        true if is_of_version(error) => (codes::GARBAGE.code, "what the server answered is not HTTP".to_owned()),
        true => (codes::UNREADABLE.code, "the head of the server's answer cannot be read".to_owned()),
        false => ("connection_lost", format!("the connection broke before the answer ({})", root(error))),
    };
    Failure::new(Class::Transient, code, format!("probe {}: {why}", spec.origin))
}

/// Builds the failure of a probe without an answer in time.
pub(super) fn probe_timeout(spec: &HttpSpec, limit: Duration) -> Failure {
    Failure::new(Class::Transient, "timeout", format!("probe {}: no answer within {limit:?}", spec.origin))
}

/// Describes the target of a redirect without its path and query, which may hold a token.
fn points_to(spec: &HttpSpec, headers: &HeaderMap, path: &str) -> String {
    const NOT_FOLLOWED: &str = "redirects are not followed";
    let location = headers.get(LOCATION).and_then(|value| Uri::try_from(value.as_bytes()).ok());
    let Some(location) = location else { return format!("{NOT_FOLLOWED}, and it does not say where to") };
    let own = spec.origin.to_string();
    let there = match (location.scheme_str(), location.host()) {
        (Some(scheme), Some(host)) => match location.port_u16() {
            Some(port) if port != default_port(scheme == "https") => format!("{scheme}://{host}:{port}"),
            _ => format!("{scheme}://{host}"),
        },
        _ => own.clone(),
    };
    if there != own {
        return format!("it points to {there}, and {NOT_FOLLOWED}: correct `url`");
    }
    let before_query = |path: &str| path.split('?').next().unwrap_or_default().to_owned();
    let from = before_query(path);
    let to = location.path();
    if to == format!("{from}/") {
        format!("it points to the same path with a `/` at its end, and {NOT_FOLLOWED}: correct `url`")
    } else if to == from {
        format!("it points to the same path, and {NOT_FOLLOWED}: look at the server")
    } else {
        format!("it points to another path of the same server, and {NOT_FOLLOWED}: correct `url`")
    }
}

/// Builds the failure while the server's pause, for which it asked, is not over.
pub(super) fn paused(spec: &HttpSpec, left: Duration) -> Failure {
    let text = format!("{}: not sent: the server asked to wait {} s more", attempt(spec), left.as_secs() + 1);
    codes::RETRY_AFTER.failure(text).about(About::Target).after(Some(left))
}

/// Builds the failure for a host of which no URL takes anything, and enough are tried. This URL was not asked: the
/// element waits by itself.
pub(super) fn host_busy(spec: &HttpSpec, wait: Duration) -> Failure {
    let text =
        format!("{}: not sent: paths of this server were busy, and none has taken anything since", attempt(spec));
    Failure::new(Class::Backpressure, Failure::NOT_SENT, text).about(About::Message).after(Some(wait))
}

/// Builds the failure of a request that was handed to the connection without getting a complete answer. `has_answered`:
/// the connection had brought an answer before.
pub(super) fn lost(spec: &HttpSpec, error: &hyper::Error, has_answered: bool) -> Failure {
    // Whoever has answered has accepted us: then it has something else to refuse, and may have looked at the request.
    if let Some(refused) = DialError::refused_client(error).filter(|_| !has_answered) {
        return not_connected(spec, &refused);
    }
    if was_refused(error) {
        let text = format!("{}: the server refused the stream before it looked at the request", attempt(spec));
        return Failure::new(Class::Transient, Failure::NOT_SENT, text).about(About::Target);
    }
    let (class, code, why) = if error.is_parse() && is_of_version(error) {
        // The port may belong to another protocol: nothing counts, so that no element is lost to that.
        (codes::GARBAGE.class, codes::GARBAGE.code, "what the server answered is not HTTP")
    } else if error.is_parse() {
        // The same request would get the same answer for ever: it counts.
        (codes::UNREADABLE.class, codes::UNREADABLE.code, "the head of the server's answer cannot be read")
    } else if error.is_incomplete_message() {
        (Class::Ambiguous, "connection_lost", "the connection was closed before the answer")
    } else {
        (Class::Ambiguous, "connection_lost", "the connection broke before the answer")
    };
    // The error's own words name system calls and frames, never bytes of the answer; a parser's may.
    let detail = if error.is_parse() { String::new() } else { format!(" ({})", root(error)) };
    Failure::new(class, code, format!("{}: {why}{detail}: it may have arrived", attempt(spec))).about(About::Target)
}

/// Returns whether the first bytes of an answer are not those of HTTP. The library has no other way to tell than its
/// words.
fn is_of_version(error: &hyper::Error) -> bool {
    error.is_parse_version_h2() || error.to_string().contains("HTTP version")
}

/// Returns whether an HTTP/2 server says that it did not look at the stream: it refuses it, or its number is above the
/// last one that it says it looks at when it closes. The library gives that error to no other stream.
fn was_refused(error: &hyper::Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref::<h2::Error>() {
            let refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
            return error.is_remote() && (refused || error.is_go_away());
        }
        source = error.source();
    }
    false
}

/// Returns the innermost cause, which has the words of the system.
fn root(error: &hyper::Error) -> String {
    let mut last: &dyn std::error::Error = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

/// Builds the failure of an answer that began with a status of success, and whose end never came.
pub(super) fn truncated(spec: &HttpSpec) -> Failure {
    let text = format!("{}: the connection broke within the answer: it may have arrived", attempt(spec));
    codes::TRUNCATED.failure(text).about(About::Target)
}

/// Builds the failure of a request without an answer in time.
pub(super) fn timeout(spec: &HttpSpec, limit: Duration) -> Failure {
    let text = format!("{}: no answer within {limit:?}", attempt(spec));
    Failure::new(Class::Ambiguous, "timeout", text).about(About::Target)
}

/// Builds the failure of an element whose turn did not come in time.
pub(super) fn not_sent(spec: &HttpSpec, limit: Duration) -> Failure {
    let text =
        format!("{}: not sent within {limit:?}: more requests are under way than the server answers", attempt(spec));
    Failure::new(Class::Transient, Failure::NOT_SENT, text).about(About::Target)
}

/// Builds the failure of an element whose sink was closed before its turn came.
pub(super) fn closed(spec: &HttpSpec) -> Failure {
    Failure::new(Class::Transient, "closed", format!("{}: the sink is closed", attempt(spec)))
}

/// Builds the failure without a connection. Where TLS is the reason, a certificate, a version or a file has to be
/// repaired.
pub(super) fn not_connected(spec: &HttpSpec, error: &DialError) -> Failure {
    let attempted = format!("connect to {}", spec.origin);
    if error.needs_a_person() {
        error.failure(attempted)
    } else {
        Failure::new(Class::Transient, Failure::NOT_CONNECTED, format!("{attempted}: {error}"))
    }
}

/// Builds the failure of a connection that ended before anything was sent on it.
pub(super) fn handshake(spec: &HttpSpec, error: &hyper::Error) -> Failure {
    Failure::new(Class::Transient, Failure::NOT_CONNECTED, format!("connect to {}: {error}", spec.origin))
}

/// Builds the failure while connections keep ending before anything is sent on them.
pub(super) fn ended_at_once(spec: &HttpSpec) -> Failure {
    let text = format!("connect to {}: the server closes each connection at once", spec.origin);
    Failure::new(Class::Transient, Failure::NOT_CONNECTED, text)
}

/// Builds the failure of a file with a token or with secrets that cannot be used.
pub(super) fn secret(spec: &HttpSpec, why: &str) -> Failure {
    Failure::new(Class::TargetPermanent, "secret", format!("{}: {why}", attempt(spec)))
}
