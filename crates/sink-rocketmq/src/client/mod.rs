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

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use self::dispatch::ClusterQuestion;
use crate::{NAME, RocketMqDestination, RocketMqSpec};
use delaybridge_core::message::{Failure, Outcome};
use delaybridge_sink::task::SinkTask;
use delaybridge_sink::{Answers, Connector, Destination, Outbound, Sink, together};

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

impl Sink for RocketMqSink {
    fn kind(&self) -> &'static str {
        self.task.items.kind()
    }

    fn timeout(&self) -> Duration {
        self.task.items.timeout()
    }

    fn deliver(&self, message: Outbound) -> BoxFuture<'_, Outcome> {
        self.task.items.deliver(message).boxed()
    }

    fn deliver_all<'a>(&'a self, batch: Vec<Outbound>, answers: &'a Answers) -> BoxFuture<'a, ()> {
        self.task.items.deliver_all(batch, answers).boxed()
    }

    fn copies(&self, _bytes: usize) -> u64 {
        // The request, while it is written.
        1
    }

    fn check<'a>(&'a self, destinations: &'a [Destination]) -> BoxFuture<'a, Result<Vec<String>, Failure>> {
        async move {
            let mut failures = Vec::new();
            for destination in destinations {
                let topic = destination.of_kind::<RocketMqDestination>(NAME)?.topic.clone();
                failures.extend(self.ask(Some(topic)).await.err());
            }
            if destinations.is_empty() {
                self.ask(None).await?;
            }
            together(failures).map(|()| Vec::new())
        }
        .boxed()
    }

    fn probe(&self) -> Option<BoxFuture<'_, Result<(), Failure>>> {
        Some(self.ask(None).boxed())
    }

    fn ended(&self) -> BoxFuture<'_, ()> {
        self.task.items.ended().boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.task.close().boxed()
    }
}
