//! How fast messages arrive: from the first that was seen to the last.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::daemon::Daemon;

/// The time between two looks.
const LOOK: Duration = Duration::from_millis(20);
/// The time without progress after which a run has failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// The number of messages that are there.
pub enum Arrived {
    /// Nobody answers yet.
    Unknown,
    /// So many.
    At(usize),
}

/// The messages that have become jobs.
pub async fn scheduled(daemon: &Daemon) -> Result<Arrived> {
    let Ok(metrics) = daemon.metrics().await else { return Ok(Arrived::Unknown) };
    Ok(Arrived::At(metrics.sum("delaybridge_input_messages_total{result=\"scheduled\"}") as usize))
}

/// Messages per second, from the first look that sees any to the last message.
pub async fn timed(count: usize, arrived: impl AsyncFn() -> Result<Arrived>) -> Result<f64> {
    let mut first = None;
    let mut last = 0;
    let mut moved = Instant::now();
    loop {
        if let Arrived::At(there) = arrived().await? {
            if there > 0 {
                first.get_or_insert_with(|| (Instant::now(), there));
            }
            if there > last {
                (last, moved) = (there, Instant::now());
            }
            if let (true, Some((started, before))) = (there >= count, first) {
                return Ok((count - before) as f64 / started.elapsed().as_secs_f64());
            }
        }
        ensure!(moved.elapsed() < PATIENCE, "{last} of {count} arrived, and no more within {PATIENCE:?}");
        tokio::time::sleep(LOOK).await;
    }
}
