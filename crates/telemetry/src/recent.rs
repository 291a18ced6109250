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
    /// The end of the step.
    at: Instant,
    queues: Vec<(Arc<str>, Counts)>,
}

/// The steps of the last minute. The first one only marks its beginning.
#[derive(Debug, Default)]
struct Samples {
    steps: VecDeque<Step>,
    /// The totals at the last sample.
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
            let counts = samples.last.get(queue).map_or(*counts, |before| counts.since(before));
            (counts != Counts::default()).then(|| (queue.clone(), counts))
        };
        let queues = now.iter().filter_map(since).collect();
        samples.steps.push_back(Step { at: Instant::now(), queues });
        samples.last = now;
        if samples.steps.len() > KEPT {
            samples.steps.pop_front();
        }
    }

    /// The highest rate of a queue within the last day while it was behind, by second.
    pub fn busy_rate(&self, queue: &str) -> Option<f64> {
        self.metrics.busy_rate(queue)
    }

    /// The activity of all queues together since the oldest sample.
    pub fn total(&self) -> Lately {
        let samples = self.samples.lock();
        let Some(first) = samples.steps.front() else { return Lately::default() };
        let seconds = Instant::now().since(first.at).as_secs_f64().max(0.001);
        let steps = samples.steps.iter().skip(1).flat_map(|step| &step.queues);
        let before = steps.fold(Counts::default(), |sum, (_, counts)| sum.and(counts));
        let none = Counts::default();
        let since =
            |(queue, tally): (Arc<str>, Arc<Tally>)| tally.counts().since(samples.last.get(&queue).unwrap_or(&none));
        let counts = self.metrics.tallies().into_iter().map(since).fold(before, |sum, counts| sum.and(&counts));
        lately(&counts, seconds, &Tally::default())
    }

    /// The activity of every used queue since the oldest sample.
    pub fn lately(&self) -> HashMap<Arc<str>, Lately> {
        let samples = self.samples.lock();
        let Some(first) = samples.steps.front() else { return HashMap::new() };
        let seconds = Instant::now().since(first.at).as_secs_f64().max(0.001);
        let mut before: HashMap<&str, Counts> = HashMap::new();
        for (queue, counts) in samples.steps.iter().skip(1).flat_map(|step| &step.queues) {
            let sum = before.entry(queue).or_default();
            *sum = sum.and(counts);
        }
        let none = Counts::default();
        let of_queue = |(queue, tally): (Arc<str>, Arc<Tally>)| {
            let now = tally.counts().since(samples.last.get(&queue).unwrap_or(&none));
            let counts = now.and(before.get(&*queue).unwrap_or(&none));
            let lately = lately(&counts, seconds, &tally);
            (queue, lately)
        };
        self.metrics.tallies().into_iter().map(of_queue).collect()
    }
}

/// Computes the activity from these counts over this many seconds.
fn lately(counts: &Counts, seconds: f64, tally: &Tally) -> Lately {
    let mut sum = 0;
    let late = counts.late.map(|count| {
        sum += count;
        sum
    });
    Lately {
        delivered_per_second: counts.delivered as f64 / seconds,
        failed_per_second: counts.failed as f64 / seconds,
        late_p50: quantile(&late, 0.5),
        late_p99: quantile(&late, 0.99),
        oldest_in_flight: tally.oldest_in_flight().as_secs_f64(),
        look: tally.last_look(),
    }
}

/// Estimates a quantile from the cumulative counts of the lateness buckets like Prometheus: linearly within a bucket.
/// Values beyond the last bound are shown as that bound.
pub(super) fn quantile(cumulative: &[u64], q: f64) -> Option<f64> {
    let bounds = super::catalogue::LATENESS;
    let all = cumulative.last().copied().filter(|all| *all > 0)?;
    let rank = q * all as f64;
    let at = cumulative.iter().position(|count| *count as f64 >= rank)?;
    let Some(upper) = bounds.get(at) else { return bounds.last().copied() };
    let (lower, below) = match at.checked_sub(1) {
        Some(before) => (bounds[before], cumulative[before]),
        None => (0.0, 0),
    };
    let inside = (cumulative[at] - below).max(1) as f64;
    Some(lower + (upper - lower) * ((rank - below as f64) / inside).clamp(0.0, 1.0))
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
    fn what_is_beyond_the_last_bound_is_shown_as_that_bound() {
        let bounds = super::super::catalogue::LATENESS;
        let mut late = vec![0; bounds.len()];
        late.push(10);
        assert_eq!(quantile(&late, 0.5), bounds.last().copied());
    }

    #[test]
    fn samples_are_of_a_minute_at_most() {
        let recent = Recent::new(Events::default().metrics().clone());
        (0..20).for_each(|_| recent.sample());
        assert_eq!(recent.samples.lock().steps.len(), KEPT);
    }
}
