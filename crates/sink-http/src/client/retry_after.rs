//! `Retry-After`: the time for which the server wants to be left alone.
//!
//! The breaker of the pipeline asks again after 30 s at the latest. A URL that asks for longer gets it in `urls.rs`: until then
//! every element for it is refused without a byte on the wire.

use std::time::Duration;

use hyper::HeaderMap;
use hyper::header::{DATE, HeaderName, RETRY_AFTER};

/// The longest wait that is obeyed. A mistaken header must not stop a queue for days.
pub(super) const LONGEST: Duration = Duration::from_secs(3600);

/// Returns the wait that the headers of a response ask for: seconds, or a date. `now_ms` is the time in milliseconds
/// since the epoch, for a server that does not send its own.
pub(super) fn wait(headers: &HeaderMap, now_ms: i64) -> Option<Duration> {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let asked = text(RETRY_AFTER)?;
    let wait = if !asked.is_empty() && asked.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than a number has room for: very long.
        asked.parse().map_or(LONGEST, Duration::from_secs)
    } else {
        let until = since_epoch(asked)?;
        // By the server's own clock, so that it does not matter whether ours agrees.
        let now = text(DATE).and_then(since_epoch);
        let now = now.unwrap_or_else(|| Duration::from_millis(u64::try_from(now_ms).unwrap_or(0)));
        until.saturating_sub(now)
    };
    Some(wait.min(LONGEST))
}

fn since_epoch(date: &str) -> Option<Duration> {
    httpdate::parse_http_date(date).ok()?.duration_since(std::time::UNIX_EPOCH).ok()
}
