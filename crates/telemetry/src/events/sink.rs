//! The events of one sink.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use delaybridge_core::log::{info, warn};

use super::reason;
use crate::metrics::SinkMetrics;
use crate::status::{Reason, SinkNews, SinkState, Status};
use crate::throttle::{QUIET, Throttle};
use delaybridge_core::clock::Instant;
use delaybridge_core::message::Failure;

/// The events of one sink. Cheap to clone.
#[derive(Clone)]
pub struct SinkEvents {
    metrics: SinkMetrics,
    status: Status,
    lines: Arc<SinkLines>,
    /// Whether the sink was replaced or removed; its events are ignored then.
    retired: Arc<AtomicBool>,
}

/// The rate limits of the lines about one sink: whatever alternates, one line of each in [`QUIET`].
struct SinkLines {
    /// The state of the sink, and its reason.
    state: Throttle,
    /// The destinations in trouble, and those that work again.
    destinations: Throttle,
    /// The failed looks for elements.
    looks: Throttle,
}

/// The line about a sink whose breaker is open.
const TRIED: &str = "sink down; one element at a time is tried until it answers";
/// The line about a sink that does not answer to a probe.
const SILENT: &str = "sink down: it does not answer to a probe";
/// The line about a sink that went down some time ago, for either reason.
const DOWN: &str = "sink down";

impl SinkEvents {
    pub(super) fn new(metrics: SinkMetrics, status: Status) -> Self {
        let throttle = || Throttle::new(QUIET);
        let lines = SinkLines { state: throttle(), destinations: throttle(), looks: throttle() };
        SinkEvents { metrics, status, lines: Arc::new(lines), retired: Arc::default() }
    }

    /// Returns the metrics, for counts without a log line.
    pub fn metrics(&self) -> &SinkMetrics {
        &self.metrics
    }

    /// Ignores the sink's events from now on: it was replaced or removed.
    pub fn retire(&self) {
        self.retired.store(true, Ordering::Release);
    }

    fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// Reports that the breaker opened, or a probe failed again. Logged only if the failure is new.
    pub fn down(&self, failure: &Failure) {
        self.is_down(failure, TRIED);
    }

    /// Reports that the sink does not answer to a probe while nothing is to be delivered. Logged only if the failure is
    /// new.
    pub fn silent(&self, failure: &Failure) {
        self.is_down(failure, SILENT);
    }

    fn is_down(&self, failure: &Failure, line: &'static str) {
        if self.is_retired() {
            return;
        }
        self.metrics.all().not_connected(self.metrics.name(), &failure.message);
        self.metrics.up(false);
        self.metrics.blocked(false);
        self.set(SinkState::Down(reason(failure)), line);
    }

    /// Sets the state. News is logged, unless there was a line within the last ten seconds: states and reasons may alternate.
    fn set(&self, state: SinkState, down: &'static str) {
        match self.status.sink(self.metrics.name(), state.clone()) {
            SinkNews::Nothing => {}
            SinkNews::Reason | SinkNews::State => {
                if let Some(left_out) = self.lines.state.admit(Instant::now(), 1) {
                    self.log(&state, left_out, down);
                }
            }
        }
    }

    fn log(&self, state: &SinkState, left_out: u64, down: &'static str) {
        let sink = &**self.metrics.name();
        match state {
            SinkState::Unknown => {}
            SinkState::Up => info!(sink, left_out, "sink up"),
            SinkState::Blocked(reason) => {
                let [_, code, problem] = parts(reason);
                warn!(sink, code, problem, left_out, "sink blocked: it takes no more for now; claiming stops for it");
            }
            SinkState::Down(reason) => {
                let [class, code, problem] = parts(reason);
                warn!(sink, class, code, problem, left_out, "{down}");
            }
        }
    }

    /// Logs the state of now if a line about it was suppressed long enough ago, and the sums of other suppressed lines; with
    /// `all`, of all.
    pub(super) fn sum_up(&self, all: bool) {
        if self.is_retired() {
            return;
        }
        let sink = self.metrics.name();
        let now = Instant::now();
        if let Some((lines, _)) = self.lines.state.sum(now, all)
            && let Some(state) = self.status.sink_state(sink)
        {
            // This line is one of them.
            self.log(&state, lines.saturating_sub(1), DOWN);
        }
        if let Some((lines, time)) = self.lines.destinations.sum(now, all) {
            let seconds = time.as_secs();
            info!(
                sink = &**sink,
                lines, seconds, "destinations in trouble, and working again: sum of the lines left out"
            );
        }
        if let Some((lines, time)) = self.lines.looks.sum(now, all) {
            let seconds = time.as_secs();
            warn!(sink = &**sink, lines, seconds, "looks for elements that failed: sum of the lines left out");
        }
    }

    /// Reports that the sink takes no more for now.
    pub fn blocked(&self, failure: &Failure) {
        if self.is_retired() {
            return;
        }
        self.metrics.up(true);
        self.metrics.blocked(true);
        self.set(SinkState::Blocked(reason(failure)), TRIED);
    }

    /// Logs that a look for an element failed. `waits`: it is looked for again, else sent again.
    pub fn look_failed(&self, failure: &Failure, waits: bool) {
        if self.is_retired() {
            return;
        }
        let Some(left_out) = self.lines.looks.admit(Instant::now(), 1) else { return };
        let sink = &**self.metrics.name();
        let code = failure.code;
        let problem = &failure.message;
        if waits {
            warn!(
                sink,
                code,
                problem,
                left_out,
                "cannot look whether the destination has an element already; it waits for the next look"
            )
        } else {
            warn!(
                sink,
                code, problem, left_out, "cannot look whether the destination has an element already; it is sent again"
            )
        }
    }

    /// Reports that a destination is in trouble, and its elements wait, while others of the sink are not known to be.
    /// `name` and `failure` show templates instead of payloads. `all` is the number of destinations in trouble now.
    pub fn destination_in_trouble(&self, key: u64, name: &str, failure: &Failure, all: usize) {
        if self.is_retired() {
            return;
        }
        self.metrics.all().not_connected(self.metrics.name(), &failure.message);
        self.metrics.destinations_in_trouble(all);
        let news = self.status.destination(self.metrics.name(), key, Some((name.to_owned(), reason(failure))));
        if news && let Some(left_out) = self.lines.destinations.admit(Instant::now(), 1) {
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

    /// Reports that a destination works again.
    pub fn destination_works(&self, key: u64, all: usize) {
        if self.is_retired() {
            return;
        }
        self.metrics.destinations_in_trouble(all);
        if self.status.destination(self.metrics.name(), key, None)
            && let Some(left_out) = self.lines.destinations.admit(Instant::now(), 1)
        {
            info!(sink = &**self.metrics.name(), still_in_trouble = all, left_out, "destination works again");
        }
    }

    /// Forgets destinations that were unused for long.
    pub fn destinations_forgotten(&self, keys: &[u64], all: usize) {
        if self.is_retired() {
            return;
        }
        self.metrics.destinations_in_trouble(all);
        for key in keys {
            self.status.destination(self.metrics.name(), *key, None);
        }
    }

    /// Reports that the sink accepts elements, or has answered a probe. Logged if it was down or blocked.
    pub fn up(&self) {
        if self.is_retired() {
            return;
        }
        self.metrics.up(true);
        self.metrics.blocked(false);
        self.set(SinkState::Up, TRIED);
    }
}

/// Splits a reason into class, code and message of the failure behind it, which it has as `CLASS CODE` and `MESSAGE
/// (CODE, CLASS)`.
fn parts(reason: &Reason) -> [&str; 3] {
    let (class, code) = reason.code.split_once(' ').unwrap_or(("", &reason.code));
    let message = reason.text.rsplit_once(" (").map_or(&*reason.text, |(message, _)| message);
    [class, code, message]
}
