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

use self::waiting::{NatsQuestion, Reply};
use crate::{NAME, NatsDestination, NatsSpec, errors};
use delaybridge_core::message::{Failure, Outcome};
use delaybridge_sink::reconnect::run;
use delaybridge_sink::task::SinkTask;
use delaybridge_sink::{Answers, Destination, Outbound, Sink, together};

/// Delivers to the streams of one NATS cluster.
#[derive(Debug)]
pub struct NatsSink {
    spec: Arc<NatsSpec>,
    task: SinkTask<NatsQuestion>,
}

impl NatsSink {
    /// Creates a sink that answers within `timeout`. It begins to connect at once.
    pub fn new(spec: Arc<NatsSpec>, timeout: Duration) -> NatsSink {
        let servers = task::NatsServers::new(spec.clone(), timeout);
        let task = SinkTask::start(NAME, timeout, |intake, stop| run(servers, intake, stop, fastrand::f64));
        NatsSink { spec, task }
    }

    /// Asks the server; `None` if the subject has no responders.
    async fn ask(&self, subject: &str, body: Vec<u8>) -> Reply {
        let attempt = format!("connect to NATS {}", self.spec.addresses().join(", "));
        self.task.ask(attempt, |reply| NatsQuestion { subject: subject.to_owned(), body, reply }).await
    }

    /// Asks for the stream that takes the subject.
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

impl Sink for NatsSink {
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
            let mut streams = Vec::new();
            let mut found = Vec::new();
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
        self.task.items.ended().boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.task.close().boxed()
    }
}
