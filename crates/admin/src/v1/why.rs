//! `/v1/queues/{queue}/elements/{id}/why`: where an element is, what it waits for, and what would deliver it now.

use std::sync::Arc;

use hyper::StatusCode;

use super::errors::problem;
use crate::Admin;
use crate::access::AdminCaller;
use delaybridge_core::message::Identity;
use delaybridge_jobs_http::call::Call;
use delaybridge_jobs_http::problem::Problem;
use delaybridge_jobs_http::reply::Reply;
use delaybridge_ops::Queue;
use delaybridge_ops::element::{AtDaemon, Detail, ElementWhy, SeenAttempt, SeenEvent, why_and_what};
use delaybridge_ops::overview::Hold;
use delaybridge_telemetry::attempts::FailedAttempt;
use delaybridge_telemetry::tail::ElementEvent;

/// The explanation of an element.
pub async fn why(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    let queue = admin.queue(&call).await?;
    Reply::json(StatusCode::OK, &admin.why(&queue, call.part("id")).await?.0)
}

impl Admin {
    /// Explains an element, with what this daemon knows of it; with all that is in Redis of it, unless it is gone.
    ///
    /// # Errors
    /// No element can be called so, or Redis cannot be asked.
    pub async fn why(&self, queue: &Queue, id: &str) -> Result<(ElementWhy, Option<Detail>), Problem> {
        self.known_id(queue, id)?;
        let known = |id: &Identity| self.known_of(queue, id);
        why_and_what(queue, id, Some(&known)).await.map_err(|error| problem(&error))
    }

    /// The knowledge of this daemon about an element.
    fn known_of(&self, queue: &Queue, id: &Identity) -> AtDaemon {
        let held = self.status.look().held.get(queue.id()).cloned();
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
            held: held.map(|(reason, seconds)| Hold { reason, seconds }),
            sinks: sinks.collect(),
            delivered_per_second: lately.delivered_per_second,
            attempts: self.attempts.seen(queue.id(), id.id).into_iter().map(attempt).collect(),
            events: self.tail.of(queue.id(), id).into_iter().map(event).collect(),
        }
    }
}
