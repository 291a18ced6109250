//! What the gauges of a queue show. They are read from Redis, so they go when Redis is away: a number of yesterday looks as
//! good as one of now.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::QueueMetrics;
use super::shares::{GaugeFamily, Together, labels};
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

impl QueueMetrics {
    /// Whether the queue's gauges are there.
    pub fn has_gauges(&self) -> bool {
        self.0.bound.get().is_some_and(|bound| bound.has_gauges.load(Ordering::Relaxed))
    }

    /// Whether anything was ever claimed from the queue.
    pub fn was_used(&self) -> bool {
        self.0.bound.get().is_some_and(|bound| bound.claimed.iter().any(|counter| counter.get().is_some()))
    }

    /// What a look at the queue found.
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

    /// What claims have left behind at the source, and an upper bound for the age of the oldest. Before there are gauges it
    /// is shown only if there is something.
    pub fn leftovers(&self, terms: &'static SourceTerms, n: u64, oldest: Duration) {
        if n == 0 && !self.has_gauges() {
            return;
        }
        self.source_gauge(&terms.leftovers, Together::Sum, n as f64);
        self.source_gauge(&terms.oldest_leftover, Together::Max, oldest.as_secs_f64());
        self.bound().has_gauges.store(true, Ordering::Relaxed);
    }

    /// Redis cannot be asked: what is shown is not true any more.
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

    /// Sets a gauge of the queue; `state` is the second label, where the family has one.
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
