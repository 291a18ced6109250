//! What is counted of traces.

use prometheus::IntCounter;

use super::Metrics;

/// What is counted of traces. Cheap to clone.
#[derive(Clone)]
pub struct SpanMetrics {
    sent: IntCounter,
    dropped: IntCounter,
}

impl Metrics {
    /// The handles of traces; ask once and keep them.
    pub fn spans(&self) -> SpanMetrics {
        let bound = |outcome| self.families().trace_spans.with_label_values(&[outcome]);
        SpanMetrics { sent: bound("sent"), dropped: bound("dropped") }
    }
}

impl SpanMetrics {
    /// The collector has taken so many spans.
    pub fn sent(&self, spans: u64) {
        self.sent.inc_by(spans);
    }

    /// So many spans found no room, or the collector refused them.
    pub fn dropped(&self, spans: u64) {
        self.dropped.inc_by(spans);
    }
}
