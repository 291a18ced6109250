//! What this daemon knows that is not in Redis, for operations.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

use super::Admin;
use delaybridge_config::{describe_json, describe_queue};
use delaybridge_core::message::Identity;
use delaybridge_ops::element::{AtDaemon, SeenAttempt, SeenEvent};
use delaybridge_ops::forecast::Rate;
use delaybridge_ops::operation::{LiveState, OperatorAct};
use delaybridge_ops::operations::{ListQueues, ListTopics, TopicPage};
use delaybridge_ops::overview::{Here, Hold, Overview, SinkList};
use delaybridge_ops::{Error, Queue};
use delaybridge_telemetry::attempts::FailedAttempt;
use delaybridge_telemetry::labels::OperatorAction;
use delaybridge_telemetry::tail::ElementEvent;

impl LiveState for Admin {
    fn held(&self, queue: &str) -> Option<Hold> {
        let (reason, seconds) = self.status.look().held.get(queue).cloned()?;
        Some(Hold { reason, seconds })
    }

    fn queues<'a>(&'a self, which: &'a ListQueues) -> BoxFuture<'a, Result<Overview, Error>> {
        Box::pin(async { Ok(Arc::unwrap_or_clone(self.overview(which).await)) })
    }

    fn topics<'a>(&'a self, which: &'a ListTopics) -> BoxFuture<'a, Result<TopicPage, Error>> {
        Box::pin(async { Ok(Arc::unwrap_or_clone(self.topic_page(which).await?)) })
    }

    fn here(&self, queue: &str) -> Here {
        self.here_of(queue, &self.status.look(), self.recent.lately().get(queue).copied())
    }

    fn settings(&self, queue: &Queue) -> Value {
        describe_queue(&self.session().config, &queue.spec)
    }

    fn configuration(&self) -> Map<String, Value> {
        describe_json(&self.reload.running()).as_object().cloned().unwrap_or_default()
    }

    fn sink_list(&self) -> SinkList {
        self.sinks()
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

    fn count(&self, queue: &Queue, act: OperatorAct, elements: u64) {
        let action = match act {
            OperatorAct::Killed => OperatorAction::Killed,
            OperatorAct::Cancelled => OperatorAction::Cancelled,
            OperatorAct::Purged => OperatorAction::Purged,
            OperatorAct::Redriven => OperatorAction::Redriven,
        };
        self.metrics.queue(&queue.spec.id).operated(action, elements);
    }
}
