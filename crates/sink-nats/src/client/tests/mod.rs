//! The sink against a real NATS server.

mod logins;
mod outages;
mod rows;
mod server;

use std::sync::Arc;
use std::time::Duration;

use brokers::NatsOptions;

use self::server::Server;
use super::NatsSink;
use crate::NatsSpec;
use delaybridge_core::message::{Class, Outcome};
use delaybridge_sink::{Destination, HeaderRules, Sink, header_rules};
use delaybridge_testing::sink::{ReceivedMessage, Rig};
use delaybridge_testing::sink_contract_tests;

/// A sink for tests that wait for its time-out.
fn impatient_sink(spec: NatsSpec) -> Arc<NatsSink> {
    Arc::new(NatsSink::new(Arc::new(spec), Duration::from_secs(2)))
}

/// A sink that no slow machine makes time out.
fn patient_sink(spec: NatsSpec) -> Arc<NatsSink> {
    Arc::new(NatsSink::new(Arc::new(spec), Duration::from_secs(60)))
}

fn assert_failure(outcome: Outcome, class: Class, code: &str) -> String {
    let failure = outcome.expect_err("the server refuses it");
    assert_eq!((failure.class, failure.code), (class, code), "{failure}");
    failure.message
}

/// A stream on a server of its own.
struct NatsRig {
    server: Server,
}

impl NatsRig {
    async fn new() -> NatsRig {
        // The contract has bodies of a megabyte, and there are headers.
        let options = NatsOptions { config: "max_payload: 4MB\n".to_owned(), ..NatsOptions::default() };
        let server = Server::start_with(options).await;
        // A second copy shows, unless it comes at once.
        server.stream("S", "orders.>", "\"duplicate_window\": 100000000").await;
        NatsRig { server }
    }
}

impl Rig for NatsRig {
    async fn sink(&self, timeout: Duration) -> Arc<dyn Sink> {
        Arc::new(NatsSink::new(Arc::new(self.server.spec()), timeout))
    }

    fn destination(&self) -> Destination {
        server::subject("orders.eu")
    }

    fn refusing(&self) -> Destination {
        server::subject("nobody.eu")
    }

    async fn received(&mut self) -> Vec<Vec<u8>> {
        self.server.bodies("S").await
    }

    fn header_rules(&self) -> &'static HeaderRules {
        &header_rules::NATS
    }

    async fn received_with_headers(&mut self) -> Vec<ReceivedMessage> {
        let pair = |line: String| line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned()));
        let stored = self.server.stored("S").await.into_iter();
        stored.map(|message| (message.body, message.header.into_iter().filter_map(pair).collect())).collect()
    }

    async fn outage(&mut self) {
        self.server.does(|server| server.kill()).await;
    }

    async fn recover(&mut self) {
        self.server.does(|nats| nats.restart().unwrap()).await;
    }

    async fn stall(&mut self) {
        self.server.does(|server| server.freeze()).await;
    }

    async fn resume(&mut self) {
        self.server.does(|server| server.thaw()).await;
    }
}

sink_contract_tests!(NatsRig::new().await);
