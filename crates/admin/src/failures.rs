//! Wrong tokens, by the address that they came from: after a few of them none is accepted from there for a while.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use parking_lot::Mutex;

use delaybridge_core::clock::Instant;

/// Wrong tokens of one address that are only refused.
const ALLOWED: u32 = 10;
/// The time for which failures count, and for which no token is accepted after too many.
const WHILE: Duration = Duration::from_secs(60);
/// Addresses with a count of their own. Those beyond share one.
const ADDRESSES: usize = 1_024;

/// The wrong tokens of the last minute.
#[derive(Default)]
pub struct Failures(Mutex<HashMap<Option<IpAddr>, FailureCount>>);

#[derive(Debug, Clone, Copy)]
struct FailureCount {
    first: Instant,
    failures: u32,
}

impl Failures {
    /// Returns the time for which no token is accepted from this address any more.
    pub fn locked(&self, from: IpAddr) -> Option<Duration> {
        self.locked_at(from, Instant::now())
    }

    /// Returns one more; how many there were and how long none is accepted, if this one was the last straw.
    pub fn note(&self, from: IpAddr) -> Option<(u32, Duration)> {
        self.note_at(from, Instant::now())
    }

    fn locked_at(&self, from: IpAddr, now: Instant) -> Option<Duration> {
        let counts = self.0.lock();
        let count = counts.get(&Some(from)).or_else(|| counts.get(&None))?;
        let left = WHILE.checked_sub(now.since(count.first)).filter(|left| !left.is_zero())?;
        (count.failures >= ALLOWED).then_some(left)
    }

    fn note_at(&self, from: IpAddr, now: Instant) -> Option<(u32, Duration)> {
        let mut counts = self.0.lock();
        counts.retain(|_, count| now.since(count.first) < WHILE);
        let own = counts.len() < ADDRESSES || counts.contains_key(&Some(from));
        let count = counts.entry(own.then_some(from)).or_insert(FailureCount { first: now, failures: 0 });
        count.failures = count.failures.saturating_add(1);
        if count.failures == ALLOWED {
            // From the last one on.
            count.first = now;
            return Some((count.failures, WHILE));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_guesses_has_to_wait_and_others_need_not() {
        let failures = Failures::default();
        let now = Instant::now();
        let one = "10.0.0.1".parse().unwrap();
        let other = "10.0.0.2".parse().unwrap();
        for _ in 1..ALLOWED {
            assert_eq!(failures.note_at(one, now), None);
        }
        assert_eq!(failures.locked_at(one, now), None);
        assert_eq!(failures.note_at(one, now), Some((ALLOWED, WHILE)));
        assert_eq!(failures.locked_at(one, now.after(Duration::from_secs(20))), Some(Duration::from_secs(40)));
        assert_eq!(failures.locked_at(other, now), None);
        assert_eq!(failures.locked_at(one, now.after(WHILE)), None);
    }

    #[test]
    fn the_number_of_addresses_is_bounded() {
        let failures = Failures::default();
        let now = Instant::now();
        for n in 0..5_000_u32 {
            failures.note_at(IpAddr::from(n.to_be_bytes()), now);
        }
        assert_eq!(failures.0.lock().len(), ADDRESSES + 1);
        assert!(failures.locked_at("10.9.9.9".parse().unwrap(), now).is_some(), "the shared place");
    }
}
