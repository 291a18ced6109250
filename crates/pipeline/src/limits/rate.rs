//! `max_rate`: how many elements may be claimed now. A token bucket, pure over the time it is given.
//!
//! It is asked before the claim, so that elements wait in Redis (R4); the unused part is returned.

use std::time::Duration;

use delaybridge_core::clock::Instant;

/// The elements that may pass at once after a quiet time, as a part of a second's worth.
const BURST: f64 = 0.1;

/// The bucket of one queue or sink.
#[derive(Debug, Clone)]
pub struct Bucket {
    per_second: f64,
    burst: f64,
    tokens: f64,
    /// The time at which `tokens` was true.
    at: Instant,
}

/// The grant of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateGrant {
    /// The elements that may be claimed.
    pub granted: u32,
    /// The time at which it is worth asking for the rest; `now` if nothing was refused.
    pub next_at: Instant,
}

impl Bucket {
    /// Creates a full bucket of `per_second` elements per second, which is above 0.
    pub fn new(per_second: f64, now: Instant) -> Self {
        // Less than one token would never let anything pass.
        let burst = (per_second * BURST).max(1.0);
        Bucket { per_second, burst, tokens: burst, at: now }
    }

    /// Returns the rate in elements per second.
    pub fn per_second(&self) -> f64 {
        self.per_second
    }

    /// Takes up to `want` tokens.
    pub fn take(&mut self, now: Instant, want: u32) -> RateGrant {
        self.fill(now);
        // A float to an integer saturates; tokens are never negative.
        let granted = want.min(self.tokens as u32);
        self.tokens -= f64::from(granted);
        let rest = f64::from(want - granted);
        if rest == 0.0 {
            return RateGrant { granted, next_at: now };
        }
        // Not for every single token: a claim a millisecond would cost more than the elements.
        let worth = rest.min((self.burst / 2.0).floor().max(1.0));
        let missing = (worth - self.tokens).max(0.0);
        let wait = Duration::try_from_secs_f64(missing / self.per_second).unwrap_or(Duration::MAX);
        // Rounded up, or the waker would come a moment too early and find one token less.
        RateGrant { granted, next_at: now.after(wait.saturating_add(Duration::from_nanos(1))) }
    }

    /// Gives back the unused part of a claim.
    pub fn refund(&mut self, unused: u32) {
        self.tokens = (self.tokens + f64::from(unused)).min(self.burst);
    }

    /// Returns whether it is as full as a new one.
    pub fn is_full(&mut self, now: Instant) -> bool {
        self.fill(now);
        self.tokens >= self.burst
    }

    fn fill(&mut self, now: Instant) {
        let passed = now.since(self.at).as_secs_f64();
        self.tokens = (self.tokens + passed * self.per_second).min(self.burst);
        self.at = self.at.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the elements that pass in `seconds` if a caller asks for `want` whenever it is worthwhile, and how often it asks.
    fn pass(per_second: f64, want: u32, seconds: u64) -> (u64, u64) {
        let start = Instant::now();
        let mut bucket = Bucket::new(per_second, start);
        let mut now = start;
        let mut passed = 0;
        let mut asked = 0;
        while now.since(start) < Duration::from_secs(seconds) {
            let taken = bucket.take(now, want);
            passed += u64::from(taken.granted);
            asked += 1;
            now = taken.next_at.max(now.after(Duration::from_nanos(1)));
        }
        (passed, asked)
    }

    #[test]
    fn the_rate_is_kept_and_used_up() {
        let check = |per_second: f64, want, seconds, most_asked| {
            let (passed, asked) = pass(per_second, want, seconds);
            let due = per_second * seconds as f64;
            let burst = (per_second * BURST).max(1.0);
            assert!(passed as f64 <= due + burst + 1.0, "{passed} at {per_second}/s in {seconds} s");
            assert!(passed as f64 >= due - burst - 1.0, "{passed} at {per_second}/s in {seconds} s");
            assert!(asked <= most_asked, "asked {asked} times at {per_second}/s");
        };
        check(5_000.0, 500, 10, 250);
        check(5_000.0, 10_000, 10, 250);
        check(1.0, 100, 60, 70);
        check(0.5, 1, 60, 70);
        check(1_000_000.0, 500, 1, 5_000);
    }

    #[test]
    fn what_was_not_used_can_be_taken_again() {
        let now = Instant::now();
        let mut bucket = Bucket::new(1_000.0, now);
        assert_eq!(bucket.take(now, 60), RateGrant { granted: 60, next_at: now });
        bucket.refund(50);
        assert_eq!(bucket.take(now, 200).granted, 90);
        assert_eq!(bucket.take(now, 200).granted, 0);
        bucket.refund(1_000);
        assert_eq!(bucket.take(now, 200).granted, 100);
    }

    #[test]
    fn a_quiet_hour_saves_up_no_more_than_a_tenth_of_a_second() {
        let now = Instant::now();
        let mut bucket = Bucket::new(1_000.0, now);
        assert_eq!(bucket.take(now.after(Duration::from_secs(3600)), 10_000).granted, 100);
    }

    #[test]
    fn one_element_may_always_pass_in_the_end() {
        let now = Instant::now();
        let mut bucket = Bucket::new(0.001, now);
        assert_eq!(bucket.take(now, 5).granted, 1);
        let taken = bucket.take(now, 5);
        assert_eq!(taken.granted, 0);
        assert_eq!(bucket.take(taken.next_at, 5).granted, 1);
    }
}
