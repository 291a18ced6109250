//! The only module that reads a clock.
//!
//! Durations are measured by `CLOCK_BOOTTIME`, which includes suspended time: after a suspend or a `SIGSTOP` a lease
//! must look as old as it is (R3). Points in time are those of Redis, estimated from its last answer.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// A point on a monotonic clock that includes suspended time. It is not related to a calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(Duration);

impl Instant {
    /// Returns the current time.
    pub fn now() -> Self {
        #[cfg(any(test, feature = "testing"))]
        if let Some(now) = paused::now() {
            return now;
        }
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        // Both fields are non-negative on this clock.
        Instant(Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0)))
    }

    /// Returns the time since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Instant) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// Returns the time since this point; zero if it is in the future.
    pub fn elapsed(self) -> Duration {
        Instant::now().since(self)
    }

    /// Returns the point that is later by `by`.
    pub fn after(self, by: Duration) -> Instant {
        Instant(self.0.saturating_add(by))
    }

    /// Returns the point that is earlier by `by`.
    pub fn before(self, by: Duration) -> Instant {
        Instant(self.0.saturating_sub(by))
    }

    fn millis(self) -> i64 {
        i64::try_from(self.0.as_millis()).unwrap_or(i64::MAX)
    }
}

/// An estimate of Redis's clock: its last answer plus the time since.
///
/// Use it only for sleeping and for `not_after`. Redis itself decides in the script whether an element is due (R9).
#[derive(Debug)]
pub struct RedisClock {
    /// Redis milliseconds minus the milliseconds of our clock.
    offset: AtomicI64,
}

impl RedisClock {
    /// Creates a clock that follows the machine's calendar until Redis answers for the first time.
    pub fn new() -> Self {
        let clock = RedisClock { offset: AtomicI64::new(0) };
        clock.observe(i64::try_from(calendar().as_millis()).unwrap_or(i64::MAX));
        clock
    }

    /// Copies the clock; the copies are independent from then on.
    pub fn copy(&self) -> Self {
        RedisClock { offset: AtomicI64::new(self.offset.load(Ordering::Relaxed)) }
    }

    /// Records a time that Redis has just answered.
    pub fn observe(&self, redis_ms: i64) {
        self.offset.store(redis_ms.saturating_sub(Instant::now().millis()), Ordering::Relaxed);
    }

    /// Returns the estimated Redis time in milliseconds since the epoch. It lags by at most the travel time of an
    /// answer.
    pub fn now_ms(&self) -> i64 {
        Instant::now().millis().saturating_add(self.offset.load(Ordering::Relaxed))
    }
}

impl Default for RedisClock {
    fn default() -> Self {
        Self::new()
    }
}

/// Formats milliseconds since the epoch to the second: `2026-11-23T10:00:00Z`. A time outside of the years 1970 to 9999
/// stays a number.
pub fn utc(unix_ms: i64) -> String {
    const END_MS: u64 = 253_402_300_800_000;
    match u64::try_from(unix_ms) {
        Ok(ms) if ms < END_MS => {
            humantime::format_rfc3339_seconds(std::time::UNIX_EPOCH + Duration::from_millis(ms)).to_string()
        }
        _ => format!("{unix_ms} ms"),
    }
}

/// Returns the CPU time used by this process.
pub fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Returns the seconds since the epoch by the machine's calendar, for metrics about events on this machine.
pub fn calendar_seconds() -> f64 {
    calendar().as_secs_f64()
}

/// Returns the machine's calendar: time since the epoch. For a first estimate and for measuring its own error.
fn calendar() -> Duration {
    #[expect(clippy::disallowed_methods, reason = "the two uses that are allowed, see above")]
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}

/// Number of samples that are kept: 40 s with one every 5 s.
const SAMPLES: usize = 8;

/// An estimate of how far the machine's calendar is ahead of Redis's clock.
///
/// Uses NTP's clock filter: of the last samples the one with the shortest round trip counts, because the answer was
/// made between request and arrival. The error is at most half of that round trip plus Redis's millisecond.
#[derive(Debug, Default)]
pub struct Skew {
    samples: VecDeque<Sample>,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    round_trip: Duration,
    ahead: f64,
}

/// The time at which Redis was asked for its time.
#[derive(Debug)]
pub struct Asked {
    at: Instant,
    calendar: Duration,
}

impl Asked {
    /// Returns the current time.
    pub fn now() -> Self {
        Asked { at: Instant::now(), calendar: calendar() }
    }
}

/// Difference between two clocks, in seconds, from which on operators are told.
const GREAT: f64 = 30.0;

/// Returns whether a difference between clocks is reported. `known` is true if it was reported already;
/// then the bound is half, so that a difference near the bound is not reported again and again.
pub fn is_great_skew(seconds: f64, known: bool) -> bool {
    seconds.abs() >= if known { GREAT / 2.0 } else { GREAT }
}

impl Skew {
    /// Records an answer that was read just now.
    pub fn observe(&mut self, asked: &Asked, redis_ms: i64) {
        let round_trip = asked.at.elapsed();
        // Measured by the monotonic clock, so that a step of the calendar is not part of the round trip.
        let calendar = asked.calendar.as_secs_f64() + round_trip.as_secs_f64() / 2.0;
        self.keep(Sample { round_trip, ahead: calendar - redis_ms as f64 / 1000.0 });
    }

    fn keep(&mut self, sample: Sample) {
        self.samples.truncate(SAMPLES - 1);
        self.samples.push_front(sample);
    }

    /// Returns the seconds by which the calendar is ahead; negative if it is behind, `None` before the first answer.
    pub fn seconds(&self) -> Option<f64> {
        self.samples.iter().min_by_key(|sample| sample.round_trip).map(|sample| sample.ahead)
    }
}

#[cfg(any(test, feature = "testing"))]
pub use paused::{Followed, follow_tokio};

/// Lets tests on paused time control the clock, because `CLOCK_BOOTTIME` continues while the runtime's time is paused.
#[cfg(any(test, feature = "testing"))]
mod paused {
    use std::cell::Cell;
    use std::marker::PhantomData;

    use super::Instant;

    /// A point on this clock, and the same point on the clock of the runtime.
    type Start = (Instant, tokio::time::Instant);

    thread_local! {
        static START: Cell<Option<Start>> = const { Cell::new(None) };
    }

    /// A guard: while it lives, [`Instant::now`] follows tokio's time on this thread. It cannot leave the thread.
    #[must_use = "the clock follows tokio's time until this value is dropped"]
    #[derive(Debug)]
    pub struct Followed {
        before: Option<Start>,
        thread: PhantomData<*const ()>,
    }

    /// Makes [`Instant::now`] follow the time of the running runtime, for tests with `start_paused`. It affects this
    /// thread only, so the runtime must be of the kind `current_thread`, as with `#[tokio::test]`.
    pub fn follow_tokio() -> Followed {
        let start = (Instant::now(), tokio::time::Instant::now());
        Followed { before: START.replace(Some(start)), thread: PhantomData }
    }

    pub(super) fn now() -> Option<Instant> {
        START.get().map(|(start, on_tokio)| start.after(on_tokio.elapsed()))
    }

    impl Drop for Followed {
        fn drop(&mut self) {
            START.set(self.before.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(round_trip_ms: u64, ahead: f64) -> Sample {
        Sample { round_trip: Duration::from_millis(round_trip_ms), ahead }
    }

    #[test]
    fn the_fastest_of_the_last_answers_says_how_wrong_the_calendar_is() {
        let mut skew = Skew::default();
        assert_eq!(skew.seconds(), None);
        skew.keep(sample(900, 0.4));
        assert_eq!(skew.seconds(), Some(0.4));
        skew.keep(sample(1, -2.0));
        for _ in 0..SAMPLES - 1 {
            skew.keep(sample(50, 0.02));
        }
        assert_eq!(skew.seconds(), Some(-2.0));
        skew.keep(sample(60, 0.03));
        assert_eq!(skew.seconds(), Some(0.02), "the old one is forgotten");
    }

    #[test]
    fn an_answer_is_compared_with_the_middle_of_its_round_trip() {
        let mut skew = Skew::default();
        let asked = Asked { at: Instant::now().before(Duration::from_secs(2)), calendar: Duration::from_secs(1_000) };
        skew.observe(&asked, 998_000);
        // Asked at 1000 s, answered at 1002 s.
        assert!((skew.seconds().unwrap() - 3.0).abs() < 0.5, "{skew:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn on_request_the_clock_follows_paused_time_and_goes_back_to_its_own() {
        const HOUR: Duration = Duration::from_secs(3600);
        let before = Instant::now();
        let clock = RedisClock::new();
        clock.observe(1_000);
        {
            let _clock = follow_tokio();
            let start = Instant::now();
            std::thread::sleep(Duration::from_millis(2));
            assert_eq!(Instant::now(), start, "paused time does not move");
            tokio::time::sleep(HOUR).await;
            assert!(start.elapsed() >= HOUR, "{:?}", start.elapsed());
            assert!(clock.now_ms() >= 3_601_000, "{}", clock.now_ms());
            let inner = follow_tokio();
            assert!(start.elapsed() >= HOUR, "a second switch changes nothing");
            drop(inner);
            assert!(start.elapsed() >= HOUR, "nor does its end");
        }
        assert!(before.elapsed() < HOUR, "the machine's clock again");
    }
}
