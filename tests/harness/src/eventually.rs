//! Waiting for a condition: the only place in the tests that may sleep.

use std::time::{Duration, Instant};

/// The first pause between two probes: short compared with every deadline in the tests, long compared with a Redis
/// round trip.
const SHORTEST: Duration = Duration::from_millis(5);
/// The longest pause: short compared with everything that a test waits for, so that no state is missed.
const LONGEST: Duration = Duration::from_millis(50);

/// The pause after a probe, by its duration and the wait so far.
///
/// The end of a wait of seconds need not be seen to the millisecond, and probes that open a connection or read a whole
/// topic must not take CPU time from what they wait for.
fn pause(waited: Duration, probe: Duration) -> Duration {
    (waited / 20).max(probe).clamp(SHORTEST, LONGEST)
}

/// Repeats `probe` until it returns `Ok`, and returns that value.
///
/// The `Err` of `probe` describes what it saw; after `deadline`, the panic shows what was awaited and what was seen
/// last. A probe that hangs is cancelled at the deadline as well.
pub async fn eventually<T>(what: &str, deadline: Duration, mut probe: impl AsyncFnMut() -> Result<T, String>) -> T {
    let began = Instant::now();
    let until = began + deadline;
    let mut seen = String::from("nothing: the first look did not answer");
    // After a stall of the machine, poll a few times more.
    let mut looks = 0;
    loop {
        looks += 1;
        let probed = Instant::now();
        let left = until.saturating_duration_since(probed);
        match tokio::time::timeout(left.max(SHORTEST), probe()).await {
            Ok(Ok(found)) => return found,
            Ok(Err(instead)) => seen = instead,
            Err(_) => seen = format!("{seen} (and a last look that did not answer)"),
        }
        if looks > 100 && Instant::now() >= until {
            panic!("waited {deadline:?} for {what}; seen last: {seen}");
        }
        tokio::time::sleep(pause(began.elapsed(), probed.elapsed())).await;
    }
}
