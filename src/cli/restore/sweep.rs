//! Turns of the sweep until nothing is recorded as a ghost any more.

use std::time::Duration;

use super::super::Failed;
use super::super::session::{attempted, may_have_run};
use super::View;
use crate::source::redisson::{Hints, Start, SweepRequest, SweepState};

/// Turns after which something must be making ghosts as fast as they are removed.
const TURNS: usize = 5;
/// Time between two looks while another one's sweep is waited for.
const WAIT: Duration = Duration::from_millis(500);

/// Sweeps, and answers how many entries of the list a full turn met that are in no zset and that nobody recorded.
pub(super) async fn until_no_ghost_is_left(view: &View<'_>) -> Result<u64, Failed> {
    let what = format!("sweep the list of `{}`", view.id);
    for _ in 0..TURNS {
        let orphans = turn(view, &what).await?;
        let stats = view.queue.redisson.stats(&view.session.conn, &mut Hints::default()).await;
        if stats.map_err(attempted(&what))?.source.leftovers.count == 0 {
            return Ok(orphans);
        }
    }
    Err(Failed::runtime(format!("{what}: new ghosts appear as fast as they are removed; is a daemon still running?")))
}

async fn turn(view: &View<'_>, what: &str) -> Result<u64, Failed> {
    let mut request = SweepRequest {
        step: None,
        max_age: Duration::ZERO,
        bandwidth: view.queue.spec.sweep_bandwidth,
        // Also without a ghost: only a full turn tells whether the list has entries that nobody recorded.
        start: Start::Census,
        largest: 0,
    };
    loop {
        // Sent again after a lost reply: a slice that was done is refused, and tells the number to go on with.
        let swept = match view.queue.redisson.sweep(&view.session.conn, &request).await {
            Err(error) if may_have_run(&error) => view.queue.redisson.sweep(&view.session.conn, &request).await,
            other => other,
        };
        let swept = swept.map_err(attempted(what))?;
        match swept.state {
            SweepState::Done => return Ok(swept.orphans.unsigned_abs()),
            // The turn is over, and its number went with a lost reply.
            SweepState::Idle => request.step = None,
            SweepState::Stale if swept.left == 0 => request.step = None,
            SweepState::Begun | SweepState::Step | SweepState::Stale => request.step = Some(swept.step),
            SweepState::Busy => tokio::time::sleep(WAIT).await,
        }
    }
}
