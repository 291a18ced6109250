//! The activity of the last minute, from the tallies: rates, and quantiles of the lateness.
//!
//! Tallies only grow, so the difference of two samples is the activity between them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::metrics::{Counts, LastLook, Metrics, Tally};
use delaybridge_core::clock::Instant;

/// Interval between two samples.
pub const STEP: Duration = Duration::from_secs(10);
/// Number of samples that are kept: the oldest is a minute old.
const KEPT: usize = 7;

/// The activity between two samples, of the queues that had any.
#[derive(Debug)]
struct Step {
    at: Instant,
    queues: Vec<(Arc<str>, Counts)>,
}

/// The steps of the last minute. The first one only marks its beginning.
#[derive(Debug, Default)]
struct Samples {
    steps: VecDeque<Step>,
    last: HashMap<Arc<str>, Counts>,
}

/// The recent activity of one queue.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Lately {
    /// Delivered elements per second.
    pub delivered_per_second: f64,
    /// Failed attempts per second.
    pub failed_per_second: f64,
    /// Median of the lateness in seconds; `None` if nothing was delivered.
    pub late_p50: Option<f64>,
    /// 99th percentile of the lateness in seconds.
    pub late_p99: Option<f64>,
    /// Seconds since the oldest element in flight was due, at the latest look at the queue.
    pub oldest_in_flight: f64,
    /// The numbers at the latest look at the queue.
    pub look: LastLook,
}

/// The samples of the last minute.
pub struct Recent {
    metrics: Metrics,
    samples: Mutex<Samples>,
}

impl Recent {
    /// Creates the samples of these metrics, with a first one.
    pub fn new(metrics: Metrics) -> Recent {
        let recent = Recent { metrics, samples: Mutex::default() };
        recent.sample();
        recent
    }

    /// Takes a sample. Must be called every [`STEP`].
    pub fn sample(&self) {
        let now: HashMap<_, _> =
            self.metrics.tallies().into_iter().map(|(queue, tally)| (queue, tally.counts())).collect();
        let mut samples = self.samples.lock();
        let since = |(queue, counts): (&Arc<str>, &Counts)| {
            let counts = samples.last.get(queue).map_or_else(|| counts.clone(), |before| counts.since(before));
            (counts != Counts::default()).then(|| (queue.clone(), counts))
        };
        let queues = now.iter().filter_map(since).collect();
        samples.steps.push_back(Step { at: Instant::now(), queues });
        samples.last = now;
        if samples.steps.len() > KEPT {
            samples.steps.pop_front();
        }
    }

    /// Returns the highest rate of a queue within the last day while it was behind, by second.
    pub fn busy_rate(&self, queue: &str) -> Option<f64> {
        self.metrics.busy_rate(queue)
    }

    /// Returns the activity of all queues together since the oldest sample.
    pub fn total(&self) -> Lately {
        let samples = self.samples.lock();
        let Some(first) = samples.steps.front() else { return Lately::default() };
        let seconds = Instant::now().since(first.at).as_secs_f64().max(0.001);
        let mut sum = Counts::default();
        samples.steps.iter().skip(1).flat_map(|step| &step.queues).for_each(|(_, counts)| sum.merge(counts));
        for (queue, tally) in self.metrics.tallies() {
            sum.merge(&samples.since_last(&queue, &tally));
        }
        lately(&sum, seconds, &Tally::default())
    }

    /// Returns the activity of every used queue since the oldest sample.
    pub fn lately(&self) -> HashMap<Arc<str>, Lately> {
        let samples = self.samples.lock();
        let Some(first) = samples.steps.front() else { return HashMap::new() };
        let seconds = Instant::now().since(first.at).as_secs_f64().max(0.001);
        let mut before: HashMap<&str, Counts> = HashMap::new();
        for (queue, counts) in samples.steps.iter().skip(1).flat_map(|step| &step.queues) {
            before.entry(queue).or_default().merge(counts);
        }
        let of_queue = |(queue, tally): (Arc<str>, Arc<Tally>)| {
            let mut counts = samples.since_last(&queue, &tally);
            before.get(&*queue).into_iter().for_each(|before| counts.merge(before));
            let lately = lately(&counts, seconds, &tally);
            (queue, lately)
        };
        self.metrics.tallies().into_iter().map(of_queue).collect()
    }
}

impl Samples {
    fn since_last(&self, queue: &str, tally: &Tally) -> Counts {
        let now = tally.counts();
        self.last.get(queue).map_or_else(|| now.clone(), |before| now.since(before))
    }
}

/// Computes the activity from these counts over this many seconds.
fn lately(counts: &Counts, seconds: f64, tally: &Tally) -> Lately {
    Lately {
        delivered_per_second: counts.delivered as f64 / seconds,
        failed_per_second: counts.failed as f64 / seconds,
        late_p50: counts.late.quantile(0.5),
        late_p99: counts.late.quantile(0.99),
        oldest_in_flight: tally.oldest_in_flight().as_secs_f64(),
        look: tally.last_look(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Events;
    use crate::labels::LateState;
    use crate::metrics::{QueueAhead, QueueSizes};

    #[test]
    fn two_samples_tell_rate_and_lateness() {
        let events = Events::default();
        let queue = events.metrics().queue(&"orders".into());
        let to = queue.to(&"kafka".into());
        queue.delivered(1_000);
        let recent = Recent::new(events.metrics().clone());
        queue.delivered(50);
        (0..99).for_each(|_| to.late(Duration::from_millis(3)));
        to.late(Duration::from_secs(40));
        let step = Instant::now();
        recent.sample();
        to.late(Duration::from_millis(3));
        let samples = recent.samples.lock();
        assert!(samples.steps[0].at <= step, "what was counted before it is in no later step");
        let [(_, counts)] = samples.steps[1].queues.as_slice() else { panic!("{samples:?}") };
        let found = lately(counts, 10.0, &Tally::default());
        assert_eq!((found.delivered_per_second, found.failed_per_second), (5.0, 0.0));
        assert!(found.late_p50.unwrap() < 0.01 && found.late_p99.unwrap() < 0.01, "{found:?}");
        drop(samples);
        let found = recent.lately()["orders"];
        assert!(found.late_p50.is_some() && found.delivered_per_second > 0.0, "{found:?}");
        let total = recent.total();
        assert_eq!(total.late_p99, found.late_p99, "of the only queue");
        assert!(total.delivered_per_second > 0.0);
    }

    #[test]
    fn the_age_of_what_is_in_flight_is_that_of_the_latest_look() {
        let events = Events::default();
        let recent = Recent::new(events.metrics().clone());
        let oldest = LateState::ALL.map(|state| match state {
            LateState::InFlight => Duration::from_secs(7),
            _ => Duration::from_secs(9),
        });
        let ahead = QueueAhead { absurd: 2, ..QueueAhead::default() };
        let sizes = QueueSizes { oldest, ahead, ..QueueSizes::default() };
        let queue = events.metrics().queue(&"orders".into());
        queue.sizes(&QueueSizes { messages: [100, 1, 2, 3, 4], ..sizes });
        let found = recent.lately()["orders"];
        assert_eq!(found.oldest_in_flight, 7.0);
        assert_eq!(found.look, LastLook { due: 1, backlog: 6, dead: 4, overdue_ms: 9_000, absurd: 2 });
        queue.clear_gauges(None);
        assert_eq!(recent.lately()["orders"].look, LastLook::default(), "an old number is no number");
    }

    #[test]
    fn nothing_delivered_has_no_lateness() {
        let found = lately(&Counts::default(), 10.0, &Tally::default());
        assert_eq!(found, Lately::default());
    }

    #[test]
    fn no_lateness_is_above_the_largest_that_was_seen() {
        let events = Events::default();
        let recent = Recent::new(events.metrics().clone());
        let to = events.metrics().queue(&"orders".into()).to(&"kafka".into());
        (61..=100).for_each(|seconds| to.late(Duration::from_secs(seconds)));
        recent.sample();
        for found in [recent.lately()["orders"], recent.total()] {
            let p50 = found.late_p50.unwrap();
            let p99 = found.late_p99.unwrap();
            assert!((76.0..=80.0).contains(&p50) && (95.0..=100.0).contains(&p99), "p50 {p50}, p99 {p99}");
        }
    }

    #[test]
    fn samples_are_of_a_minute_at_most() {
        let recent = Recent::new(Events::default().metrics().clone());
        (0..20).for_each(|_| recent.sample());
        assert_eq!(recent.samples.lock().steps.len(), KEPT);
    }
}
