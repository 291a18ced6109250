//! What the gauges of a queue show. They are read from Redis, so they go when Redis is away: a number of yesterday looks as
//! good as one of now.

use std::time::Duration;

use prometheus::{Gauge, IntGauge};

use super::QueueMetrics;
use crate::metric::SourceTerms;
use crate::telemetry::labels::{LateState, MessageState};

/// What one look at a queue found.
#[derive(Debug, Clone, Copy, Default)]
pub struct QueueSizes {
    /// Elements, in the order of [`MessageState::ALL`].
    pub messages: [u64; MessageState::ALL.len()],
    /// How long the oldest element has been due, in the order of [`LateState::ALL`]; zero where none is.
    pub oldest: [Duration; LateState::ALL.len()],
    /// When the next element falls due, in Redis milliseconds since the epoch.
    pub next_due_ms: Option<i64>,
}

/// The series of one queue.
pub(super) struct Gauges {
    messages: [IntGauge; MessageState::ALL.len()],
    oldest: Gauge,
    oldest_by_state: [Gauge; LateState::ALL.len()],
    next_due: Gauge,
    /// How many, and the age of the oldest.
    leftovers: Option<[Gauge; 2]>,
}

impl Gauges {
    fn new(queue: &QueueMetrics) -> Self {
        let (families, label) = (queue.families(), queue.label());
        let all = |index: usize| MessageState::ALL[index].as_str();
        let late = |index: usize| LateState::ALL[index].as_str();
        Gauges {
            messages: std::array::from_fn(|index| families.messages.with_label_values(&[label, all(index)])),
            oldest: families.oldest_due_age.with_label_values(&[label]),
            oldest_by_state: std::array::from_fn(|index| {
                families.oldest_due_age_by_state.with_label_values(&[label, late(index)])
            }),
            next_due: families.next_due.with_label_values(&[label]),
            leftovers: None,
        }
    }

    fn set(&self, sizes: &QueueSizes) {
        for (gauge, n) in self.messages.iter().zip(sizes.messages) {
            gauge.set(n.try_into().unwrap_or(i64::MAX));
        }
        for (gauge, age) in self.oldest_by_state.iter().zip(sizes.oldest) {
            gauge.set(age.as_secs_f64());
        }
        self.oldest.set(sizes.oldest.iter().max().copied().unwrap_or_default().as_secs_f64());
        self.next_due.set(sizes.next_due_ms.unwrap_or(0) as f64 / 1000.0);
    }
}

impl QueueMetrics {
    /// Whether the queue's gauges are there.
    pub fn has_gauges(&self) -> bool {
        self.0.bound.get().is_some_and(|bound| bound.gauges.lock().is_some())
    }

    /// Whether anything was ever claimed from the queue.
    pub fn was_used(&self) -> bool {
        self.0.bound.get().is_some_and(|bound| bound.claimed.iter().any(|counter| counter.get().is_some()))
    }

    /// What a look at the queue found.
    pub fn sizes(&self, sizes: &QueueSizes) {
        let mut gauges = self.bound().gauges.lock();
        gauges.get_or_insert_with(|| Box::new(Gauges::new(self))).set(sizes);
    }

    /// What claims have left behind at the source, and an upper bound for the age of the oldest. Before there are gauges it
    /// is shown only if there is something.
    pub fn leftovers(&self, terms: &'static SourceTerms, n: u64, oldest: Duration) {
        if n == 0 && !self.has_gauges() {
            return;
        }
        let mut gauges = self.bound().gauges.lock();
        let gauges = gauges.get_or_insert_with(|| Box::new(Gauges::new(self)));
        let make = || [&terms.leftovers, &terms.oldest_leftover].map(|gauge| self.source_gauge(gauge));
        let [count, age] = gauges.leftovers.get_or_insert_with(make);
        count.set(n as f64);
        age.set(oldest.as_secs_f64());
    }

    /// Redis cannot be asked: what is shown is not true any more.
    pub fn clear_gauges(&self, terms: Option<&'static SourceTerms>) {
        let Some(bound) = self.0.bound.get() else { return };
        if bound.gauges.lock().take().is_none() {
            return;
        }
        let (families, label) = (self.families(), self.label());
        // Nothing to remove where nothing was ever set.
        for state in MessageState::ALL {
            let _ = families.messages.remove_label_values(&[label, state.as_str()]);
        }
        for state in LateState::ALL {
            let _ = families.oldest_due_age_by_state.remove_label_values(&[label, state.as_str()]);
        }
        let _ = families.oldest_due_age.remove_label_values(&[label]);
        let _ = families.next_due.remove_label_values(&[label]);
        for definition in terms.iter().flat_map(|terms| [&terms.leftovers, &terms.oldest_leftover, &terms.orphans]) {
            let _ = self.0.metrics.source_family(definition).remove_label_values(&[label]);
        }
    }
}
