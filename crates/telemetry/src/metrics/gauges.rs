//! The gauges of a queue. They are read from Redis and removed while Redis is unreachable, because an old number is
//! indistinguishable from a current one.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::QueueMetrics;
use super::shares::{GaugeFamily, Together, labels};
use crate::labels::{LateState, MessageState};
use delaybridge_core::metric::SourceTerms;

/// The result of one look at a queue.
#[derive(Debug, Clone, Copy, Default)]
pub struct QueueSizes {
    /// The numbers of elements, in the order of [`MessageState::ALL`].
    pub messages: [u64; MessageState::ALL.len()],
    /// Time since the oldest element was due, in the order of [`LateState::ALL`]; zero if there is none.
    pub oldest: [Duration; LateState::ALL.len()],
    /// The due time of the next element, in Redis milliseconds since the epoch.
    pub next_due_ms: Option<i64>,
}

impl QueueMetrics {
    /// Whether the queue's gauges exist.
    pub fn has_gauges(&self) -> bool {
        self.0.bound.get().is_some_and(|bound| bound.has_gauges.load(Ordering::Relaxed))
    }

    /// Whether anything was ever claimed from the queue.
    pub fn was_used(&self) -> bool {
        self.0.bound.get().is_some_and(|bound| bound.claimed.iter().any(|counter| counter.get().is_some()))
    }

    /// Shows the result of a look at the queue.
    pub fn sizes(&self, sizes: &QueueSizes) {
        let QueueSizes { messages, oldest, next_due_ms } = sizes;
        let families = self.families();
        for (state, n) in MessageState::ALL.into_iter().zip(messages) {
            self.gauge(&families.messages, Some(state.as_str()), (Together::Sum, *n as f64));
        }
        for (state, age) in LateState::ALL.into_iter().zip(oldest) {
            let shown = (Together::Max, age.as_secs_f64());
            self.gauge(&families.oldest_due_age_by_state, Some(state.as_str()), shown);
            if state == LateState::InFlight {
                self.bound().tally.in_flight(*age);
            }
        }
        let oldest = oldest.iter().max().copied().unwrap_or_default().as_secs_f64();
        self.gauge(&families.oldest_due_age, None, (Together::Max, oldest));
        let next_due = next_due_ms.unwrap_or(0) as f64 / 1000.0;
        self.gauge(&families.next_due, None, (Together::Earliest, next_due));
        self.bound().has_gauges.store(true, Ordering::Relaxed);
    }

    /// Shows the number of entries that claims left at the source, and an upper bound for the age of the oldest. If the
    /// queue has no gauges yet, zero is not shown.
    pub fn leftovers(&self, terms: &'static SourceTerms, n: u64, oldest: Duration) {
        if n == 0 && !self.has_gauges() {
            return;
        }
        self.source_gauge(&terms.leftovers, Together::Sum, n as f64);
        self.source_gauge(&terms.oldest_leftover, Together::Max, oldest.as_secs_f64());
        self.bound().has_gauges.store(true, Ordering::Relaxed);
    }

    /// Removes the gauges while Redis cannot be asked.
    pub fn clear_gauges(&self, terms: Option<&'static SourceTerms>) {
        let Some(bound) = self.0.bound.get() else { return };
        if !bound.has_gauges.swap(false, Ordering::Relaxed) {
            return;
        }
        let families = self.families();
        for state in MessageState::ALL {
            self.clear(&families.messages, Some(state.as_str()));
        }
        for state in LateState::ALL {
            self.clear(&families.oldest_due_age_by_state, Some(state.as_str()));
        }
        self.clear(&families.oldest_due_age, None);
        self.clear(&families.next_due, None);
        bound.tally.in_flight(Duration::ZERO);
        for definition in terms.iter().flat_map(|terms| [&terms.leftovers, &terms.oldest_leftover, &terms.orphans]) {
            self.clear(&self.0.metrics.source_family(definition), None);
        }
    }

    /// Sets a gauge of the queue. `state` is the second label, if the family has one.
    pub(super) fn gauge<F: GaugeFamily>(&self, family: &F, state: Option<&'static str>, shown: (Together, f64)) {
        if self.is_own() {
            family.show(&labels(self.label(), state), shown.1);
        } else {
            self.0.metrics.0.shares.set(family, state, self.id(), shown);
        }
    }

    fn clear<F: GaugeFamily>(&self, family: &F, state: Option<&'static str>) {
        if self.is_own() {
            family.remove(&labels(self.label(), state));
        } else {
            self.0.metrics.0.shares.clear(family, state, self.id());
        }
    }
}
