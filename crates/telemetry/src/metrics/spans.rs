//! The metrics of traces.

use prometheus::IntCounter;

use super::Metrics;

/// The metrics of traces. Cheap to clone.
#[derive(Clone)]
pub struct SpanMetrics {
    sent: IntCounter,
    dropped: IntCounter,
}

impl Metrics {
    /// Returns the handles of traces. Call it once and keep the result.
    pub fn spans(&self) -> SpanMetrics {
        let bound = |outcome| self.families().trace_spans.with_label_values(&[outcome]);
        SpanMetrics { sent: bound("sent"), dropped: bound("dropped") }
    }
}

impl SpanMetrics {
    /// Counts spans that the collector took.
    pub fn sent(&self, spans: u64) {
        self.sent.inc_by(spans);
    }

    /// Counts spans that were dropped: no room for them, or the collector refused them.
    pub fn dropped(&self, spans: u64) {
        self.dropped.inc_by(spans);
    }
}
