//! Asks whether records may be written to a topic (`check --live`), and writes none.
//!
//! The record of this question asks for two acknowledgements, which is no number that a broker knows: since 0.9 it takes 0, 1, or
//! all. It looks at the right first. So it refuses the writer, or the number, and takes the record in neither case.

use std::time::Duration;

use parking_lot::Mutex;
use rdkafka::ClientConfig;
use rdkafka::client::{ClientContext, OAuthToken};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};
use rdkafka::types::RDKafkaErrorCode as Code;

use super::errors::failure;
use crate::client::proof::Proof;
use crate::client::settings::security;
use crate::{KafkaSpec, errors};
use delaybridge_core::message::Failure;

/// The number of acknowledgements that no broker gives.
const REFUSED_ACKS: &str = "2";
/// One wait for what the client says.
const POLL: Duration = Duration::from_millis(100);

/// The receiver of the answer.
struct WriteListener {
    proof: Proof,
    answer: Mutex<Option<Result<(), Code>>>,
}

impl ClientContext for WriteListener {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn generate_oauth_token(&self, _config: Option<&str>) -> Result<OAuthToken, Box<dyn std::error::Error>> {
        self.proof.oauth_token()
    }
}

impl ProducerContext for WriteListener {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let code = |error: &rdkafka::error::KafkaError| error.rdkafka_error_code().unwrap_or(Code::Unknown);
        *self.answer.lock() = Some(result.as_ref().map(drop).map_err(|(error, _)| code(error)));
    }
}

/// Asks, and waits for the answer at most for so long. Blocks.
pub(super) fn may_write(spec: &KafkaSpec, topic: &str, timeout: Duration) -> Result<(), Failure> {
    let what = format!("ask for the right to write to topic {topic}");
    let mut config = ClientConfig::new();
    config.set_log_level(RDKafkaLogLevel::Info);
    config
        .set("bootstrap.servers", spec.brokers.join(","))
        .set("client.id", &spec.client_id)
        .set("acks", REFUSED_ACKS)
        .set("retries", "0")
        .set("message.timeout.ms", timeout.as_millis().to_string())
        .set("allow.auto.create.topics", "false");
    let proof = Proof::now(spec, None, timeout)?;
    security(&mut config, spec, proof.password());
    let listener = WriteListener { proof, answer: Mutex::default() };
    let producer: BaseProducer<WriteListener> =
        config.create_with_context(listener).map_err(|error| failure("start a producer of Kafka", &error))?;
    let record = BaseRecord::<(), [u8]>::to(topic).payload(b"");
    producer.send(record).map_err(|(error, _)| failure(&what, &error))?;
    // The client answers for each record, at the latest after its time-out.
    let answer = loop {
        producer.poll(POLL);
        if let Some(answer) = producer.context().answer.lock().take() {
            break answer;
        }
    };
    match answer {
        // What cannot be written to is refused before the number of acknowledgements is.
        Ok(()) | Err(Code::InvalidRequiredAcks) => Ok(()),
        Err(code) => Err(errors::failure(&what, code)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_that_does_not_answer_is_a_failure_and_not_a_right() {
        let spec = crate::client::tests::spec("127.0.0.1:1");
        let failure = may_write(&spec, "refused", Duration::from_millis(500)).expect_err("nobody is there");
        assert!(failure.message.starts_with("ask for the right to write to topic refused: "), "{failure}");
    }
}
