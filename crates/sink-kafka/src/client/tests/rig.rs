//! A real Kafka, shared by all tests of the sink: one Java process, however many tests run.
//!
//! A test that breaks it has it alone meanwhile.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use brokers::kafka::TokenRules;
use brokers::{Kafka, KafkaOptions};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Headers, Message};
use rdkafka::{Offset, TopicPartitionList};

use super::provider::{AUDIENCE, Provider};
use delaybridge_core::clock::Instant;

/// How long a test waits for anything before it fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The broker: topics are not made by themselves, rights are checked, every listener is there, and TLS asks for a
/// client certificate.
fn broker() -> &'static RwLock<Kafka> {
    static BROKER: OnceLock<RwLock<Kafka>> = OnceLock::new();
    BROKER.get_or_init(|| {
        let tokens = Some(TokenRules { keys: Provider::get().keys(), audience: AUDIENCE.to_owned() });
        let options = KafkaOptions { sasl: true, mutual_tls: true, acl: true, tokens, ..KafkaOptions::default() };
        RwLock::new(Kafka::start_with(options).expect("Kafka starts"))
    })
}

/// The broker, for a test that leaves it as it is.
pub(crate) struct Shared(RwLockReadGuard<'static, Kafka>);

impl Shared {
    pub(crate) fn get() -> Shared {
        Shared(broker().read().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }
}

impl std::ops::Deref for Shared {
    type Target = Kafka;

    fn deref(&self) -> &Kafka {
        &self.0
    }
}

/// The broker, for a test that stops it. It runs again afterwards.
pub(crate) struct Alone {
    kafka: RwLockWriteGuard<'static, Kafka>,
    killed: bool,
}

impl Alone {
    pub(crate) fn get() -> Alone {
        Alone { kafka: broker().write().unwrap_or_else(|poisoned| poisoned.into_inner()), killed: false }
    }

    pub(crate) fn kill(&mut self) {
        self.kafka.kill(1);
        self.killed = true;
    }

    pub(crate) fn restart(&mut self) {
        self.kafka.restart(1).expect("Kafka starts again");
        self.killed = false;
    }
}

impl std::ops::Deref for Alone {
    type Target = Kafka;

    fn deref(&self) -> &Kafka {
        &self.kafka
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        if !self.killed {
            return self.kafka.thaw(1);
        }
        let restarted = self.kafka.restart(1);
        // A second panic would end the process, and the first one is the reason.
        if !std::thread::panicking() {
            restarted.expect("Kafka starts again");
        }
    }
}

/// A name that no other test has.
pub(crate) fn unique(what: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{what}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A new topic of one partition that takes records of 10 MB.
pub(crate) fn new_topic(kafka: &Kafka) -> String {
    let name = unique("t");
    kafka.create_topic(&name, 1, &[("max.message.bytes", "10000000")]).expect("the topic is created");
    name
}

/// A record as a consumer sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<(String, String)>,
}

/// The content of the topic's first partition.
pub(crate) fn records(kafka: &Kafka, topic: &str) -> Vec<Record> {
    records_of(kafka, topic, 0)
}

pub(crate) fn records_of(kafka: &Kafka, topic: &str, partition: i32) -> Vec<Record> {
    let end = kafka.end_offsets(topic).expect("the broker reports the topic's end")[partition as usize];
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", kafka.bootstrap())
        .set("group.id", "unused")
        .set("enable.auto.commit", "false")
        .set("enable.partition.eof", "true")
        .set("fetch.message.max.bytes", "20000000")
        .create()
        .expect("a consumer");
    let mut assignment = TopicPartitionList::new();
    assignment.add_partition_offset(topic, partition, Offset::Beginning).expect("a partition");
    consumer.assign(&assignment).expect("the partition is assigned");
    let begun = Instant::now();
    let mut found = Vec::new();
    let mut next = 0;
    while next < end {
        assert!(begun.elapsed() < PATIENCE, "{next} of {end} records of {topic} after {PATIENCE:?}");
        // An error is the end of the partition, or one of the connection, which heals.
        let Some(Ok(message)) = consumer.poll(Duration::from_millis(100)) else { continue };
        next = message.offset() + 1;
        let headers = message.headers().into_iter().flat_map(Headers::iter);
        let text = |value: Option<&[u8]>| String::from_utf8_lossy(value.unwrap_or(b"(null)")).into_owned();
        found.push(Record {
            key: message.key().map(<[u8]>::to_vec),
            value: message.payload().map(<[u8]>::to_vec),
            headers: headers.map(|header| (header.key.to_owned(), text(header.value))).collect(),
        });
    }
    found
}

/// The specification of a sink for the broker's plain listener.
pub(crate) fn plain(kafka: &Kafka) -> Arc<crate::KafkaSpec> {
    Arc::new(super::spec(&kafka.bootstrap()))
}
