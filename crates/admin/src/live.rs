//! What this daemon knows that is not in Redis, for operations.

use std::sync::Arc;

use super::Admin;
use delaybridge_core::message::Identity;
use delaybridge_ops::Queue;
use delaybridge_ops::element::{AtDaemon, SeenAttempt, SeenEvent};
use delaybridge_ops::forecast::Rate;
use delaybridge_ops::operation::LiveState;
use delaybridge_ops::overview::Hold;
use delaybridge_telemetry::attempts::FailedAttempt;
use delaybridge_telemetry::tail::ElementEvent;

impl LiveState for Admin {
    fn held(&self, queue: &str) -> Option<Hold> {
        let (reason, seconds) = self.status.look().held.get(queue).cloned()?;
        Some(Hold { reason, seconds })
    }

    fn of_element(&self, queue: &Queue, id: &Identity) -> AtDaemon {
        let sinks = self.sinks().sinks.into_iter().filter(|sink| queue.spec.to.iter().any(|to| *to.sink == *sink.sink));
        let lately = self.recent.lately().get(queue.id()).copied().unwrap_or_default();
        let attempt = |seen: FailedAttempt| SeenAttempt {
            at_ms: seen.at_ms,
            sink: seen.sink,
            class: seen.class.as_str().to_owned(),
            code: seen.code.to_owned(),
        };
        let event = |event: Arc<ElementEvent>| SeenEvent {
            at_ms: event.at_ms,
            fate: event.fate.as_str().to_owned(),
            sink: event.sink.clone(),
        };
        AtDaemon {
            held: self.held(queue.id()),
            sinks: sinks.collect(),
            delivered_per_second: lately.delivered_per_second,
            attempts: self.attempts.seen(queue.id(), id.id).into_iter().map(attempt).collect(),
            events: self.tail.of(queue.id(), id).into_iter().map(event).collect(),
        }
    }

    fn rate(&self, queue: &Queue) -> Rate {
        let lately = self.recent.lately().get(queue.id()).copied().unwrap_or_default();
        let in_flight_ms = (lately.oldest_in_flight * 1_000.0) as u64;
        Rate::measured(&self.session().config, &queue.spec, self.recent.busy_rate(queue.id()), in_flight_ms)
    }
}
