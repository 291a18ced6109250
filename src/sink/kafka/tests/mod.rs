//! Tests of the sink: against librdkafka's mock cluster, and against a real Kafka.

mod contract;
mod mock;
mod real;
mod rig;

use std::time::Duration;

use crate::config::{Compression, KafkaSpec};
use crate::message::Destination;

/// The specification of a plain sink.
pub(super) fn spec(brokers: &str) -> KafkaSpec {
    KafkaSpec {
        brokers: if brokers.is_empty() { Vec::new() } else { brokers.split(',').map(str::to_owned).collect() },
        client_id: "delaybridge".to_owned(),
        tls: None,
        sasl: None,
        compression: Compression::None,
        linger: Duration::from_millis(5),
        batch_bytes: 1_000_000,
        max_message_bytes: 10_000_000,
        properties: Vec::new(),
    }
}

/// A topic, records without a key.
fn topic(name: &str) -> Destination {
    Destination::KafkaTopic { topic: name.into(), key: None }
}
