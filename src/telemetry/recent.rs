//! What happened lately, out of the counters: rates, and quantiles of the lateness, over the last minute.
//!
//! Counters and histograms only grow. So two samples tell what lies between them, and nothing is counted twice for it.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;
use prometheus::core::Collector;

use super::labels::{LateState, OK};
use super::metrics::Metrics;
use crate::clock::Instant;

/// Time between two samples.
pub const STEP: Duration = Duration::from_secs(10);
/// Samples that are kept: the oldest is a minute old.
const KEPT: usize = 7;

/// Counters of one queue.
#[derive(Debug, Clone, Default)]
struct Counters {
    delivered: u64,
    failed: u64,
    /// Cumulative counts of the histogram's buckets, over all sinks.
    late: Vec<u64>,
    /// Seconds since the oldest element in flight was due. No counter: only the latest look counts.
    oldest_in_flight: f64,
}

/// All queues at one time.
#[derive(Debug)]
struct Sample {
    at: Instant,
    queues: HashMap<String, Counters>,
}

/// What one queue did lately.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Lately {
    /// Delivered elements by second.
    pub delivered_per_second: f64,
    /// Failed attempts by second.
    pub failed_per_second: f64,
    /// Median of the lateness in seconds; none where nothing was delivered.
    pub late_p50: Option<f64>,
    /// Its 99th percentile.
    pub late_p99: Option<f64>,
    /// Seconds since the oldest element in flight was due, at the latest look at the queue.
    pub oldest_in_flight: f64,
}

/// The samples of the last minute.
pub struct Recent {
    metrics: Metrics,
    samples: Mutex<VecDeque<Sample>>,
}

impl Recent {
    /// Of these metrics, with a first sample.
    pub fn new(metrics: Metrics) -> Recent {
        let recent = Recent { metrics, samples: Mutex::default() };
        recent.sample();
        recent
    }

    /// Takes a sample; to be called every [`STEP`].
    pub fn sample(&self) {
        let sample = self.now();
        let mut samples = self.samples.lock();
        samples.push_back(sample);
        if samples.len() > KEPT {
            samples.pop_front();
        }
    }

    /// What each queue with any delivery did since the oldest sample.
    pub fn lately(&self) -> HashMap<String, Lately> {
        let now = self.now();
        let samples = self.samples.lock();
        let Some(then) = samples.front() else { return HashMap::new() };
        let seconds = now.at.since(then.at).as_secs_f64().max(0.001);
        let none = Counters::default();
        let of_queue = |(queue, counters): (&String, &Counters)| {
            let before = then.queues.get(queue).unwrap_or(&none);
            (queue.clone(), lately(before, counters, seconds))
        };
        now.queues.iter().map(of_queue).collect()
    }

    fn now(&self) -> Sample {
        let mut queues: HashMap<String, Counters> = HashMap::new();
        let families = self.metrics.families();
        let label = |metric: &prometheus::proto::Metric, name: &str| {
            metric.get_label().iter().find(|pair| pair.name() == name).map(|pair| pair.value().to_owned())
        };
        for family in families.delivered.collect() {
            for metric in family.get_metric() {
                let queue = label(metric, "queue").unwrap_or_default();
                queues.entry(queue).or_default().delivered += metric.get_counter().get_value() as u64;
            }
        }
        for family in families.attempts.collect() {
            for metric in family.get_metric().iter().filter(|metric| label(metric, "class").as_deref() != Some(OK)) {
                let queue = label(metric, "queue").unwrap_or_default();
                queues.entry(queue).or_default().failed += metric.get_counter().get_value() as u64;
            }
        }
        for family in families.lateness.collect() {
            for metric in family.get_metric() {
                let late = &mut queues.entry(label(metric, "queue").unwrap_or_default()).or_default().late;
                let buckets = metric.get_histogram().get_bucket();
                late.resize(late.len().max(buckets.len() + 1), 0);
                for (sum, bucket) in late.iter_mut().zip(buckets) {
                    *sum += bucket.cumulative_count();
                }
                if let Some(last) = late.last_mut() {
                    *last += metric.get_histogram().get_sample_count();
                }
            }
        }
        let in_flight = LateState::InFlight.as_str();
        for family in families.oldest_due_age_by_state.collect() {
            let of_state = |metric: &&prometheus::proto::Metric| label(metric, "state").as_deref() == Some(in_flight);
            for metric in family.get_metric().iter().filter(of_state) {
                let queue = label(metric, "queue").unwrap_or_default();
                queues.entry(queue).or_default().oldest_in_flight = metric.get_gauge().get_value();
            }
        }
        Sample { at: Instant::now(), queues }
    }
}

/// What lies between two samples.
fn lately(before: &Counters, now: &Counters, seconds: f64) -> Lately {
    let rate = |before: u64, now: u64| now.saturating_sub(before) as f64 / seconds;
    let late: Vec<u64> = now
        .late
        .iter()
        .enumerate()
        .map(|(at, now)| now.saturating_sub(before.late.get(at).copied().unwrap_or(0)))
        .collect();
    Lately {
        delivered_per_second: rate(before.delivered, now.delivered),
        failed_per_second: rate(before.failed, now.failed),
        late_p50: quantile(&late, 0.5),
        late_p99: quantile(&late, 0.99),
        oldest_in_flight: now.oldest_in_flight,
    }
}

/// A quantile out of cumulative counts of the lateness' buckets, as Prometheus estimates it: evenly spread inside of a bucket.
/// What lies beyond the last bound is shown as that bound.
fn quantile(cumulative: &[u64], q: f64) -> Option<f64> {
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
    use crate::telemetry::events::Events;
    use crate::telemetry::metrics::QueueSizes;

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
        let counters = recent.now();
        let samples = recent.samples.lock();
        let found = lately(&samples[0].queues["orders"], &counters.queues["orders"], 10.0);
        assert_eq!((found.delivered_per_second, found.failed_per_second), (5.0, 0.0));
        assert!(found.late_p50.unwrap() < 0.01 && found.late_p99.unwrap() < 0.01, "{found:?}");
        drop(samples);
        assert!(recent.lately()["orders"].late_p50.is_some());
    }

    #[test]
    fn the_age_of_what_is_in_flight_is_that_of_the_latest_look() {
        let events = Events::default();
        let recent = Recent::new(events.metrics().clone());
        let oldest = LateState::ALL.map(|state| match state {
            LateState::InFlight => Duration::from_secs(7),
            _ => Duration::from_secs(9),
        });
        let sizes = QueueSizes { messages: Default::default(), oldest, next_due_ms: None };
        events.metrics().queue(&"orders".into()).sizes(&sizes);
        assert_eq!(recent.lately()["orders"].oldest_in_flight, 7.0);
    }

    #[test]
    fn nothing_delivered_has_no_lateness() {
        let found = lately(&Counters::default(), &Counters { late: vec![0; 20], ..Counters::default() }, 10.0);
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
        assert_eq!(recent.samples.lock().len(), KEPT);
    }
}
