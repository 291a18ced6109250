//! Takes ghosts out of Redisson's lists, slice after slice, one queue after the other.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::clock::Instant;
use crate::pipeline::process::Process;
use crate::pipeline::queue::Queue;
use crate::source::redisson::{SourceError, Start, SweepRequest, SweepState, Swept};
use crate::telemetry::status::Heartbeat;

/// How often the queues are looked at.
const EVERY: Duration = Duration::from_millis(250);

/// What a look at a queue saw of its ghosts.
#[derive(Debug, Clone, Copy)]
pub struct Ghosts {
    /// Recorded ones.
    pub count: u64,
    /// Entries of the list, ghosts and others.
    pub listed: u64,
    /// Age of the oldest.
    pub oldest: Duration,
}

impl Ghosts {
    /// Whether a turn is worth asking for. While more is due it can wait: Redis's time goes to what would be late, and
    /// one turn behind a backlog finds all of its ghosts, where several would go round among those to come.
    pub fn want_turn(&self, max_age: Duration, more_due: bool) -> bool {
        self.count > 0 && (self.oldest >= max_age || !more_due && self.count * 2 > self.listed)
    }
}

/// Sweeps until the process stops.
pub async fn run(process: Arc<Process>, queues: Vec<Arc<Queue>>, heartbeat: Heartbeat) {
    loop {
        // Order: the end goes first. A turn may be left after any slice: the next daemon goes on where it stands.
        tokio::select! {
            biased;
            () = process.stopping.cancelled() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
        heartbeat.beat();
        for queue in &queues {
            if queue.sweep_due.swap(false, Ordering::Relaxed) {
                turn(queue, &heartbeat).await;
            }
        }
    }
}

/// One full turn, if one is due.
async fn turn(queue: &Arc<Queue>, heartbeat: &Heartbeat) {
    let started = Instant::now();
    let mut request = SweepRequest {
        slice: None,
        ghost_max_age: queue.spec.ghost_max_age,
        bandwidth: queue.spec.sweep_bandwidth,
        start: if queue.process.redis_nearly_full.load(Ordering::Relaxed) { Start::Urgent } else { Start::Due },
        largest: queue.hints().largest(),
    };
    let (mut removed, mut entries) = (0, 0);
    while !queue.process.stopping.is_cancelled() {
        heartbeat.beat();
        // An unanswered step is sent again: a slice that was done is refused, and tells the number to go on with.
        let Ok(swept) = step(queue, &request).await else { return };
        removed += swept.removed.unsigned_abs();
        match swept.state {
            SweepState::Idle | SweepState::Busy => return,
            // Left by the answer to a resend; a turn that is over has nothing left.
            SweepState::Stale if swept.left == 0 => return,
            SweepState::Begun => {
                entries = swept.left.unsigned_abs();
                request.slice = Some(swept.slice);
            }
            SweepState::Stale | SweepState::Slice => request.slice = Some(swept.slice),
            SweepState::Done => {
                queue.events.orphans(swept.orphans.unsigned_abs());
                queue.events.swept(entries, removed, started.elapsed());
                return;
            }
        }
    }
}

async fn step(queue: &Arc<Queue>, request: &SweepRequest) -> Result<Swept, SourceError> {
    for _ in 0..3 {
        let Some(conn) = queue.process.link.current() else { break };
        let sent = Instant::now();
        match queue.source.sweep(&conn, request).await {
            Err(SourceError::Link(crate::link::LinkError::Unknown { .. })) => {}
            other => {
                queue.process.events.metrics().script("sweep").took(sent.elapsed());
                return other;
            }
        }
    }
    // The turn stays open; whoever looks next goes on with it.
    Err(SourceError::Reply(crate::source::redisson::BadReply { script: "sweep", expected: "an answer" }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_waits_for_many_ghosts_and_for_what_is_due_but_not_for_ever() {
        let (young, old, max_age) = (Duration::from_secs(1), Duration::from_secs(30), Duration::from_secs(30));
        let want = |count, oldest, more_due| Ghosts { count, listed: 100, oldest }.want_turn(max_age, more_due);
        assert!(!want(0, Duration::ZERO, false));
        assert!(!want(50, young, false));
        assert!(want(51, young, false));
        assert!(!want(100, young, true));
        assert!(want(1, old, false));
        assert!(want(1, old, true));
    }
}
