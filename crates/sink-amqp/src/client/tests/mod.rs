//! The sink against a real RabbitMQ.

mod outages;
pub(crate) mod rabbit;
mod returns;
mod rows;
mod tls;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use lapin::BasicProperties;
use lapin::types::AMQPValue;

use self::rabbit::{Admin, Node, Trouble, destination};
use super::AmqpSink;
use crate::AmqpSpec;
use delaybridge_core::message::{About, Class, Failure, Outcome};
use delaybridge_sink::Sink;
use delaybridge_sink::{Destination, HeaderRules, Outbound, header_rules};
use delaybridge_testing::sink::{ReceivedMessage, Rig};
use delaybridge_testing::sink_contract_tests;

/// A sink for tests that wait for its time-out.
fn impatient_sink(spec: AmqpSpec) -> Arc<AmqpSink> {
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

async fn eventually(what: &str, holds: impl AsyncFn() -> bool) {
    let deadline = tokio::time::Instant::now() + rabbit::PATIENCE;
    while !holds().await {
        assert!(tokio::time::Instant::now() < deadline, "waited too long for {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Delivers until it works, as the pipeline does after an outage.
async fn deliver_in_the_end(sink: &AmqpSink, message: Outbound) {
    // One attempt may take all of a patient sink's time.
    let deadline = tokio::time::Instant::now() + 2 * rabbit::PATIENCE;
    while let Err(failure) = sink.deliver(message.clone()).await {
        assert!(tokio::time::Instant::now() < deadline, "still not delivered: {failure}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// What the sink said of a message until its fate was certain.
struct Told {
    outcome: Outcome,
    /// Answers before that one which left it in doubt.
    doubts: usize,
}

/// Delivers all at once, and those that are in doubt again until they are not, as the pipeline does.
async fn deliver_all(sink: &AmqpSink, messages: Vec<Outbound>) -> Vec<Told> {
    join_all(messages.into_iter().map(async |message| {
        let mut doubts = 0;
        loop {
            match sink.deliver(message.clone()).await {
                Err(failure) if failure.class == Class::Ambiguous => doubts += 1,
                outcome => return Told { outcome, doubts },
            }
            assert!(doubts < 10, "message {} is in doubt for ever", message.id);
        }
    }))
    .await
}

/// How often each message is in a queue; the bodies are numbers.
async fn counts(admin: &Admin, queue: &str) -> HashMap<usize, usize> {
    let mut counts = HashMap::new();
    for text in admin.texts(queue).await {
        *counts.entry(text.parse().unwrap()).or_default() += 1;
    }
    counts
}

/// What was confirmed is there, what was refused is not, and nothing is there twice that was never in doubt.
fn assert_true(told: &[Told], counts: &HashMap<usize, usize>) {
    for (n, told) in told.iter().enumerate() {
        let arrived = counts.get(&n).copied().unwrap_or(0);
        let least = usize::from(told.outcome.is_ok());
        assert!(
            (least..=least + told.doubts).contains(&arrived),
            "{n} arrived {arrived} times after {:?} and {} doubts",
            told.outcome,
            told.doubts
        );
    }
}

/// An exchange with one queue.
struct AmqpRig {
    // Dropped first: a test that failed in between must not take the others with it.
    trouble: Option<Trouble>,
    node: Node,
    admin: Option<Admin>,
    exchange: String,
    queue: String,
    arguments: &'static [(&'static str, &'static str)],
    received: Vec<Vec<u8>>,
    /// `message_id`s of what was received. A queue that was emptied right before its node is killed has it all again
    /// afterwards, and that is not the sink's doing: each publication has an id of its own.
    seen: HashSet<String>,
}

impl AmqpRig {
    async fn new(arguments: &'static [(&'static str, &'static str)]) -> AmqpRig {
        let node = Node::alone().await;
        let admin = node.admin().await;
        let exchange = node.name("exchange");
        let queue = node.name("queue");
        admin.exchange(&exchange).await;
        admin.queue(&queue, arguments).await;
        admin.bind(&queue, &exchange, "key").await;
        AmqpRig {
            trouble: None,
            node,
            admin: Some(admin),
            exchange,
            queue,
            arguments,
            received: Vec::new(),
            seen: HashSet::new(),
        }
    }

    async fn mend(&mut self) {
        self.trouble.take().expect("something is wrong").over().await;
    }
}

impl Rig for AmqpRig {
    async fn sink(&self, timeout: Duration) -> Arc<dyn Sink> {
        Arc::new(AmqpSink::new(Arc::new(self.node.spec()), timeout))
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
        for (body, properties) in admin.drain(&self.queue).await {
            let id = properties.message_id().as_ref().expect("every publication has one");
            if self.seen.insert(id.to_string()) {
                self.received.push(body);
            }
        }
        self.received.clone()
    }

    fn header_rules(&self) -> &'static HeaderRules {
        &header_rules::AMQP
    }

    async fn received_with_headers(&mut self) -> Vec<ReceivedMessage> {
        let messages = self.admin.as_ref().unwrap().drain(&self.queue).await;
        let headers = |properties: BasicProperties| {
            let table = properties.headers().clone().unwrap_or_default();
            let text = |value: &AMQPValue| match value {
                AMQPValue::LongString(text) => String::from_utf8(text.as_bytes().to_vec()).unwrap(),
                other => format!("{other:?}"),
            };
            table.inner().iter().map(|(name, value)| (name.to_string(), text(value))).collect()
        };
        messages.into_iter().map(|(body, properties)| (body, headers(properties))).collect()
    }

    async fn outage(&mut self) {
        self.received().await;
        self.admin = None;
        self.trouble = Some(self.node.kill().await);
    }

    async fn recover(&mut self) {
        self.mend().await;
        if self.arguments.iter().any(|(_, value)| *value == "quorum") {
            // RabbitMQ 3.10: a queue of one node that is published to before it has elected its leader never elects one.
            let elect = format!("ra:trigger_election({{'%2F_{}', node()}})", self.queue);
            self.node.does(move |rabbit| rabbit.eval(&elect)).await.unwrap();
        }
        // Was seen to come back without a queue.
        let admin = self.node.admin().await;
        admin.queue(&self.queue, self.arguments).await;
        admin.bind(&self.queue, &self.exchange, "key").await;
    }

    async fn stall(&mut self) {
        self.trouble = Some(self.node.freeze().await);
    }

    async fn resume(&mut self) {
        self.mend().await;
    }
}

mod classic_contract {
    use super::*;

    sink_contract_tests!(AmqpRig::new(&[]).await);
}

mod quorum_contract {
    use super::*;

    sink_contract_tests!(AmqpRig::new(&[("x-queue-type", "quorum")]).await);
}
