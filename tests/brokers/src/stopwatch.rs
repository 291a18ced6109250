//! A limit by the clock that a busy machine does not break.

use std::time::{Duration, Instant};

/// Linux's count of the time in which a task waited for a processor, on the whole machine.
const PRESSURE: &str = "/proc/pressure/cpu";

/// The time since a moment, without the time in which the machine was short of processors.
///
/// On a quiet machine it is the real time. A limit of a promise holds there; beside other load a test says nothing about
/// the time that something takes, and fails for nothing else than that.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch {
    began: Instant,
    pressure: Duration,
}

impl Stopwatch {
    /// Starts to count.
    pub fn start() -> Stopwatch {
        Stopwatch { began: Instant::now(), pressure: pressure() }
    }

    /// The counted time.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed().saturating_sub(pressure().saturating_sub(self.pressure))
    }

    /// The share of elements that must be in time, where on a quiet machine it is `quiet`: less by the part of the time in
    /// which the machine was short of processors, but never less than a half. What waits for a fault is never in time.
    pub fn share_in_time(&self, quiet: f64) -> f64 {
        let counted = self.elapsed().as_secs_f64() / self.began.elapsed().as_secs_f64();
        (quiet - (1.0 - counted)).max(0.5)
    }

    /// Fails the test if `what` has taken longer than `limit`.
    #[track_caller]
    pub fn assert_within(&self, limit: Duration, what: &str) {
        let counted = self.elapsed();
        let real = self.began.elapsed();
        assert!(
            counted < limit,
            "{what} took {counted:?} ({real:?} with waits for a processor), {limit:?} are allowed"
        );
    }
}

/// The time under pressure since the machine started; zero where the kernel does not count it.
fn pressure() -> Duration {
    let text = std::fs::read_to_string(PRESSURE).unwrap_or_default();
    Duration::from_micros(total(&text).unwrap_or_default())
}

/// The microseconds in the line of tasks of which some waited.
fn total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    line.split(' ').find_map(|field| field.strip_prefix("total="))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_of_some_tasks_is_read() {
        let text = "some avg10=98.65 avg60=98.22 avg300=75.70 total=1570552921\nfull avg10=0.00 total=7\n";
        assert_eq!(total(text), Some(1_570_552_921));
        assert_eq!(total(""), None);
    }

    #[test]
    fn what_takes_too_long_without_a_wait_for_a_processor_fails() {
        // On a machine that is busy all the time, nothing is counted and nothing can fail.
        let began = Instant::now().checked_sub(Duration::from_secs(9)).expect("the machine has run for longer");
        let late = Stopwatch { began, pressure: pressure() };
        late.assert_within(Duration::from_secs(60), "nine seconds");
        let failed = std::panic::catch_unwind(|| late.assert_within(Duration::from_secs(1), "nine seconds"));
        assert!(failed.is_err(), "{late:?}");
        let waited = Stopwatch { pressure: pressure().saturating_sub(Duration::from_secs(9)), ..late };
        // The panic above writes a backtrace, which may take a second.
        waited.assert_within(Duration::from_secs(6), "nine seconds of waiting");
        assert!(waited.share_in_time(0.99) < 0.9);
        let quiet = Stopwatch { pressure: pressure() + Duration::from_secs(60), ..late };
        assert!(quiet.share_in_time(0.99) > 0.98);
    }
}
