//! The contract of every sink, against a real Kafka.

use std::sync::Arc;
use std::time::Duration;

use super::rig::{Alone, PATIENCE, new_topic, plain, records, unique};
use super::topic;
use crate::KafkaSink;
use delaybridge_core::clock::Instant;
use delaybridge_sink::{Destination, HeaderRules, Sink, header_rules};
use delaybridge_testing::sink::{ReceivedMessage, Rig, outbound};
use delaybridge_testing::{sink_contract_tests, sink_run_contract_tests};

/// Each test has the broker to itself: what one stalls, another would miss.
struct KafkaRig {
    kafka: Alone,
    name: String,
}

impl KafkaRig {
    async fn new() -> KafkaRig {
        let kafka = Alone::get();
        let name = new_topic(&kafka);
        KafkaRig { kafka, name }
    }
}

impl Rig for KafkaRig {
    async fn sink(&self, timeout: Duration) -> Arc<dyn Sink> {
        let sink = KafkaSink::new(plain(&self.kafka), timeout);
        // A producer's first record is slow: it asks for an id.
        let warm_up = new_topic(&self.kafka);
        let begun = Instant::now();
        while let Err(failure) = sink.deliver(outbound(0, topic(&warm_up), "first")).await {
            assert!(begun.elapsed() < PATIENCE, "the first record is not delivered: {failure}");
        }
        // Runs begin when the number of partitions is known.
        while sink.runs().and_then(|runs| runs.line(&topic(&self.name))).is_none() {
            assert!(begun.elapsed() < PATIENCE, "the partitions are not known");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Arc::new(sink)
    }

    fn destination(&self) -> Destination {
        topic(&self.name)
    }

    fn refusing(&self) -> Destination {
        topic(&unique("missing"))
    }

    async fn received(&mut self) -> Vec<Vec<u8>> {
        let records = records(&self.kafka, &self.name);
        records.into_iter().map(|record| record.value.expect("no tombstone")).collect()
    }

    fn header_rules(&self) -> &'static HeaderRules {
        &header_rules::KAFKA
    }

    async fn received_with_headers(&mut self) -> Vec<ReceivedMessage> {
        let records = records(&self.kafka, &self.name);
        records.into_iter().map(|record| (record.value.expect("no tombstone"), record.headers)).collect()
    }

    async fn outage(&mut self) {
        self.kafka.kill();
    }

    async fn recover(&mut self) {
        self.kafka.restart();
    }

    async fn stall(&mut self) {
        self.kafka.freeze(1);
    }

    async fn resume(&mut self) {
        self.kafka.thaw(1);
    }
}

sink_contract_tests!(KafkaRig::new().await);
sink_run_contract_tests!(KafkaRig::new().await);
