//! Tests of the sink: against librdkafka's mock cluster, and against a real Kafka.

mod batches;
mod contract;
mod look;
mod mock;
mod provider;
mod real;
pub(crate) mod rig;
mod runs;
mod tokens;

use std::time::Duration;

use super::KafkaSink;
use crate::{KafkaCompression, KafkaDestination, KafkaSpec};
use delaybridge_core::message::{Class, Failure};
use delaybridge_sink::Sink;
use delaybridge_sink::{Destination, Outbound};

/// The specification of a plain sink.
pub(crate) fn spec(brokers: &str) -> KafkaSpec {
    KafkaSpec {
        brokers: if brokers.is_empty() { Vec::new() } else { brokers.split(',').map(str::to_owned).collect() },
        client_id: "delaybridge".to_owned(),
        tls: None,
        sasl: None,
        compression: KafkaCompression::None,
        linger: Duration::from_millis(1),
        batch_size: 1_000_000,
        max_message_size: 10_000_000,
        properties: Vec::new(),
    }
}

/// Why the sink does not deliver the message. It may be ambiguous a few times: on a machine that stalls, the sink's
/// time-out comes before librdkafka's report.
async fn reported(sink: &KafkaSink, message: Outbound) -> Failure {
    let mut failures = Vec::new();
    for _ in 0..5 {
        let failure = sink.deliver(message.clone()).await.expect_err("it is not delivered");
        if failure.class != Class::Ambiguous {
            return failure;
        }
        failures.push(failure);
    }
    panic!("always ambiguous: {failures:?}")
}

/// A topic, records without a key.
fn topic(name: &str) -> Destination {
    KafkaDestination { topic: name.into(), key: None }.into()
}
