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

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use self::waiting::{NatsQuestion, Reply};
use crate::{NAME, NatsDestination, NatsSpec, errors};
use delaybridge_core::message::Failure;
use delaybridge_sink::reconnect::run;
use delaybridge_sink::task::SinkTask;
use delaybridge_sink::{Destination, TaskSink};

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
}

impl TaskSink for NatsSink {
    type Question = NatsQuestion;
    type Address = NatsDestination;
    type Found = String;

    fn task(&self) -> &SinkTask<NatsQuestion> {
        &self.task
    }

    async fn connects(&self) -> Result<(), Failure> {
        // With or without responders: the connection is there.
        self.ask(streams::NAMES, streams::of_subject("delaybridge")).await.map(drop)
    }

    async fn probes(&self) -> Result<(), Failure> {
        // It has no responders, which the server answers at once.
        self.ask("delaybridge.probe", Vec::new()).await.map(drop)
    }

    /// Asks for the stream that takes the subject.
    async fn look(&self, destination: &NatsDestination) -> Result<String, Failure> {
        let attempt = format!("look up the stream of {destination}");
        let body = self.ask(streams::NAMES, streams::of_subject(&destination.subject)).await?;
        match streams::names(body) {
            Ok(names) => names.into_iter().next().ok_or_else(|| errors::no_stream(&attempt)),
            Err(Some((number, text))) => Err(errors::refused(&attempt, number, &text)),
            Err(None) => Err(errors::jetstream_off(&attempt)),
        }
    }
    async fn drawbacks_of(&self, found: Vec<(&Destination, String)>) -> Vec<String> {
        let mut drawbacks = Vec::new();
        let streams: BTreeSet<_> = found.into_iter().map(|(_, stream)| stream).collect();
        for stream in streams {
            match self.ask(&streams::info(&stream), Vec::new()).await {
                Ok(body) => drawbacks.extend(streams::drawbacks(&stream, body)),
                Err(failure) => drawbacks.push(failure.message),
            }
        }
        drawbacks
    }
}
