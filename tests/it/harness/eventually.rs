//! Waiting for a condition: the one place of the tests that may sleep.

use std::time::{Duration, Instant};

/// How long to wait between two looks: short against every deadline in the tests, long against a Redis round trip.
const INTERVAL: Duration = Duration::from_millis(5);

/// Looks until `probe` answers `Ok`, and returns what it found.
///
/// `probe` says in its `Err` what it saw instead; when `deadline` has passed, the panic shows what was awaited and what
/// was seen last. A probe that itself hangs is cut at the deadline as well.
pub async fn eventually<T>(what: &str, deadline: Duration, mut probe: impl AsyncFnMut() -> Result<T, String>) -> T {
    let until = Instant::now() + deadline;
    let mut seen = String::from("nothing: the first look did not answer");
    // A machine that stood still has not waited: it looks a few times more.
    let mut looks = 0;
    loop {
        looks += 1;
        let left = until.saturating_duration_since(Instant::now());
        match tokio::time::timeout(left.max(INTERVAL), probe()).await {
            Ok(Ok(found)) => return found,
            Ok(Err(instead)) => seen = instead,
            Err(_) => seen = format!("{seen} (and a last look that did not answer)"),
        }
        if looks > 100 && Instant::now() >= until {
            panic!("waited {deadline:?} for {what}; seen last: {seen}");
        }
        tokio::time::sleep(INTERVAL).await;
    }
}
