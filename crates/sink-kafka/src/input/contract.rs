//! The input against a real Kafka: the contract.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};

use super::tests::spec;
use super::{IdentityFrom, KafkaInputSpec};
use crate::client::tests::rig::{Alone, PATIENCE, unique};
use delaybridge_core::clock::Instant;
use delaybridge_input::{Input, InputConnector};
use delaybridge_testing::input::{self, InputRig};
use delaybridge_testing::input_contract_tests;

/// The time between two questions to a broker that is not ready.
const LOOK: Duration = Duration::from_millis(50);

/// A topic with a group and a dead-letter topic, at a broker that no other test uses meanwhile.
struct KafkaInputRig {
    kafka: Alone,
    topic: String,
    dead: String,
    group: String,
}

impl KafkaInputRig {
    fn new() -> KafkaInputRig {
        let kafka = Alone::get();
        let topic = unique("in");
        let dead = unique("dead");
        let group = unique("group");
        for name in [&topic, &dead] {
            kafka.create_topic(name, 1, &[]).expect("the topic is created");
        }
        KafkaInputRig { kafka, topic, dead, group }
    }
}

impl InputRig for KafkaInputRig {
    fn input(&self) -> Arc<dyn Input> {
        let spec = KafkaInputSpec {
            topics: vec![self.topic.clone()],
            group: self.group.clone(),
            identity: IdentityFrom::Header,
            dead_letter_topic: Some(self.dead.clone()),
            cluster: Arc::new(crate::client::tests::spec(&self.kafka.bootstrap())),
            ..spec()
        };
        spec.input()
    }

    async fn publish(&mut self, id: &str, headers: &[(&str, &str)], body: &str) {
        let producer: BaseProducer =
            ClientConfig::new().set("bootstrap.servers", self.kafka.bootstrap()).create().expect("a producer");
        let own = OwnedHeaders::new().insert(Header { key: "x-message-id", value: Some(id) });
        let headers = headers.iter().fold(own, |all, (key, value)| all.insert(Header { key, value: Some(*value) }));
        let record = BaseRecord::<str, str>::to(&self.topic).payload(body).headers(headers);
        producer.send(record).map_err(|(error, _)| error).expect("send the record");
        producer.flush(PATIENCE).expect("the broker takes it");
    }

    async fn left(&mut self) -> usize {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", self.kafka.bootstrap())
            .set("group.id", &self.group)
            .create()
            .expect("a consumer");
        let mut asked = TopicPartitionList::new();
        asked.add_partition(&self.topic, 0);
        // A broker that has just started is not the coordinator yet.
        let begun = Instant::now();
        let committed = loop {
            match consumer.committed_offsets(asked.clone(), PATIENCE) {
                Ok(committed) => break committed,
                Err(error) => assert!(begun.elapsed() < PATIENCE, "read the offsets of {}: {error}", self.group),
            }
            tokio::time::sleep(LOOK).await;
        };
        let next = match committed.find_partition(&self.topic, 0).map(|found| found.offset()) {
            Some(Offset::Offset(offset)) => offset,
            _ => 0,
        };
        let end = self.kafka.end_offsets(&self.topic).expect("the end")[0];
        usize::try_from(end - next).expect("not committed beyond the end")
    }

    async fn refused(&mut self) -> usize {
        usize::try_from(self.kafka.end_offsets(&self.dead).expect("the end")[0]).expect("a count")
    }

    async fn outage(&mut self) {
        self.kafka.kill();
    }

    async fn recover(&mut self) {
        self.kafka.restart();
    }
}

input_contract_tests!(KafkaInputRig::new());

#[tokio::test(flavor = "multi_thread")]
async fn what_is_decided_during_an_outage_is_settled_by_the_stop_after_it() {
    input::what_is_decided_during_an_outage_is_settled_by_the_stop_after_it(KafkaInputRig::new()).await;
}
