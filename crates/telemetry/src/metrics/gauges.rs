//! The gauges of a queue. They are read from Redis and removed while Redis is unreachable, because an old number is
//! indistinguishable from a current one.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::QueueMetrics;
use super::shares::{GaugeFamily, Together, labels};
use super::tally::LastLook;
use crate::labels::{Horizon, LateState, MessageState};
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
    /// Time in ms until Redis deletes a key of the queue's source, if it deletes one.
    pub expires_ms: Option<i64>,
    /// Elements that are not due yet.
    pub ahead: QueueAhead,
}

/// Counts of what is scheduled and not due yet.
#[derive(Debug, Clone, Copy, Default)]
pub struct QueueAhead {
    /// The numbers of elements that fall due within each horizon, in the order of [`Horizon::ALL`].
    pub within: [u64; Horizon::ALL.len()],
    /// The number of elements with due times that are hardly meant.
    pub absurd: u64,
    /// The due time of the last element, in Redis milliseconds since the epoch.
    pub last_due_ms: Option<i64>,
    /// The greatest lateness to expect within the next hour; `None` while the rate is not known.
    pub lateness: Option<Duration>,
}

impl QueueMetrics {
    /// Returns whether the queue's gauges exist.
    pub fn has_gauges(&self) -> bool {
        self.0.bound.get().is_some_and(|bound| bound.has_gauges.load(Ordering::Relaxed))
    }

    /// Returns whether anything was ever claimed from the queue.
    pub fn was_used(&self) -> bool {
        self.0.bound.get().is_some_and(|bound| bound.claimed.iter().any(|counter| counter.get().is_some()))
    }

    /// Shows the result of a look at the queue.
    pub fn sizes(&self, sizes: &QueueSizes) {
        let QueueSizes { messages, oldest, next_due_ms, expires_ms, ahead } = sizes;
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
        match expires_ms {
            Some(ms) => self.gauge(&families.expires, None, (Together::Earliest, *ms as f64 / 1000.0)),
            None => self.clear(&families.expires, None),
        }
        self.ahead(ahead);
        let [_scheduled, due, in_flight, retry, dead] = *messages;
        self.bound().tally.saw(LastLook {
            due,
            backlog: due.saturating_add(in_flight).saturating_add(retry),
            dead,
            overdue_ms: (oldest * 1_000.0) as u64,
            absurd: ahead.absurd,
        });
        self.bound().has_gauges.store(true, Ordering::Relaxed);
    }

    fn ahead(&self, ahead: &QueueAhead) {
        let QueueAhead { within, absurd, last_due_ms, lateness } = ahead;
        let families = self.families();
        for (horizon, n) in Horizon::ALL.into_iter().zip(within) {
            self.gauge(&families.due_within, Some(horizon.as_str()), (Together::Sum, *n as f64));
        }
        let last_due = last_due_ms.unwrap_or(0) as f64 / 1000.0;
        self.gauge(&families.last_due, None, (Together::Max, last_due));
        let has_absurd = &self.bound().has_absurd;
        if *absurd > 0 || has_absurd.load(Ordering::Relaxed) {
            self.gauge(&families.absurd_due, None, (Together::Sum, *absurd as f64));
            has_absurd.store(true, Ordering::Relaxed);
        }
        match lateness {
            Some(lateness) => self.gauge(&families.forecast_lateness, None, (Together::Max, lateness.as_secs_f64())),
            None => self.clear(&families.forecast_lateness, None),
        }
    }

    /// Notes at a look whether elements are overdue that nobody has claimed: then what is delivered is what can be.
    pub fn busy(&self, is_busy: bool) {
        self.bound().tally.looked(is_busy);
    }

    /// Returns the highest rate of deliveries within the last day while the queue was [busy](QueueMetrics::busy), by
    /// second.
    pub fn busy_rate(&self) -> Option<f64> {
        self.0.bound.get()?.tally.busy_rate()
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
        for horizon in Horizon::ALL {
            self.clear(&families.due_within, Some(horizon.as_str()));
        }
        self.clear(&families.last_due, None);
        self.clear(&families.expires, None);
        self.clear(&families.forecast_lateness, None);
        if bound.has_absurd.swap(false, Ordering::Relaxed) {
            self.clear(&families.absurd_due, None);
        }
        bound.tally.in_flight(Duration::ZERO);
        bound.tally.saw(LastLook::default());
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
