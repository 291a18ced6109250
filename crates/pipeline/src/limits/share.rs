//! How much of a backlog is in flight beside queues that keep up.
//!
//! The elements of a backlog that are in flight fill the sinks, the connections to Redis and the threads, and those of other queues wait
//! behind them. Beyond what a sink has in work at a time, more in flight brings the backlog nothing: its own elements wait there too.
//! A distant sink has many in work, a near one a few hundred, and only a trial tells which it is. So the bound begins with one claim,
//! and is doubled for as long as answers come faster for it. What is answered within a few milliseconds is in flight in any case.

use std::time::Duration;

use parking_lot::Mutex;

use delaybridge_core::clock::Instant;
use delaybridge_ledger::BATCH_ENTRIES;

/// The bound to begin with.
const FIRST: u64 = BATCH_ENTRIES as u64;
/// A queue that is behind for less has had a hiccup, and no backlog.
const BEHIND: Duration = Duration::from_millis(20);
/// The gain in answers a second for which twice as much goes in flight. A sink that has as many in work as are in flight brings
/// twice as many answers for that, one with a queue none.
const GAIN: f64 = 1.4;
/// Elements that are answered within this time delay those of other queues by no more than it.
const SOON: Duration = Duration::from_millis(8);
/// The least time in which answers are counted: they come by the hundred.
const COUNTED: Duration = Duration::from_millis(250);
/// The least time for which a bound that was found holds, and how many times as long as the trial it does: what trials cost a
/// distant sink stays small.
const HOLDS: Duration = Duration::from_secs(10);
const HOLDS_TIMES: u32 = 20;

/// The bound of one queue.
#[derive(Debug, Default)]
pub struct Share(Mutex<ShareState>);

#[derive(Debug, Default)]
struct ShareState {
    /// The time from which on every claim has left something.
    behind_since: Option<Instant>,
    /// Boxed, because few queues ever have a backlog.
    trial: Option<Box<Trial>>,
}

/// The search for the bound.
#[derive(Debug)]
struct Trial {
    began: Instant,
    limit: u64,
    /// Answers a second with half as much in flight.
    before: Option<f64>,
    step: TrialStep,
}

#[derive(Debug)]
enum TrialStep {
    /// So many answers are still about what was in flight under another bound.
    Changes { left: u64 },
    /// Answers are counted.
    Counts { since: Instant, answers: u64 },
    /// The bound is found.
    Holds { until: Instant },
}

impl Share {
    /// Notes whether a claim left something that is due.
    pub fn claimed(&self, left: bool, now: Instant) {
        let mut state = self.0.lock();
        state.behind_since = left.then(|| state.behind_since.unwrap_or(now));
    }

    /// Takes note of `count` answers, with so many in flight. Returns the bound that the queue has now, if it has a backlog and is
    /// `beside` one that keeps up.
    pub fn answered(&self, count: u64, in_flight: u64, beside: impl FnOnce() -> bool, now: Instant) -> Option<u64> {
        let mut state = self.0.lock();
        let is_behind = state.behind_since.is_some_and(|since| now.since(since) >= BEHIND);
        if !is_behind || !beside() {
            // One that is interrupted has found nothing.
            state.trial.take_if(|trial| !matches!(trial.step, TrialStep::Holds { .. }));
            return None;
        }
        let trial = state.trial.get_or_insert_with(|| Box::new(Trial::new(now)));
        trial.answered(count, in_flight, now);
        Some(trial.limit)
    }
}

impl Trial {
    fn new(now: Instant) -> Trial {
        Trial { began: now, limit: FIRST, before: None, step: TrialStep::Changes { left: FIRST } }
    }

    fn answered(&mut self, count: u64, in_flight: u64, now: Instant) {
        match &mut self.step {
            TrialStep::Changes { left } => {
                *left = left.saturating_sub(count);
                if *left == 0 && in_flight <= self.limit {
                    self.step = TrialStep::Counts { since: now, answers: 0 };
                }
            }
            TrialStep::Counts { since, answers } => {
                *answers += count;
                let took = now.since(*since);
                if took >= COUNTED && *answers >= self.limit {
                    let rate = *answers as f64 / took.as_secs_f64();
                    self.counted(rate, now);
                }
            }
            TrialStep::Holds { until } if *until <= now => *self = Trial::new(now),
            TrialStep::Holds { .. } => {}
        }
    }

    /// Decides by the answers a second whether more in flight is tried.
    fn counted(&mut self, rate: f64, now: Instant) {
        if self.before.is_none_or(|before| rate >= before * GAIN) {
            self.before = Some(rate);
            self.limit = self.limit.saturating_mul(2);
            self.step = TrialStep::Changes { left: self.limit };
        } else {
            let soon = (rate * SOON.as_secs_f64()) as u64;
            self.limit = soon.clamp(self.limit / 2, self.limit);
            let holds = HOLDS.max(now.since(self.began).saturating_mul(HOLDS_TIMES));
            self.step = TrialStep::Holds { until: now.after(holds) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue with a backlog at a sink.
    struct Backlog {
        share: Share,
        now: Instant,
        /// The time of one element at the sink, and the most answers a second, in 500s.
        sink: (Duration, f64),
        /// The bound without a neighbour.
        own: u64,
        in_flight: u64,
    }

    impl Backlog {
        fn at(ms: u64, per_second: f64) -> Backlog {
            let sink = (Duration::from_millis(ms), per_second);
            Backlog { share: Share::default(), now: Instant::now(), sink, own: 10_000, in_flight: 10_000 }
        }

        /// Goes on for a time. Returns the answers a second, and what is in flight at the end.
        fn run(&mut self, time: Duration, beside: bool) -> (f64, u64) {
            let end = self.now.after(time);
            let mut answers = 0;
            while self.now < end {
                let some = self.in_flight.min(50);
                let (takes, per_second) = self.sink;
                let rate = per_second.min(self.in_flight as f64 / takes.as_secs_f64());
                self.now = self.now.after(Duration::from_secs_f64(some as f64 / rate));
                answers += some;
                self.share.claimed(true, self.now);
                let bound = self.share.answered(some, self.in_flight, || beside, self.now);
                let bound = bound.map_or(self.own, |bound| bound.min(self.own));
                self.in_flight = bound.max(self.in_flight - some);
            }
            (answers as f64 / time.as_secs_f64(), self.in_flight)
        }
    }

    #[test]
    fn as_much_is_in_flight_as_brings_answers_and_no_more() {
        let check = |ms, per_second, expected| {
            let mut backlog = Backlog::at(ms, per_second);
            let (alone, all) = backlog.run(Duration::from_secs(20), false);
            assert_eq!(all, 10_000, "{ms} ms: no bound without a neighbour");
            backlog.run(Duration::from_secs(1), true);
            backlog.run(Duration::from_secs(20), true);
            // Trials at all times.
            let (beside, _) = backlog.run(Duration::from_secs(400), true);
            assert!(beside > alone * 0.6, "{ms} ms: {beside} beside a neighbour, {alone} alone");
            let mut found = Vec::new();
            for _ in 0..100 {
                found.push(backlog.run(Duration::from_secs(1), true).1);
            }
            found.sort_unstable();
            assert_eq!(found[50], expected, "{ms} ms, {per_second}/s");
            assert_eq!(backlog.run(Duration::from_millis(100), false).1, 10_000, "{ms} ms: the neighbour is gone");
        };
        check(1, 50_000.0, 500);
        check(1, 100_000.0, 800);
        check(1, 300_000.0, 1_000);
        check(5, 50_000.0, 500);
        check(20, 50_000.0, 1_000);
        check(100, 50_000.0, 4_000);
        check(100, 5_000.0, 500);
        check(1_000, 2_000.0, 2_000);
        // The bound of its own is in the way.
        check(1_000, 50_000.0, 8_000);
    }

    #[test]
    fn a_hiccup_is_no_backlog_and_a_bound_that_was_found_is_kept() {
        let mut backlog = Backlog::at(1, 50_000.0);
        assert_eq!(backlog.run(Duration::from_millis(15), true).1, 10_000);
        backlog.share.claimed(false, backlog.now);
        assert_eq!(backlog.run(Duration::from_millis(15), true).1, 10_000);
        assert_eq!(backlog.run(Duration::from_millis(300), true).1, 500);
        backlog.run(Duration::from_secs(2), true);
        assert_eq!(backlog.run(Duration::from_secs(2), false).1, 10_000);
        // It is not tried once more whether 1,000 bring more.
        for _ in 0..20 {
            assert_eq!(backlog.run(Duration::from_millis(300), true).1, 500);
        }
    }
}
