//! The only place that reads a clock.
//!
//! Durations are measured by a clock that includes the time of a suspend: after a suspend or a `SIGSTOP` a lease must
//! look as old as it is (R3). Points in time are those of Redis, estimated from its last answer.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// A point on a clock that never goes back and that counts suspended time. Not related to any calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(Duration);

impl Instant {
    /// Now.
    pub fn now() -> Self {
        #[cfg(test)]
        if let Some(now) = paused::now() {
            return now;
        }
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        // Both fields are non-negative on this clock.
        Instant(Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0)))
    }

    /// Time since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Instant) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// Time since this point; zero if it is in the future.
    pub fn elapsed(self) -> Duration {
        Instant::now().since(self)
    }

    /// This point, later by `by`.
    pub fn after(self, by: Duration) -> Instant {
        Instant(self.0.saturating_add(by))
    }

    /// This point, earlier by `by`.
    pub fn before(self, by: Duration) -> Instant {
        Instant(self.0.saturating_sub(by))
    }

    /// Milliseconds on this clock.
    fn millis(self) -> i64 {
        i64::try_from(self.0.as_millis()).unwrap_or(i64::MAX)
    }
}

/// What Redis's clock says, as well as one can know without asking: its last answer plus the time since.
///
/// Only a hint for sleeping and for `not_after`; whether an element is due, Redis decides in the script (R9).
#[derive(Debug)]
pub struct RedisClock {
    /// Redis milliseconds minus our own.
    offset: AtomicI64,
}

impl RedisClock {
    /// A clock that trusts the machine's calendar until Redis has answered once.
    pub fn new() -> Self {
        let clock = RedisClock { offset: AtomicI64::new(0) };
        clock.observe(i64::try_from(calendar().as_millis()).unwrap_or(i64::MAX));
        clock
    }

    /// Another clock that says the same until it hears otherwise.
    pub fn copy(&self) -> Self {
        RedisClock { offset: AtomicI64::new(self.offset.load(Ordering::Relaxed)) }
    }

    /// Takes over an answer of Redis that was read just now.
    pub fn observe(&self, redis_ms: i64) {
        self.offset.store(redis_ms.saturating_sub(Instant::now().millis()), Ordering::Relaxed);
    }

    /// Redis time now, in milliseconds since the epoch; behind by at most the time an answer travels.
    pub fn now_ms(&self) -> i64 {
        Instant::now().millis().saturating_add(self.offset.load(Ordering::Relaxed))
    }
}

impl Default for RedisClock {
    fn default() -> Self {
        Self::new()
    }
}

/// A time in ms since the epoch as people read it, to the second: `2026-11-23T10:00:00Z`. One that has no such text, because it
/// is not in the years 1970 to 9999, stays a number.
pub fn utc(unix_ms: i64) -> String {
    const END_MS: u64 = 253_402_300_800_000;
    match u64::try_from(unix_ms) {
        Ok(ms) if ms < END_MS => {
            humantime::format_rfc3339_seconds(std::time::UNIX_EPOCH + Duration::from_millis(ms)).to_string()
        }
        _ => format!("{unix_ms} ms"),
    }
}

/// CPU time that this process has used.
pub fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Seconds since the epoch by the machine's calendar, for metrics that say when something happened here.
pub fn calendar_seconds() -> f64 {
    calendar().as_secs_f64()
}

/// The machine's calendar: time since the epoch. Good for a first guess and for telling how wrong it is.
fn calendar() -> Duration {
    #[expect(clippy::disallowed_methods, reason = "the two uses that are allowed, see above")]
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}

/// Samples that are kept: with a look every 5 s those of the last 40 s.
const SAMPLES: usize = 8;

/// How far the machine's calendar is ahead of Redis's clock.
///
/// NTP's clock filter: of the last samples that with the shortest round trip counts, because an answer is somewhere
/// between its question and its arrival. The error is at most half of that round trip, and Redis's millisecond.
#[derive(Debug, Default)]
pub struct Skew {
    samples: VecDeque<Sample>,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    round_trip: Duration,
    ahead: f64,
}

/// When Redis was asked for its time.
#[derive(Debug)]
pub struct Asked {
    at: Instant,
    calendar: Duration,
}

impl Asked {
    /// Now.
    pub fn now() -> Self {
        Asked { at: Instant::now(), calendar: calendar() }
    }
}

/// Seconds from which on two clocks differ so much that a person has to know.
const GREAT: f64 = 30.0;

/// Whether the clocks differ so much that a person has to know; `known` where that was said already, so that a difference at the
/// bound is not news again and again.
pub fn is_great_skew(seconds: f64, known: bool) -> bool {
    seconds.abs() >= if known { GREAT / 2.0 } else { GREAT }
}

impl Skew {
    /// Takes over an answer that was read just now.
    pub fn observe(&mut self, asked: &Asked, redis_ms: i64) {
        let round_trip = asked.at.elapsed();
        // By the monotonic clock, so that a step of the calendar clock is no part of the round trip.
        let calendar = asked.calendar.as_secs_f64() + round_trip.as_secs_f64() / 2.0;
        self.keep(Sample { round_trip, ahead: calendar - redis_ms as f64 / 1000.0 });
    }

    fn keep(&mut self, sample: Sample) {
        self.samples.truncate(SAMPLES - 1);
        self.samples.push_front(sample);
    }

    /// Seconds by which the calendar is ahead; negative when it is behind, nothing before the first answer.
    pub fn seconds(&self) -> Option<f64> {
        self.samples.iter().min_by_key(|sample| sample.round_trip).map(|sample| sample.ahead)
    }
}

#[cfg(test)]
pub(crate) use paused::{Followed, follow_tokio};

/// Lets a test on paused time move this clock: `CLOCK_BOOTTIME` continues while the runtime's time is paused.
#[cfg(test)]
mod paused {
    use std::cell::Cell;
    use std::marker::PhantomData;

    use super::Instant;

    /// A point on this clock, and the same point on the clock of the runtime.
    type Start = (Instant, tokio::time::Instant);

    thread_local! {
        static START: Cell<Option<Start>> = const { Cell::new(None) };
    }

    /// While this value lives, [`Instant::now`] follows the time of tokio on this thread. It stays on its thread.
    #[must_use = "the clock follows tokio's time until this value is dropped"]
    pub(crate) struct Followed {
        before: Option<Start>,
        thread: PhantomData<*const ()>,
    }

    /// Makes [`Instant::now`] follow the time of the running runtime, for tests with `start_paused`. It concerns this
    /// thread alone: the runtime must be of the kind `current_thread`, which `#[tokio::test]` uses.
    pub(crate) fn follow_tokio() -> Followed {
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
        let (before, clock) = (Instant::now(), RedisClock::new());
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
