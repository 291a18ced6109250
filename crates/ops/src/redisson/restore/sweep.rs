//! Turns of the sweep until no ghost is recorded any more.

use std::time::Duration;

use crate::error::{Attempted, Error, may_have_run};
use crate::session::Queue;
use delaybridge_ledger::{Start, UpkeepRequest, UpkeepState};

/// Turns after which something must be making ghosts as fast as they are removed.
const TURNS: usize = 5;
/// Time between two looks while another one's sweep is waited for.
const WAIT: Duration = Duration::from_millis(500);

/// Sweeps, and returns how many entries of the list in a full turn are in no zset and were recorded by no claim.
pub(super) async fn until_no_ghost_is_left(queue: &Queue) -> Result<u64, Error> {
    let what = format!("sweep the list of `{}`", queue.id());
    for _ in 0..TURNS {
        let orphans = turn(queue, &what).await?;
        let stats = queue.redisson().stats(&queue.conn).await.attempt(&what)?;
        if stats.source.leftovers.count == 0 {
            return Ok(orphans);
        }
    }
    Err(Error::conflict(format!("{what}: new ghosts appear as fast as they are removed; is a daemon still running?")))
}

/// Returns one turn to its end, or what is left of one that another daemon began; answers the orphans that it saw.
pub(crate) async fn turn(queue: &Queue, what: &str) -> Result<u64, Error> {
    let mut request = UpkeepRequest {
        step: None,
        max_age: Duration::ZERO,
        bandwidth: queue.spec.source.upkeep_bandwidth(),
        // Also without a ghost: only a full turn shows whether the list has unrecorded entries.
        start: Start::Census,
        largest: 0,
    };
    loop {
        // Sent again after a lost reply: a slice that was done is refused, with the number to continue with.
        let swept = match queue.redisson().sweep(&queue.conn, &request).await {
            Err(error) if may_have_run(&error) => queue.redisson().sweep(&queue.conn, &request).await,
            other => other,
        };
        let swept = swept.attempt(what)?;
        match swept.state {
            UpkeepState::Done => return Ok(swept.orphans.unsigned_abs()),
            // The turn is over, and its number went with a lost reply.
            UpkeepState::Idle => request.step = None,
            UpkeepState::Stale if swept.left == 0 => request.step = None,
            UpkeepState::Begun | UpkeepState::Step | UpkeepState::Stale => request.step = Some(swept.step),
            UpkeepState::Busy => tokio::time::sleep(WAIT).await,
        }
    }
}
