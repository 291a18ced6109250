//! The sink itself: sends to the queues of topics, and waits for the answer to each request.
//!
//! ```text
//! deliver -> queue -> task: lanes of each topic ---- route? ----> name servers
//!                       a request for each free queue ----------> brokers, a connection each
//! ```
//!
//! **What is sent, is known.** The protocol is spoken here (`wire`, `serving`): an element's lease is asked for right before its
//! request is put where only the connection takes it from, and what is under way when that ends is in doubt.
//!
//! **A queue has one request at a time**, with as many messages as wait for it: so they keep their order.
//!
//! **A broker in trouble costs only what must go there.** What has no sharding key goes to another, and the route is asked for anew.
//!
//! `errors.rs` has the meaning of each answer.

mod batch;
mod call;
mod connect;
mod dispatch;
mod lanes;
mod peer;
mod routes;
mod serving;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use self::dispatch::ClusterQuestion;
use crate::{NAME, RocketMqDestination, RocketMqSpec};
use delaybridge_core::message::Failure;
use delaybridge_sink::task::SinkTask;
use delaybridge_sink::{Connector, TaskSink};

/// Delivers to the topics of one RocketMQ cluster.
#[derive(Debug)]
pub struct RocketMqSink {
    spec: Arc<RocketMqSpec>,
    task: SinkTask<ClusterQuestion>,
}

impl RocketMqSink {
    /// Creates a sink that answers within `timeout`. It begins to connect to a name server at once.
    pub fn new(spec: Arc<RocketMqSpec>, timeout: Duration) -> RocketMqSink {
        let cluster = spec.clone();
        let task = SinkTask::start(NAME, timeout, |intake, stop| dispatch::run(cluster, timeout, intake, stop));
        RocketMqSink { spec, task }
    }

    /// Asks for a topic and its brokers; without one, whether there is any broker.
    async fn ask(&self, topic: Option<Arc<str>>) -> Result<(), Failure> {
        let attempt = format!("ask RocketMQ at {}", self.spec.address());
        self.task.ask(attempt, |reply| ClusterQuestion { topic, reply }).await
    }
}

impl TaskSink for RocketMqSink {
    type Question = ClusterQuestion;
    type Address = RocketMqDestination;
    type Found = ();

    const HAS_DRAWBACKS: bool = false;

    fn task(&self) -> &SinkTask<ClusterQuestion> {
        &self.task
    }

    async fn connects(&self) -> Result<(), Failure> {
        self.ask(None).await
    }

    async fn look(&self, destination: &RocketMqDestination) -> Result<(), Failure> {
        self.ask(Some(destination.topic.clone())).await
    }
}
