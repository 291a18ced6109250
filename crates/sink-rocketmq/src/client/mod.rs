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
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use self::dispatch::ClusterQuestion;
use crate::{NAME, RocketMqDestination, RocketMqSpec};
use delaybridge_core::message::{Class, Failure, Outcome};
use delaybridge_sink::worker_queue::WorkerQueue;
use delaybridge_sink::{Answers, Connector, Destination, Outbound, Sink, together};

/// Elements that wait for the task; later ones wait in `deliver`.
const QUEUE: usize = 1024;
/// Questions of checks and probes that wait for the task.
const ASKS: usize = 16;
/// Time allowed for closing, beyond the time-out of the deliveries that it waits for.
const CLOSE: Duration = Duration::from_secs(1);

/// Delivers to the topics of one RocketMQ cluster.
#[derive(Debug)]
pub struct RocketMqSink {
    spec: Arc<RocketMqSpec>,
    items: WorkerQueue,
    asks: mpsc::Sender<ClusterQuestion>,
    stop: CancellationToken,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl RocketMqSink {
    /// A sink that answers within `timeout`. It begins to connect to a name server at once.
    pub fn new(spec: Arc<RocketMqSpec>, timeout: Duration) -> RocketMqSink {
        let (items, taken) = WorkerQueue::new(NAME, timeout, QUEUE);
        let (asks, asked) = mpsc::channel(ASKS);
        let stop = CancellationToken::new();
        let task = tokio::spawn(dispatch::run(spec.clone(), timeout, taken, asked, stop.clone()));
        RocketMqSink { spec, items, asks, stop, task: Mutex::new(Some(task)) }
    }

    /// Asks for a topic and its brokers; without one, whether there is any broker.
    async fn ask(&self, topic: Option<Arc<str>>) -> Result<(), Failure> {
        let (reply, answer) = oneshot::channel();
        let asking = async {
            self.asks.send(ClusterQuestion { topic, reply }).await.ok()?;
            answer.await.ok()
        };
        match tokio::time::timeout(self.timeout(), asking).await {
            Ok(Some(answer)) => answer,
            Ok(None) => Err(Failure::new(Class::Transient, "closed", "ask RocketMQ: the sink is closed")),
            Err(_) => {
                let text = format!("ask RocketMQ at {}: no answer within {:?}", self.spec.address(), self.timeout());
                Err(Failure::new(Class::Transient, Failure::NOT_CONNECTED, text))
            }
        }
    }
}

impl Drop for RocketMqSink {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Sink for RocketMqSink {
    fn kind(&self) -> &'static str {
        self.items.kind()
    }

    fn timeout(&self) -> Duration {
        self.items.timeout()
    }

    fn deliver(&self, message: Outbound) -> BoxFuture<'_, Outcome> {
        self.items.deliver(message).boxed()
    }

    fn deliver_all<'a>(&'a self, batch: Vec<Outbound>, answers: &'a Answers) -> BoxFuture<'a, ()> {
        self.items.deliver_all(batch, answers).boxed()
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
        self.items.ended().boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async move {
            self.items.close();
            let task = self.task.lock().take();
            if let Some(mut task) = task {
                // What is in the queue is answered by then, or has timed out. A panic has answered all deliveries.
                if tokio::time::timeout(self.timeout() + CLOSE, &mut task).await.is_err() {
                    task.abort();
                }
            }
            self.stop.cancel();
        }
        .boxed()
    }
}
