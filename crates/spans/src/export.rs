//! Sends the spans that the tracer has gathered: once a second, or as soon as a request is full. A request that failed
//! temporarily is sent again with growing waits; meanwhile the tracer's queue drops spans for which it has no room.

use std::time::Duration;

use delaybridge_core::log;
use tokio_util::sync::CancellationToken;

use super::config::OtlpSpec;
use super::send::{NotTaken, send};
use super::{Finished, Tracer, proto};
use delaybridge_core::backoff::{Backoff, Jitter};

/// Maximum number of elements in one request: at 1 KB each far below the 4 MB that a collector accepts.
const REQUEST: usize = 512;
/// Time for which the first element of a request waits for others.
const GATHER: Duration = Duration::from_secs(1);
/// Waits between two attempts at a request.
const WAITS: Backoff = Backoff::doubling(Duration::from_secs(1), Duration::from_secs(30), Jitter::From(0.5));

/// Sends until `stop`, then sends the rest once. `instance` identifies this process.
pub async fn run(tracer: Tracer, spec: OtlpSpec, instance: String, stop: CancellationToken) {
    // Whether the last request failed. The log has a line for each change.
    let mut failing = false;
    loop {
        let elements = tracer.next(REQUEST);
        if elements.is_empty() {
            // Unbiased. Both futures are cancel safe.
            tokio::select! {
                () = tracer.0.knock.notified() => {}
                () = stop.cancelled() => return,
            }
            // A stale notification is harmless: the next look finds nothing.
            tokio::select! {
                () = tokio::time::sleep(GATHER) => {}
                () = stop.cancelled() => {}
            }
            continue;
        }
        deliver(&tracer, &spec, &instance, &elements, &stop, &mut failing).await;
    }
}

/// Sends a request until it is taken or refused for good; only once if the process is stopping.
async fn deliver(
    tracer: &Tracer,
    spec: &OtlpSpec,
    instance: &str,
    elements: &[Finished],
    stop: &CancellationToken,
    failing: &mut bool,
) {
    let message = proto::request(elements, instance);
    let spans = elements.iter().map(Finished::spans).sum();
    let metrics = &tracer.0.metrics;
    for tries in 0.. {
        let problem = match send(spec, &message).await {
            Ok(()) => {
                if std::mem::take(failing) {
                    log::info!(endpoint = spec.endpoint, "the collector of traces takes spans again");
                }
                return metrics.sent(spans);
            }
            Err(problem) => problem,
        };
        if !std::mem::replace(failing, true) {
            log::warn!(
                endpoint = spec.endpoint,
                "send spans to the collector of traces: {problem}; elements are delivered without it, spans that find no room are dropped \
                 (delaybridge_trace_spans_total)"
            );
        }
        if matches!(problem, NotTaken::Refused(_)) || stop.is_cancelled() {
            return metrics.dropped(spans);
        }
        // Unbiased. Both futures are cancel safe.
        tokio::select! {
            () = tokio::time::sleep(WAITS.wait(tries, fastrand::f64())) => {}
            () = stop.cancelled() => {}
        }
    }
}
