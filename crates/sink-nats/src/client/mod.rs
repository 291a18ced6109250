//! The sink itself: publishes to the subjects of streams, and waits for their confirmations.
//!
//! ```text
//! deliver -> queue -> task: one connection to one server of the cluster
//!                       publications out, confirmations in; each has a number of its own
//! ```
//!
//! **What is sent, is known.** The protocol is spoken here (`wire`): an element's lease is asked for right before its bytes are
//! put where only one connection takes them from, and what is under way when that ends is in doubt. No library keeps
//! elements for the next connection.
//!
//! **What a failure of one costs the others.** A stream that does not answer keeps room among `max_unconfirmed` until the
//! time-outs of its elements; then the pipeline's breaker of that subject keeps further ones away.
//!
//! **No stream, or no leader.** In both cases the server answers *no responders*. So the sink asks which stream
//! takes the subject: without one a person is needed, else it is a matter of time.
//!
//! `errors.rs` has the meaning of each answer.

mod connect;
mod session;
mod streams;
mod task;
mod waiting;
mod wire;

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

use self::waiting::{NatsQuestion, Reply};
use crate::{NAME, NatsDestination, NatsSpec, errors};
use delaybridge_core::message::{Class, Failure, Outcome};
use delaybridge_sink::reconnect::{Intake, run};
use delaybridge_sink::worker_queue::WorkerQueue;
use delaybridge_sink::{Answers, Destination, Outbound, Sink, together};

/// Elements that wait for the task; later ones wait in `deliver`.
const QUEUE: usize = 1024;
/// Questions of checks and probes that wait for the task.
const ASKS: usize = 16;
/// Time allowed for closing, beyond the time-out of the deliveries that it waits for.
const CLOSE: Duration = Duration::from_secs(1);

/// Delivers to the streams of one NATS cluster.
#[derive(Debug)]
pub struct NatsSink {
    spec: Arc<NatsSpec>,
    items: WorkerQueue,
    asks: mpsc::Sender<NatsQuestion>,
    stop: CancellationToken,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl NatsSink {
    /// A sink that answers within `timeout`. It begins to connect at once.
    pub fn new(spec: Arc<NatsSpec>, timeout: Duration) -> NatsSink {
        let (items, taken) = WorkerQueue::new(NAME, timeout, QUEUE);
        let (asks, asked) = mpsc::channel(ASKS);
        let stop = CancellationToken::new();
        let intake = Intake { items: taken, asks: asked, closed: false };
        let servers = task::NatsServers::new(spec.clone(), timeout);
        let task = tokio::spawn(run(servers, intake, stop.clone(), fastrand::f64));
        NatsSink { spec, items, asks, stop, task: Mutex::new(Some(task)) }
    }

    /// Asks the server; `None` if the subject has no responders.
    async fn ask(&self, subject: &str, body: Vec<u8>) -> Reply {
        let (reply, answer) = oneshot::channel();
        let asking = async {
            self.asks.send(NatsQuestion { subject: subject.to_owned(), body, reply }).await.ok()?;
            answer.await.ok()
        };
        match tokio::time::timeout(self.timeout(), asking).await {
            Ok(Some(reply)) => reply,
            Ok(None) => Err(Failure::new(Class::Transient, "closed", "ask NATS: the sink is closed")),
            Err(_) => {
                let text = format!(
                    "connect to NATS {}: no answer within {:?}",
                    self.spec.addresses().join(", "),
                    self.timeout()
                );
                Err(Failure::new(Class::Transient, Failure::NOT_CONNECTED, text))
            }
        }
    }

    /// The stream that takes the subject.
    async fn look(&self, destination: &Destination) -> Result<String, Failure> {
        let NatsDestination { subject } = destination.of_kind(NAME)?;
        let attempt = format!("look up the stream of {destination}");
        let body = self.ask(streams::NAMES, streams::of_subject(subject)).await?;
        match streams::names(body) {
            Ok(names) => names.into_iter().next().ok_or_else(|| errors::no_stream(&attempt)),
            Err(Some((number, text))) => Err(errors::refused(&attempt, number, &text)),
            Err(None) => Err(errors::jetstream_off(&attempt)),
        }
    }
}

impl Drop for NatsSink {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Sink for NatsSink {
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
        1
    }

    fn check<'a>(&'a self, destinations: &'a [Destination]) -> BoxFuture<'a, Result<Vec<String>, Failure>> {
        async move {
            let mut failures = Vec::new();
            for destination in destinations {
                failures.extend(self.look(destination).await.err());
            }
            if destinations.is_empty() {
                // With or without responders: the connection is there.
                self.ask(streams::NAMES, streams::of_subject("delaybridge")).await?;
            }
            together(failures).map(|()| Vec::new())
        }
        .boxed()
    }

    fn drawbacks<'a>(&'a self, destinations: &'a [Destination]) -> BoxFuture<'a, Vec<String>> {
        async move {
            let (mut streams, mut found) = (Vec::new(), Vec::new());
            for destination in destinations {
                match self.look(destination).await {
                    Ok(stream) if streams.contains(&stream) => {}
                    Ok(stream) => streams.push(stream),
                    Err(failure) => found.push(failure.message),
                }
            }
            for stream in streams {
                match self.ask(&streams::info(&stream), Vec::new()).await {
                    Ok(body) => found.extend(streams::drawbacks(&stream, body)),
                    Err(failure) => found.push(failure.message),
                }
            }
            found
        }
        .boxed()
    }

    fn probe(&self) -> Option<BoxFuture<'_, Result<(), Failure>>> {
        // It has no responders, which the server answers at once.
        Some(async { self.ask("delaybridge.probe", Vec::new()).await.map(drop) }.boxed())
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
