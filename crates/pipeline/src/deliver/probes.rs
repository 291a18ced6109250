//! Asks a sink whether it answers, at start and while it has nothing to deliver: else a wrong address would show with the
//! first element only, and a sink that has never answered would be called up.
//!
//! One task a sink, whatever the number of queues. What an element hears says more than a probe, so while elements are
//! answered nothing is asked.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::deliver::sink_handle::SinkHandle;
use delaybridge_core::backoff::{Backoff, Jitter};
use delaybridge_core::clock::Instant;

/// Time between two probes of a sink that answers.
pub const EVERY: Duration = Duration::from_secs(15);
/// Waits after probes that failed.
const AGAIN: Backoff = Backoff::doubling(Duration::from_secs(1), EVERY, Jitter::From(0.8));

/// Probes the sink until the process stops, or another sink has its name. One that has nothing to ask counts as up.
pub async fn run(handle: Arc<SinkHandle>, stopping: CancellationToken) {
    // Order: the end goes first. A question that is left behind has no effect.
    tokio::select! {
        biased;
        () = stopping.cancelled() => {}
        () = handle.retired() => {}
        () = probe(&handle) => {}
    }
}

async fn probe(handle: &SinkHandle) {
    let mut failures = 0;
    let mut answers = None;
    let mut quiet_since = Instant::now();
    loop {
        let before = handle.answers();
        if answers.replace(before).is_some_and(|last| last != before) {
            // Elements are answered: they say how it is.
            (failures, quiet_since) = (0, Instant::now());
            tokio::time::sleep(EVERY).await;
            continue;
        }
        let Some(question) = handle.question() else {
            handle.probed(&Ok(()), before, quiet_since.elapsed());
            return std::future::pending().await;
        };
        let answer = question.await;
        handle.probed(&answer, before, quiet_since.elapsed());
        let wait = match answer {
            Ok(()) => {
                failures = 0;
                EVERY.mul_f64(0.9 + 0.2 * fastrand::f64())
            }
            Err(_) => {
                failures += 1;
                AGAIN.wait(failures - 1, fastrand::f64())
            }
        };
        tokio::time::sleep(wait).await;
    }
}
