//! The liveness probe: tasks without a heartbeat, and stalled queues.

use std::time::Duration;

use serde_json::{Value, json};

use super::answer::LISTED;
use super::{Answer, Heartbeat, Status};
use crate::facts::Stalled;
use delaybridge_core::clock::Instant;

/// Silence of a worker of the runtime after which only a restart helps.
const WORKER_LIMIT: Duration = Duration::from_secs(30);

impl Status {
    /// Notes the workers of the runtime that show no sign of life, and for how long; returns those of before.
    pub(crate) fn silent_workers(&self, silent: &[(usize, Duration)]) -> Vec<(usize, Duration)> {
        std::mem::replace(&mut self.board().silent_workers, silent.to_vec())
    }

    /// Creates a heartbeat that is due at least once per `limit`; without it the process counts as stuck. Dropping it
    /// ends the watch.
    pub fn heartbeat(&self, task: impl Into<String>, limit: Duration) -> Heartbeat {
        self.0.beats.add(task.into(), limit)
    }

    /// Answers the liveness probe: every watched task has beaten recently, and no queue is stalled.
    pub fn live(&self) -> Answer {
        self.live_at(Instant::now())
    }

    /// Returns the answer of the liveness probe at `now`.
    pub fn live_at(&self, now: Instant) -> Answer {
        let stuck = self.0.beats.stuck(now);
        let stuck = stuck.into_iter().map(|(beat, silent)| (beat.task.clone(), silent));
        let board = self.board();
        let workers = board.silent_workers.iter().filter(|(_, silent)| *silent >= WORKER_LIMIT);
        let workers = workers.map(|(number, silent)| (format!("worker {number} of the runtime"), *silent));
        let shown = |(task, silent): (String, Duration)| json!({ "task": task, "silent_seconds": silent.as_secs() });
        let stuck: Vec<Value> = stuck.chain(workers).map(shown).collect();
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
