//! The sink against ActiveMQ Artemis.

mod logins;
mod outages;
mod rows;

use std::sync::Arc;
use std::time::Duration;

use brokers::{Artemis, ArtemisMessage, ArtemisOptions};

use super::{address, patient_sink, spec_on};
use crate::{Amqp1Sink, Amqp1Spec};
use delaybridge_core::clock::Instant;
use delaybridge_sink::{Destination, HeaderRules, Sink, header_rules};
use delaybridge_testing::sink::{ReceivedMessage, Rig, outbound};
use delaybridge_testing::sink_contract_tests;

/// A broker of a test's own.
struct ArtemisServer(Arc<Artemis>);

impl ArtemisServer {
    async fn start(queues: &[&str], acceptor: &str) -> ArtemisServer {
        let queues = queues.iter().map(|&queue| queue.to_owned()).collect();
        let options = ArtemisOptions { queues, acceptor: acceptor.to_owned(), times: false };
        let artemis = tokio::task::spawn_blocking(move || Artemis::start_with(&options)).await.unwrap().unwrap();
        ArtemisServer(Arc::new(artemis))
    }

    /// Does something that takes its time.
    async fn does<T: Send + 'static>(&self, what: impl FnOnce(&Artemis) -> T + Send + 'static) -> T {
        let artemis = self.0.clone();
        tokio::task::spawn_blocking(move || what(&artemis)).await.unwrap()
    }

    fn spec(&self) -> Amqp1Spec {
        spec_on(self.0.port())
    }

    async fn messages(&self, queue: &'static str) -> Vec<ArtemisMessage> {
        self.does(move |artemis| artemis.messages(queue).unwrap()).await
    }

    /// Waits until there is a message: the broker confirms one before it is in its queue.
    async fn stored(&self, queue: &'static str) -> Vec<ArtemisMessage> {
        let until = Instant::now().after(Duration::from_secs(10));
        loop {
            let stored = self.messages(queue).await;
            if !stored.is_empty() || Instant::now() >= until {
                return stored;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn bodies(&self, queue: &'static str) -> Vec<Vec<u8>> {
        self.messages(queue).await.into_iter().map(|message| message.body).collect()
    }
}

/// Ends what was sent before it: the broker confirms a message before it is in its queue, and keeps the order.
const END: &str = "the end";

/// A queue on a broker of its own.
struct ArtemisRig {
    server: ArtemisServer,
    /// The number of ends that were sent.
    ends: usize,
}

impl ArtemisRig {
    async fn new() -> ArtemisRig {
        let server = ArtemisServer::start(&["orders"], "").await;
        // The first messages are slow, until the broker's code is compiled.
        patient_sink(server.spec()).deliver(outbound(0, address("orders"), "x")).await.unwrap();
        assert_eq!(server.stored("orders").await.len(), 1);
        server.does(|artemis| artemis.purge("orders").unwrap()).await;
        ArtemisRig { server, ends: 0 }
    }
}

impl Rig for ArtemisRig {
    async fn sink(&self, timeout: Duration) -> Arc<dyn Sink> {
        Arc::new(Amqp1Sink::new(Arc::new(self.server.spec()), timeout))
    }

    fn destination(&self) -> Destination {
        address("orders")
    }

    fn refusing(&self) -> Destination {
        address("missing")
    }

    async fn received(&mut self) -> Vec<Vec<u8>> {
        patient_sink(self.server.spec()).deliver(outbound(0, address("orders"), END)).await.unwrap();
        self.ends += 1;
        let until = Instant::now().after(Duration::from_secs(10));
        loop {
            let (ends, bodies): (Vec<_>, Vec<_>) =
                self.server.bodies("orders").await.into_iter().partition(|body| body == END.as_bytes());
            if ends.len() >= self.ends {
                return bodies;
            }
            assert!(Instant::now() < until, "{} of {} ends in the queue", ends.len(), self.ends);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn header_rules(&self) -> &'static HeaderRules {
        &header_rules::AMQP1
    }

    async fn received_with_headers(&mut self) -> Vec<ReceivedMessage> {
        let bodies = self.received().await;
        let messages = self.server.messages("orders").await.into_iter();
        let wanted = messages.filter(|message| bodies.contains(&message.body));
        wanted.map(|message| (message.body, message.properties)).collect()
    }

    async fn outage(&mut self) {
        self.server.does(|server| server.kill()).await;
    }

    async fn recover(&mut self) {
        self.server.does(|artemis| artemis.restart().unwrap()).await;
    }

    async fn stall(&mut self) {
        self.server.does(|server| server.freeze()).await;
    }

    async fn resume(&mut self) {
        self.server.does(|server| server.thaw()).await;
    }
}

sink_contract_tests!(ArtemisRig::new().await);
