//! Ctrl-C, and taking away what was put into Redis.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use super::{AT_LATEST, Redisson};
use crate::link::Link;

/// How long the server is waited for if the connection broke.
const PATIENCE: Duration = Duration::from_secs(10);
/// What a shell expects of a process that a Ctrl-C ended.
const INTERRUPTED: i32 = 130;

/// True from the first SIGINT or SIGTERM on; the second ends the process at once.
pub(super) fn stop_on_signals() -> io::Result<Arc<AtomicBool>> {
    let stopped = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order: the first signal finds the flag down and only raises it.
        flag::register_conditional_shutdown(signal, INTERRUPTED, stopped.clone())?;
        flag::register(signal, stopped.clone())?;
    }
    Ok(stopped)
}

/// Takes the queue away; the error says what is left and what to do.
pub(super) async fn clean(link: &Link, queue: &Redisson) -> Result<(), String> {
    // A connection that broke in the middle of it is replaced meanwhile.
    let cleaned = async {
        let conn = link.ready().await;
        queue.unlink(&conn).await?;
        queue.keys_there(&conn).await
    };
    let why = match tokio::time::timeout(PATIENCE, cleaned).await {
        Ok(Ok(left)) if left.is_empty() => return Ok(()),
        Ok(Ok(left)) => format!("somebody else wrote to {}", left.join(", ")),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("Redis did not answer for {} s", PATIENCE.as_secs()),
    };
    let keys = queue.stored_names().join("' '");
    Err(format!(
        "what it had put there could not be taken away: {why}. Most of it goes by itself within {} minutes; to be rid of it \
         now: redis-cli UNLINK '{keys}'",
        AT_LATEST.as_secs() / 60
    ))
}
