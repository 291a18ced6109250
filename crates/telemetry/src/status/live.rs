//! The liveness probe: tasks without a heartbeat, and stalled queues.

use std::time::Duration;

use serde_json::{Value, json};

use super::answer::LISTED;
use super::{Answer, Heartbeat, Status};
use crate::facts::Stalled;
use delaybridge_core::clock::Instant;

impl Status {
    /// Creates a heartbeat that is due at least once per `limit`; without it the process counts as stuck. Dropping it
    /// ends the watch.
    pub fn heartbeat(&self, task: impl Into<String>, limit: Duration) -> Heartbeat {
        self.0.beats.add(task.into(), limit)
    }

    /// Answers the liveness probe: every watched task has beaten recently, and no queue is stalled.
    pub fn live(&self) -> Answer {
        self.live_at(Instant::now())
    }

    /// The answer of the liveness probe at `now`.
    pub fn live_at(&self, now: Instant) -> Answer {
        let stuck: Vec<Value> = self
            .0
            .beats
            .stuck(now)
            .into_iter()
            .map(|(beat, silent)| json!({ "task": beat.task, "silent_seconds": silent.as_secs() }))
            .collect();
        let board = self.board();
        let total: usize = board.stalled.values().map(|(_, total)| total).sum();
        let queues = board.stalled.values().flat_map(|(queues, _)| queues).take(LISTED);
        let ok = stuck.is_empty() && total == 0;
        let queue = |stalled: &Stalled| {
            let waits_for = stalled.waits_for.as_str();
            json!({ "queue": stalled.queue, "waits_for": waits_for, "seconds": stalled.time.as_secs() })
        };
        let queues: Vec<_> = queues.map(queue).collect();
        Answer { ok, body: json!({ "live": ok, "stuck": stuck, "stalled": queues, "stalled_queues": total }) }
    }
}
