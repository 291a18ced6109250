//! The sink against a real RabbitMQ.

mod outages;
pub(super) mod rabbit;
mod rate;
mod returns;
mod rows;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use self::rabbit::{Admin, Node, destination};
use super::AmqpSink;
use crate::config::AmqpSpec;
use crate::message::{About, Class, Destination, Outbound, Outcome};
use crate::sink::Sink;
use crate::sink::contract::{Rig, contract_tests};

fn sink_with(spec: AmqpSpec) -> Arc<AmqpSink> {
    Arc::new(AmqpSink::new(Arc::new(spec), Duration::from_secs(2)))
}

/// A sink that no slow machine makes time out.
fn patient_sink(spec: AmqpSpec) -> Arc<AmqpSink> {
    Arc::new(AmqpSink::new(Arc::new(spec), rabbit::PATIENCE))
}

fn assert_failure(outcome: Outcome, class: Class, code: &str) -> String {
    let failure = outcome.expect_err("the broker refuses it");
    assert_eq!((failure.class, failure.code), (class, code), "{failure}");
    failure.message
}

/// Waits until something holds.
async fn eventually(what: &str, holds: impl AsyncFn() -> bool) {
    let deadline = tokio::time::Instant::now() + rabbit::PATIENCE;
    while !holds().await {
        assert!(tokio::time::Instant::now() < deadline, "waited too long for {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Delivers until it works, as the pipeline does after an outage.
async fn deliver_in_the_end(sink: &AmqpSink, message: Outbound) {
    let deadline = tokio::time::Instant::now() + rabbit::PATIENCE;
    while let Err(failure) = sink.deliver(message.clone()).await {
        assert!(tokio::time::Instant::now() < deadline, "still not delivered: {failure}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// An exchange with one queue.
struct AmqpRig {
    node: Node,
    admin: Option<Admin>,
    sink: Arc<AmqpSink>,
    exchange: String,
    queue: String,
    is_quorum: bool,
    received: Vec<Vec<u8>>,
}

impl AmqpRig {
    async fn new(arguments: &[(&str, &str)]) -> AmqpRig {
        let node = Node::alone().await;
        let admin = node.admin().await;
        let (exchange, queue) = (node.name("exchange"), node.name("queue"));
        admin.exchange(&exchange).await;
        admin.queue(&queue, arguments).await;
        admin.bind(&queue, &exchange, "key").await;
        let sink = sink_with(node.spec());
        let is_quorum = arguments.iter().any(|(_, value)| *value == "quorum");
        AmqpRig { node, admin: Some(admin), sink, exchange, queue, is_quorum, received: Vec::new() }
    }
}

impl Rig for AmqpRig {
    fn sink(&self) -> Arc<dyn Sink> {
        self.sink.clone()
    }

    fn destination(&self) -> Destination {
        destination(&self.exchange, "key")
    }

    fn refusing(&self) -> Destination {
        destination(&self.exchange, "nobody")
    }

    async fn received(&mut self) -> Vec<Vec<u8>> {
        if self.admin.is_none() {
            self.admin = Some(self.node.admin().await);
        }
        let admin = self.admin.as_ref().unwrap();
        self.received.extend(admin.drain(&self.queue).await.into_iter().map(|(body, _)| body));
        self.received.clone()
    }

    async fn outage(&mut self) {
        self.received().await;
        self.admin = None;
        self.node.does(|rabbit| rabbit.kill()).await;
    }

    async fn recover(&mut self) {
        self.node.does(|rabbit| rabbit.restart()).await.unwrap();
        if self.is_quorum {
            // RabbitMQ 3.10: a queue of one node that is published to before it has elected its leader never elects one.
            let elect = format!("ra:trigger_election({{'%2F_{}', node()}}).", self.queue);
            self.node.does(move |rabbit| rabbit.ctl(&["eval", &elect])).await.unwrap();
        }
    }

    async fn stall(&mut self) {
        self.node.freeze();
    }

    async fn resume(&mut self) {
        self.node.thaw();
    }
}

impl Drop for AmqpRig {
    fn drop(&mut self) {
        // A test that failed in between must not take the others with it.
        self.node.thaw();
    }
}

mod classic_contract {
    use super::*;

    contract_tests!(AmqpRig::new(&[]).await);
}

mod quorum_contract {
    use super::*;

    contract_tests!(AmqpRig::new(&[("x-queue-type", "quorum")]).await);
}
