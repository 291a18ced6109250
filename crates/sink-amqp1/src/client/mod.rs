//! The sink itself: sends to the addresses of a broker, and waits for the outcome of each delivery.
//!
//! ```text
//! deliver -> queue -> task: one connection -> links: one for each address, in a session of its own
//!                       credit lets transfers out, dispositions bring the outcomes in
//! ```
//!
//! **What is sent, is known.** The protocol is spoken here (`types`, `frames`): an element's lease is asked for right before its
//! first frame is put where only this connection takes it from, and what is under way when that ends is in doubt.
//!
//! **Credit is backpressure.** What waits for the credit of its address fails as backpressure after a short while, and no
//! address takes more than a quarter of the room for itself.
//!
//! `errors.rs` has the meaning of each outcome and each condition.

mod connect;
mod flights;
mod frames;
mod link;
mod links;
mod message;
mod serving;
mod task;
mod types;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use self::link::{LinkNote, LinkReply};
use self::links::Amqp1Question;
use crate::{Amqp1Destination, Amqp1Spec, NAME};
use delaybridge_core::message::{Failure, Outcome};
use delaybridge_sink::reconnect::run;
use delaybridge_sink::task::SinkTask;
use delaybridge_sink::{Answers, Destination, Outbound, Sink, together};

/// Delivers to the addresses of one AMQP 1.0 broker.
#[derive(Debug)]
pub struct Amqp1Sink {
    spec: Arc<Amqp1Spec>,
    task: SinkTask<Amqp1Question>,
}

impl Amqp1Sink {
    /// Creates a sink that answers within `timeout`. It begins to connect at once.
    pub fn new(spec: Arc<Amqp1Spec>, timeout: Duration) -> Amqp1Sink {
        let broker = task::Amqp1Broker { spec: spec.clone(), timeout };
        let task = SinkTask::start(NAME, timeout, |intake, stop| run(broker, intake, stop, fastrand::f64));
        Amqp1Sink { spec, task }
    }

    /// Asks for the link of an address; without one, for a session.
    async fn ask(&self, address: Option<Arc<str>>) -> LinkReply {
        let attempt = format!("connect to AMQP 1.0 broker {}", self.spec.shown_address());
        self.task.ask(attempt, |reply| Amqp1Question { address, reply }).await
    }

    /// Asks for the link of a destination.
    async fn look(&self, destination: &Destination) -> LinkReply {
        let Amqp1Destination { address, .. } = destination.of_kind(NAME)?;
        self.ask(Some(address.clone())).await
    }
}

impl Sink for Amqp1Sink {
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
                self.ask(None).await?;
            }
            together(failures).map(|()| Vec::new())
        }
        .boxed()
    }

    fn drawbacks<'a>(&'a self, destinations: &'a [Destination]) -> BoxFuture<'a, Vec<String>> {
        async move {
            let mut found = Vec::new();
            let mut unroutable = false;
            for destination in destinations {
                match self.look(destination).await {
                    Ok(LinkNote { has_credit, accepts_unroutable }) => {
                        unroutable |= accepts_unroutable;
                        if !has_credit {
                            found.push(format!(
                                "{destination} takes no messages now: the broker grants no credit; it may be full, or blocked"
                            ));
                        }
                    }
                    Err(failure) => found.push(failure.message),
                }
            }
            if unroutable {
                let text = "RabbitMQ 3 confirms messages that no queue takes, over AMQP 1.0: use a sink `amqp`, which holds them";
                found.push(text.to_owned());
            }
            found
        }
        .boxed()
    }

    fn probe(&self) -> Option<BoxFuture<'_, Result<(), Failure>>> {
        Some(async { self.ask(None).await.map(drop) }.boxed())
    }

    fn ended(&self) -> BoxFuture<'_, ()> {
        self.task.items.ended().boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.task.close().boxed()
    }
}
