//! The events of one sink.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use delaybridge_core::log::{info, warn};

use super::{QUIET, reason};
use crate::metrics::SinkMetrics;
use crate::status::{SinkNews, SinkState, Status};
use crate::throttle::Throttle;
use delaybridge_core::clock::Instant;
use delaybridge_core::message::Failure;

/// The events of one sink. Cheap to clone.
#[derive(Clone)]
pub struct SinkEvents {
    metrics: SinkMetrics,
    status: Status,
    /// The rate limit of lines about destinations.
    quiet: Arc<Throttle>,
    /// The rate limit of lines about another reason of the same state.
    reasons: Arc<Throttle>,
    /// Whether the sink was replaced or removed; its events are ignored then.
    retired: Arc<AtomicBool>,
}

impl SinkEvents {
    pub(super) fn new(metrics: SinkMetrics, status: Status) -> Self {
        let throttle = || Arc::new(Throttle::new(QUIET));
        SinkEvents { metrics, status, quiet: throttle(), reasons: throttle(), retired: Arc::default() }
    }

    /// The metrics, for counts without a log line.
    pub fn metrics(&self) -> &SinkMetrics {
        &self.metrics
    }

    /// The sink was replaced or removed: ignores its events from now on.
    pub fn retire(&self) {
        self.retired.store(true, Ordering::Release);
    }

    fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// The breaker opened, or a probe failed again. Logged only if the failure is new.
    pub fn down(&self, failure: &Failure) {
        self.is_down(failure, "sink down; one element at a time is tried until it answers");
    }

    /// The sink does not answer to a probe while nothing is to be delivered. Logged only if the failure is new.
    pub fn silent(&self, failure: &Failure) {
        self.is_down(failure, "sink down: it does not answer to a probe");
    }

    fn is_down(&self, failure: &Failure, line: &'static str) {
        if self.is_retired() {
            return;
        }
        self.metrics.up(false);
        self.metrics.blocked(false);
        if let Some(left_out) = self.news(SinkState::Down(reason(failure))) {
            warn!(
                sink = &**self.metrics.name(),
                class = failure.class.as_str(),
                code = failure.code,
                problem = failure.message,
                left_out,
                "{line}"
            );
        }
    }

    /// Sets the state; returns the number of lines that were left out before, if a line is due now. A change of the state is
    /// always logged; another reason of the same state at most every ten seconds, because reasons may alternate.
    fn news(&self, state: SinkState) -> Option<u64> {
        match self.status.sink(self.metrics.name(), state) {
            SinkNews::Nothing => None,
            SinkNews::Reason => self.reasons.admit(Instant::now(), 1),
            SinkNews::State => Some(0),
        }
    }

    /// The sink is full.
    pub fn blocked(&self, failure: &Failure) {
        if self.is_retired() {
            return;
        }
        self.metrics.up(true);
        self.metrics.blocked(true);
        if let Some(left_out) = self.news(SinkState::Blocked(reason(failure))) {
            let (sink, problem) = (&**self.metrics.name(), &failure.message);
            warn!(sink, code = failure.code, problem, left_out, "sink full; claiming stops for it");
        }
    }

    /// Logs that a look for an element failed. `waits`: it is looked for again, else sent again.
    pub fn look_failed(&self, failure: &Failure, waits: bool) {
        if self.is_retired() {
            return;
        }
        let Some(left_out) = self.quiet.admit(Instant::now(), 1) else { return };
        let (sink, code, problem) = (&**self.metrics.name(), failure.code, &failure.message);
        match waits {
            true => warn!(
                sink,
                code,
                problem,
                left_out,
                "cannot look whether the destination has an element already; it waits for the next look"
            ),
            false => warn!(
                sink,
                code, problem, left_out, "cannot look whether the destination has an element already; it is sent again"
            ),
        }
    }

    /// A destination is in trouble, and its elements wait, while others of the sink are not known to be. `name` and
    /// `failure` show templates instead of payloads. `all` is the number of destinations in trouble now.
    pub fn destination_in_trouble(&self, key: u64, name: &str, failure: &Failure, all: usize) {
        if self.is_retired() {
            return;
        }
        self.metrics.destinations_in_trouble(all);
        let news = self.status.destination(self.metrics.name(), key, Some((name.to_owned(), reason(failure))));
        if news && let Some(left_out) = self.quiet.admit(Instant::now(), 1) {
            warn!(
                sink = &**self.metrics.name(),
                destination = name,
                class = failure.class.as_str(),
                code = failure.code,
                problem = failure.message,
                left_out,
                "destination in trouble; its elements wait, one at a time is tried; others are delivered"
            );
        }
    }

    /// A destination works again.
    pub fn destination_works(&self, key: u64, all: usize) {
        if self.is_retired() {
            return;
        }
        self.metrics.destinations_in_trouble(all);
        if self.status.destination(self.metrics.name(), key, None) {
            info!(sink = &**self.metrics.name(), still_in_trouble = all, "destination works again");
        }
    }

    /// Destinations that were unused for long are forgotten.
    pub fn destinations_forgotten(&self, keys: &[u64], all: usize) {
        if self.is_retired() {
            return;
        }
        self.metrics.destinations_in_trouble(all);
        for key in keys {
            self.status.destination(self.metrics.name(), *key, None);
        }
    }

    /// The sink accepts elements, or has answered a probe. Logged only if it was down or full.
    pub fn up(&self) {
        if self.is_retired() {
            return;
        }
        self.metrics.up(true);
        self.metrics.blocked(false);
        if self.news(SinkState::Up).is_some() {
            info!(sink = &**self.metrics.name(), "sink up");
        }
    }
}
