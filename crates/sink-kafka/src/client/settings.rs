//! The settings of librdkafka for a sink. Pure.

use std::time::Duration;

use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseProducer, DefaultProducerContext};
use secrecy::{ExposeSecret, SecretString};

use crate::{KafkaLogin, KafkaSpec, KafkaTls, SaslMechanism};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProducerPurpose {
    Batches,
    /// Each record is a batch of its own: whatever is refused is refused for this record.
    Alone,
    /// Nothing is written behind a record that failed; see `run.rs`.
    Runs,
    /// Only asks, and so never makes a broker create a topic.
    Check,
}

/// Longest that a topic may seem to be missing before its records fail. Longer than a new topic takes to be known on
/// all brokers; the client's own 30 s would let records time out without a reason.
const PROPAGATION: Duration = Duration::from_secs(1);
/// Bytes of records in the producer, unless the largest record needs more. What is in flight is bounded before.
const QUEUE_KBYTES: u64 = 256 * 1024;
/// Records in the producer.
const QUEUE_MESSAGES: u32 = 100_000;

/// Longest that a broker waits for the other replicas before it answers that it does not know; then the client asks again,
/// and an idempotent producer makes no duplicate of it. A broker reads nothing else from the connection meanwhile: with the
/// client's own 30 s, one topic whose replica has just died kept all topics of its leader waiting until their records had timed
/// out. Longer than replicas in sync take, so that little is sent twice.
const REPLICAS: Duration = Duration::from_millis(200);
/// Requests on their way to one broker. It answers them one by one, so that each of a topic in trouble delays what is behind it
/// by as much. One more than one keeps the broker busy; five, the most of an idempotent producer, made smaller batches and no
/// more records in a second.
const REQUESTS: &str = "2";

/// Longest that the client waits before it connects again.
const RECONNECT: Duration = Duration::from_secs(1);

/// Computes the time for which librdkafka tries before it reports a record as timed out: less than the sink's own
/// time-out, so that its report, which knows whether the record may have been written, comes first. It looks for old
/// records once a second, and in an outage not before its next attempt to connect.
pub(super) fn message_timeout(timeout: Duration) -> Duration {
    let late = Duration::from_millis(1200) + RECONNECT;
    let margin = (timeout / 10).max(late).min(timeout / 3);
    timeout.saturating_sub(margin).max(Duration::from_millis(1))
}

/// Computes that time for a record that is sent alone, after its batch has taken some of the time: half of it, so that
/// there is time to send it when a slow broker has refused the batch.
pub(super) fn alone_timeout(of_batches: Duration) -> Duration {
    (of_batches / 2).max(Duration::from_millis(1))
}

/// Builds the settings: first those that the user may change, then the user's properties, then those that must not be
/// weakened.
pub(super) fn settings(
    spec: &KafkaSpec,
    timeout: Duration,
    purpose: ProducerPurpose,
    password: Option<&SecretString>,
) -> ClientConfig {
    let mut config = ClientConfig::new();
    // The level of messages to our own log function; none goes to standard error.
    config.set_log_level(RDKafkaLogLevel::Info);
    let limit = match purpose {
        ProducerPurpose::Alone => alone_timeout(message_timeout(timeout)),
        ProducerPurpose::Batches | ProducerPurpose::Runs | ProducerPurpose::Check => message_timeout(timeout),
    };
    let kbytes = QUEUE_KBYTES.max(u64::from(spec.max_message_size).saturating_mul(2) / 1024);
    config
        .set("queue.buffering.max.messages", QUEUE_MESSAGES.to_string())
        .set("queue.buffering.max.kbytes", kbytes.to_string())
        .set("topic.metadata.propagation.max.ms", millis(PROPAGATION.min(limit / 2)))
        .set("reconnect.backoff.max.ms", millis(RECONNECT))
        // What waits behind such a request must not time out with it.
        .set("request.timeout.ms", millis(REPLICAS.min(limit / 4).max(Duration::from_millis(1))))
        // A request that a silent broker holds is not waited for longer than the records behind it.
        .set("socket.timeout.ms", millis(limit.clamp(Duration::from_secs(1), Duration::from_secs(60))))
        .set("socket.keepalive.enable", "true");
    for (name, value) in &spec.properties {
        config.set(name, value);
    }
    config
        .set("bootstrap.servers", spec.brokers.join(","))
        .set("client.id", &spec.client_id)
        .set("compression.type", spec.compression.as_str())
        .set("linger.ms", linger_ms(spec.linger))
        .set("message.max.bytes", spec.max_message_size.to_string())
        .set("batch.size", spec.batch_size.to_string())
        .set("enable.idempotence", "true")
        .set("max.in.flight", REQUESTS)
        .set("acks", "all")
        // The partition that a Java producer chooses.
        .set("partitioner", "murmur2_random")
        .set("message.timeout.ms", millis(limit));
    match purpose {
        ProducerPurpose::Batches => {}
        ProducerPurpose::Alone => {
            let _ = config.set("batch.num.messages", "1").set("linger.ms", "0");
        }
        ProducerPurpose::Runs => {
            let _ =
                config.set("max.in.flight", "1").set("message.timeout.ms", "0").set("enable.gapless.guarantee", "true");
        }
        ProducerPurpose::Check => {
            let _ = config.set("allow.auto.create.topics", "false");
        }
    }
    security(&mut config, spec, password);
    config
}

pub(crate) fn security(config: &mut ClientConfig, spec: &KafkaSpec, password: Option<&SecretString>) {
    let protocol = match (&spec.tls, &spec.sasl) {
        (None, None) => "plaintext",
        (None, Some(_)) => "sasl_plaintext",
        (Some(_), None) => "ssl",
        (Some(_), Some(_)) => "sasl_ssl",
    };
    config.set("security.protocol", protocol);
    if let Some(KafkaTls { files, verify_hostname }) = &spec.tls {
        // An OpenSSL inside the binary looks for the system's authorities in a place that no system has.
        let ca = files.ca_file.as_ref().map_or("probe".into(), |path| path.display().to_string());
        config.set("ssl.ca.location", ca);
        config.set("ssl.endpoint.identification.algorithm", if *verify_hostname { "https" } else { "none" });
        if let Some((certificate, key)) = &files.client {
            config.set("ssl.certificate.location", certificate.display().to_string());
            config.set("ssl.key.location", key.display().to_string());
        }
    }
    if let Some(sasl) = &spec.sasl {
        config.set("sasl.mechanism", SaslMechanism::as_str(sasl.mechanism));
        if let KafkaLogin::Password { username, .. } = &sasl.login {
            config.set("sasl.username", username);
        }
        if let Some(password) = password {
            config.set("sasl.password", password.expose_secret());
        }
    }
}

fn millis(duration: Duration) -> String {
    duration.as_millis().to_string()
}

/// Formats a time in milliseconds; fractions are allowed here.
fn linger_ms(linger: Duration) -> String {
    (linger.as_secs_f64() * 1000.0).to_string()
}

/// Lets librdkafka check names, values and combinations of the settings, without connecting and without reading files.
///
/// # Errors
///
/// librdkafka's message about a setting that it does not accept.
pub fn validate(spec: &KafkaSpec, timeout: Duration) -> Result<(), String> {
    // One by one, because the library reports the first problem that it meets, in no order.
    for (name, value) in &spec.properties {
        let mut alone = ClientConfig::new();
        alone.set(name, value).create_native_config().map_err(|error| explain(&error))?;
    }
    let offline = KafkaSpec { tls: None, sasl: None, brokers: Vec::new(), ..spec.clone() };
    let config = settings(&offline, timeout, ProducerPurpose::Batches, None);
    match config.create_with_context::<_, BaseProducer>(DefaultProducerContext) {
        Ok(_producer) => Ok(()),
        Err(error) => Err(explain(&error)),
    }
}

/// Explains what is wrong with the settings; the value of a secret setting is not repeated.
pub(super) fn explain(error: &KafkaError) -> String {
    match error {
        KafkaError::ClientConfig(_, _, name, _) if is_secret(name) => {
            format!("property `{name}`: the value is refused")
        }
        KafkaError::ClientConfig(_, what, name, _) => format!("property `{name}`: {what}"),
        KafkaError::ClientCreation(what) => what.clone(),
        other => other.to_string(),
    }
}

fn is_secret(name: &str) -> bool {
    ["password", "secret", "key.pem", "sasl.jaas", "oauthbearer.config"].iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::tests::spec;
    use crate::{KafkaCompression, KafkaSasl};
    use delaybridge_settings::{Secret, TlsFiles};

    const TIMEOUT: Duration = Duration::from_secs(30);

    fn get(spec: &KafkaSpec, name: &str) -> Option<String> {
        settings(spec, TIMEOUT, ProducerPurpose::Batches, None).get(name).map(str::to_owned)
    }

    fn check(spec: &KafkaSpec, rows: &[(&str, &str)]) {
        for (name, value) in rows {
            assert_eq!(get(spec, name).as_deref(), Some(*value), "{name}");
        }
        validate(spec, TIMEOUT).unwrap();
    }

    #[test]
    fn records_are_sent_as_safely_as_kafka_can() {
        check(
            &spec("h:9092"),
            &[
                ("bootstrap.servers", "h:9092"),
                ("enable.idempotence", "true"),
                ("acks", "all"),
                ("partitioner", "murmur2_random"),
                ("message.timeout.ms", "27000"),
                ("topic.metadata.propagation.max.ms", "1000"),
                ("request.timeout.ms", "200"),
                ("max.in.flight", "2"),
                ("security.protocol", "plaintext"),
                ("client.id", "delaybridge"),
                ("linger.ms", "1"),
                ("socket.keepalive.enable", "true"),
            ],
        );
    }

    #[test]
    fn what_the_user_says_is_passed_on() {
        let spec = KafkaSpec {
            brokers: vec!["a:1".to_owned(), "b:2".to_owned()],
            compression: KafkaCompression::Zstd,
            linger: Duration::from_micros(500),
            batch_size: 65_536,
            max_message_size: 500_000_000,
            properties: vec![("socket.send.buffer.bytes".to_owned(), "65536".to_owned())],
            ..spec("")
        };
        check(
            &spec,
            &[
                ("bootstrap.servers", "a:1,b:2"),
                ("compression.type", "zstd"),
                ("linger.ms", "0.5"),
                ("batch.size", "65536"),
                ("message.max.bytes", "500000000"),
                ("queue.buffering.max.kbytes", "976562"),
                ("socket.send.buffer.bytes", "65536"),
            ],
        );
    }

    #[test]
    fn no_property_weakens_delivery() {
        let weak =
            [("acks", "0"), ("enable.idempotence", "false"), ("message.timeout.ms", "0"), ("partitioner", "random")];
        let properties = weak.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let spec = KafkaSpec { properties, ..spec("h:1") };
        for (name, value) in weak {
            assert_ne!(get(&spec, name).as_deref(), Some(value), "{name}");
        }
    }

    #[test]
    fn tls_and_login_choose_the_protocol() {
        let tls = Some(KafkaTls { files: TlsFiles::default(), verify_hostname: true });
        let sasl = Some(KafkaSasl {
            mechanism: SaslMechanism::ScramSha512,
            login: KafkaLogin::Password { username: "alice".to_owned(), password: Secret::Literal("geheim".into()) },
        });
        let rows = [
            (None, None, "plaintext"),
            (None, sasl.clone(), "sasl_plaintext"),
            (tls.clone(), None, "ssl"),
            (tls, sasl, "sasl_ssl"),
        ];
        for (tls, sasl, protocol) in rows {
            let spec = KafkaSpec { tls, sasl, ..spec("h:1") };
            assert_eq!(get(&spec, "security.protocol").as_deref(), Some(protocol));
            let ca = spec.tls.is_some().then(|| "probe".to_owned());
            assert_eq!(get(&spec, "ssl.ca.location"), ca);
            let algorithm = spec.tls.is_some().then(|| "https".to_owned());
            assert_eq!(get(&spec, "ssl.endpoint.identification.algorithm"), algorithm);
            let lax = spec.tls.clone().map(|tls| KafkaTls { verify_hostname: false, ..tls });
            let lax = KafkaSpec { tls: lax, ..spec.clone() };
            let algorithm = spec.tls.is_some().then(|| "none".to_owned());
            assert_eq!(get(&lax, "ssl.endpoint.identification.algorithm"), algorithm);
            let mechanism = spec.sasl.is_some().then(|| "SCRAM-SHA-512".to_owned());
            assert_eq!(get(&spec, "sasl.mechanism"), mechanism);
        }
    }

    #[test]
    fn certificates_are_named_to_the_client() {
        let files = TlsFiles {
            ca_file: Some("/ca.pem".into()),
            client: Some(("/c.pem".into(), "/k.pem".into())),
            ..TlsFiles::default()
        };
        let spec = KafkaSpec { tls: Some(KafkaTls { files, verify_hostname: true }), ..spec("h:1") };
        assert_eq!(get(&spec, "ssl.ca.location").as_deref(), Some("/ca.pem"));
        assert_eq!(get(&spec, "ssl.certificate.location").as_deref(), Some("/c.pem"));
        assert_eq!(get(&spec, "ssl.key.location").as_deref(), Some("/k.pem"));
    }

    #[test]
    fn a_record_sent_alone_shares_no_batch_and_a_check_creates_no_topic() {
        let get = |purpose, name| settings(&spec("h:1"), TIMEOUT, purpose, None).get(name).map(str::to_owned);
        assert_eq!(get(ProducerPurpose::Alone, "batch.num.messages").as_deref(), Some("1"));
        assert_eq!(get(ProducerPurpose::Alone, "message.timeout.ms").as_deref(), Some("13500"), "half of it");
        assert_eq!(get(ProducerPurpose::Batches, "batch.num.messages"), None);
        assert_eq!(get(ProducerPurpose::Check, "allow.auto.create.topics").as_deref(), Some("false"));
    }

    #[test]
    fn librdkafkas_report_comes_before_our_own_time_out() {
        let check = |timeout_ms, expected_ms| {
            let limit = message_timeout(Duration::from_millis(timeout_ms));
            assert_eq!(limit, Duration::from_millis(expected_ms), "{timeout_ms} ms");
        };
        check(60_000, 54_000);
        check(30_000, 27_000);
        check(10_000, 7_800);
        check(3_000, 2_000);
        check(600, 400);
    }

    #[test]
    fn settings_that_librdkafka_refuses_are_reported() {
        let check = |name: &str, value: &str, expected: &str| {
            let spec = KafkaSpec { properties: vec![(name.to_owned(), value.to_owned())], ..spec("h:1") };
            let told = validate(&spec, TIMEOUT).unwrap_err();
            assert!(told.contains(expected), "{told}");
        };
        check("no.such.property", "1", "property `no.such.property`: No such configuration property");
        check("socket.send.buffer.bytes", "many", "property `socket.send.buffer.bytes`: Invalid value");
        let spec = KafkaSpec { linger: Duration::from_secs(40), ..spec("h:1") };
        let told = validate(&spec, TIMEOUT).unwrap_err();
        assert!(told.contains("message.timeout.ms"), "{told}");
    }

    #[test]
    fn the_value_of_a_secret_property_is_not_repeated() {
        let error = KafkaError::ClientConfig(
            rdkafka::types::RDKafkaConfRes::RD_KAFKA_CONF_INVALID,
            "Invalid value geheim".to_owned(),
            "ssl.key.password".to_owned(),
            "geheim".to_owned(),
        );
        assert!(!explain(&error).contains("geheim"));
    }
}
