//! The task that sends spans to their collector, if elements are traced. It outlives the drain, and sends its spans
//! last.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use delaybridge_model::Config;
use delaybridge_spans::{LAST_WORDS, Tracer, export};
use delaybridge_telemetry::events::Events;

/// A handle to the task that sends spans.
pub(super) struct Exporter {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// Starts the task, if tracing is configured. `owner` identifies the process.
pub(super) fn start(config: &Config, events: &Events, owner: [u8; 8]) -> Option<(Tracer, Exporter)> {
    let spec = config.tracing.clone()?;
    let tracer = Tracer::new(spec.sample, events.metrics().spans());
    let stop = CancellationToken::new();
    let sending = export::run(tracer.clone(), spec, hex::encode(owner), stop.clone());
    let events = events.clone();
    // A panic loses spans, but no element.
    let task = tokio::spawn(async move {
        if AssertUnwindSafe(sending).catch_unwind().await.is_err() {
            events.task_ended("traces", "it panicked");
        }
    });
    Some((tracer, Exporter { stop, task }))
}

impl Exporter {
    /// Sends the remaining spans, within a time limit.
    pub(super) async fn close(self) {
        self.stop.cancel();
        let _ = tokio::time::timeout(LAST_WORDS, self.task).await;
    }
}
