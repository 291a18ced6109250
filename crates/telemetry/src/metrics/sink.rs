//! The metrics of deliveries: of one queue to one sink, and of one sink over all queues.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use prometheus::{Histogram, IntCounter};

use super::lateness::SharedLateness;
use super::{Metrics, QueueMetrics};
use crate::catalogue::Families;
use crate::labels::{LookResult, OK};
use delaybridge_core::message::{Class, Failure, Outcome};

/// The metrics of the deliveries of one queue to one sink. Cheap to clone.
#[derive(Clone)]
pub struct DeliveryMetrics(Arc<DeliveryInner>);

struct DeliveryInner {
    queue: QueueMetrics,
    sink: Arc<str>,
    ok: OnceLock<IntCounter>,
    failed: [OnceLock<IntCounter>; Class::ALL.len()],
    lateness: OnceLock<(Histogram, Arc<SharedLateness>)>,
}

impl DeliveryMetrics {
    pub(super) fn new(queue: QueueMetrics, sink: &Arc<str>) -> Self {
        let (ok, failed, lateness) = Default::default();
        DeliveryMetrics(Arc::new(DeliveryInner { queue, sink: sink.clone(), ok, failed, lateness }))
    }

    /// Counts the sink's answer about one element.
    pub fn attempt(&self, outcome: &Outcome) {
        let (bound, class) = match outcome {
            Ok(()) => (&self.0.ok, OK),
            Err(Failure { class, .. }) => (&self.0.failed[*class as usize], class.as_str()),
        };
        let make = || self.families().attempts.with_label_values(&[self.0.queue.label(), &self.0.sink, class]);
        bound.get_or_init(make).inc();
        if outcome.is_err() {
            self.0.queue.bound().tally.failed();
        }
    }

    /// Records the time from an element's due time to its acknowledgement.
    pub fn late(&self, lateness: Duration) {
        let make = || {
            let histogram = self.families().lateness.with_label_values(&[self.0.queue.label(), &self.0.sink]);
            (histogram, self.0.queue.0.metrics.lateness_of(&self.0.sink))
        };
        let (histogram, of_sink) = self.0.lateness.get_or_init(make);
        histogram.observe(lateness.as_secs_f64());
        of_sink.add(lateness);
        self.0.queue.bound().tally.late(lateness);
    }

    /// Adds the time for which elements waited for the sink's `max_rate`.
    pub fn throttled(&self, time: Duration) {
        let labels = [self.0.queue.label(), &self.0.sink];
        self.families().throttled.with_label_values(&labels).inc_by(time.as_secs_f64());
    }

    fn families(&self) -> &Families {
        self.0.queue.families()
    }
}

/// The metrics of one sink over all queues. Cheap to clone.
#[derive(Clone)]
pub struct SinkMetrics(Arc<SinkInner>);

struct SinkInner {
    metrics: Metrics,
    sink: Arc<str>,
    ack_duration: OnceLock<Histogram>,
}

impl SinkMetrics {
    pub(super) fn new(metrics: Metrics, sink: &Arc<str>) -> Self {
        SinkMetrics(Arc::new(SinkInner { metrics, sink: sink.clone(), ack_duration: OnceLock::new() }))
    }

    /// Records the time from asking the sink to its answer.
    pub fn answered(&self, outcome: &Outcome, duration: Duration) {
        let make = || self.families().ack_duration.with_label_values(&[&self.0.sink]);
        self.0.ack_duration.get_or_init(make).observe(duration.as_secs_f64());
        if let Err(failure) = outcome {
            let labels = [&*self.0.sink, failure.class.as_str(), failure.code];
            self.families().sink_errors.with_label_values(&labels).inc();
        }
    }

    /// Counts `n` confirmed elements that the sink had already.
    pub fn duplicates_avoided(&self, n: u64) {
        if n > 0 {
            self.families().duplicates_avoided.with_label_values(&[&self.0.sink]).inc_by(n);
        }
    }

    /// Counts the result of a look for an element that the sink may have.
    pub fn looked(&self, result: LookResult) {
        self.families().lookups.with_label_values(&[&*self.0.sink, result.as_str()]).inc();
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.0.sink
    }

    pub(crate) fn all(&self) -> &Metrics {
        &self.0.metrics
    }

    pub(crate) fn up(&self, up: bool) {
        self.families().sink_up.with_label_values(&[&self.0.sink]).set(up.into());
    }

    pub(crate) fn blocked(&self, blocked: bool) {
        self.families().sink_blocked.with_label_values(&[&self.0.sink]).set(blocked.into());
    }

    pub(crate) fn destinations_in_trouble(&self, count: usize) {
        let gauge = self.families().destinations_in_trouble.with_label_values(&[&self.0.sink]);
        gauge.set(count.try_into().unwrap_or(i64::MAX));
    }

    fn families(&self) -> &Families {
        self.0.metrics.families()
    }
}
