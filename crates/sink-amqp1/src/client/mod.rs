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

use self::link::{LinkNote, LinkReply};
use self::links::Amqp1Question;
use crate::{Amqp1Destination, Amqp1Spec, NAME};
use delaybridge_core::message::Failure;
use delaybridge_sink::reconnect::run;
use delaybridge_sink::task::SinkTask;
use delaybridge_sink::{Destination, TaskSink};

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
}

impl TaskSink for Amqp1Sink {
    type Question = Amqp1Question;
    type Address = Amqp1Destination;
    type Found = LinkNote;

    fn task(&self) -> &SinkTask<Amqp1Question> {
        &self.task
    }

    async fn connects(&self) -> Result<(), Failure> {
        self.ask(None).await.map(drop)
    }

    async fn look(&self, destination: &Amqp1Destination) -> LinkReply {
        self.ask(Some(destination.address.clone())).await
    }

    async fn drawbacks_of(&self, found: Vec<(&Destination, LinkNote)>) -> Vec<String> {
        let unroutable = found.iter().any(|(_, note)| note.accepts_unroutable);
        let without_credit = found.iter().filter(|(_, note)| !note.has_credit).map(|(destination, _)| {
            format!("{destination} takes no messages now: the broker grants no credit; it may be full, or blocked")
        });
        let mut drawbacks: Vec<_> = without_credit.collect();
        if unroutable {
            let text =
                "RabbitMQ 3 confirms messages that no queue takes, over AMQP 1.0: use a sink `amqp`, which holds them";
            drawbacks.push(text.to_owned());
        }
        drawbacks
    }
}
