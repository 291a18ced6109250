//! The keys of `sinks.NAME.kafka`, and the cluster that they describe.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use serde::Serialize;
use serde_json::{Map, Value};

use super::target::{self, KafkaKeys};
use super::{NAME, properties};
use delaybridge_link::Redis;
use delaybridge_settings::keys::{Key, tables};
use delaybridge_settings::reader::Section;
use delaybridge_settings::units::{show_duration, show_size};
use delaybridge_settings::url::host_and_port;
use delaybridge_settings::words::words;
use delaybridge_settings::{Secret, TlsFiles, secrets, shown, tls};
use delaybridge_sink::kind::{self, SinkSettings};
use delaybridge_sink::{Connector, Sink};

tables! {
    mod sink_kafka at "sinks.NAME.kafka", "A Kafka cluster. Delivery is idempotent and waits for all in-sync replicas (`acks=all`); the partition is the one that a Java producer would choose for the key. `topic` and `key` are set here for all queues, or under `to:`, which takes precedence. A record has the payload as its value and the headers `delaybridge-id`, `delaybridge-queue`, `delaybridge-due-ms`, `delaybridge-attempt`, and then the route's." {
        BROKERS = key("brokers", Kind::Texts, "`host:port` of some brokers, default port 9092. The client learns the rest of the cluster from them. One text may contain several, separated by commas, for example from a variable.").required();
        CLIENT_ID = key("client_id", Kind::Text, "Name of the producer at the brokers.").default("delaybridge");
        TLS = key("tls", Kind::Section(&sink_tls::TABLE), "Encrypted connections. `tls: {}` verifies the brokers' certificates with the system's authorities.");
        SASL = key("sasl", Kind::Section(&sasl::TABLE), "Login.");
        COMPRESSION = key("compression", word::<KafkaCompression>(), "Compression of batches.").default("none");
        LINGER = key("linger", duration(0), "Time for which a record waits for others in its batch. Larger batches use less CPU: with many elements due at once, `20ms` gave 10 % more elements a second with 20 % less CPU than `1ms`, and up to 20 ms more lateness.").default("1ms");
        BATCH_SIZE = key("batch_size", Kind::Size, "Largest batch before compression. By default, brokers accept 1 MiB including overhead.").default("1MB");
        MAX_MESSAGE_SIZE = key("max_message_size", Kind::Size, "Largest record before compression. A larger record becomes a dead letter. It must not exceed `max.message.bytes` of the topics.").default("1MB");
        TIMEOUT = key("timeout", Kind::DurationOrAuto { min_ms: 1_000 }, "Longest duration of one delivery. `delivery.timeout.ms` is derived from it and is slightly shorter, so that librdkafka reports first. `auto` is half of the shortest lease of the sink's queues, at most 30s. Below 1s the lease is refused as too short for Kafka.").default("auto");
        MAX_RATE = kind::MAX_RATE;
        PROPERTIES = key("properties", Kind::Scalars, "Further settings, by their names in librdkafka. Settings that weaken delivery, settings with a separate key here, and settings unknown to librdkafka are refused with the reason.");
    } + target::ON_SINK
    mod sink_tls at "sinks.NAME.kafka.tls", "Certificates, as in `redis.tls`." {
        VERIFY_HOSTNAME = key("verify_hostname", Kind::Flag, "Whether a broker's certificate must match its host name. With `false`, any certificate of the authority can impersonate a broker.").default("true");
    } + tls::KEYS
    mod sasl at "sinks.NAME.kafka.sasl", "A login to Kafka. One of `password` and `password_file` is required." {
        MECHANISM = key("mechanism", word::<SaslMechanism>(), "Mechanism of the login.").required();
        USERNAME = key("username", Kind::Text, "User.").required();
        PASSWORD = secrets::PASSWORD;
        PASSWORD_FILE = secrets::PASSWORD_FILE;
    }
}

/// The settings of a Kafka cluster: its brokers, the login, and the way records are sent.
#[derive(Clone, Serialize)]
pub struct KafkaSpec {
    /// `host:port` of some brokers; the rest of the cluster is learned from them. At least one.
    pub brokers: Vec<String>,
    /// The producer's name at the brokers.
    pub client_id: String,
    /// Set where connections use TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsFiles>,
    /// Whether a broker's certificate must be for the host that was connected to.
    #[serde(skip)]
    pub verify_hostname: bool,
    /// Set where the brokers want a login.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sasl: Option<KafkaSasl>,
    /// The compression of batches.
    pub compression: KafkaCompression,
    /// Time for which a record waits for others to share its batch.
    #[serde(serialize_with = "shown::duration")]
    pub linger: Duration,
    /// Largest batch in bytes, before compression.
    #[serde(serialize_with = "shown::size")]
    pub batch_size: u32,
    /// Largest record in bytes that is sent at all, before compression.
    #[serde(serialize_with = "shown::size")]
    pub max_message_size: u32,
    /// Further settings of librdkafka; none of them weakens delivery.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "properties::shown")]
    pub properties: Vec<(String, String)>,
}

impl fmt::Debug for KafkaSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values of properties may be secrets.
        let names: Vec<_> = self.properties.iter().map(|(name, _)| name).collect();
        f.debug_struct("KafkaSpec")
            .field("brokers", &self.brokers)
            .field("client_id", &self.client_id)
            .field("tls", &self.tls)
            .field("sasl", &self.sasl)
            .field("properties", &names)
            .finish_non_exhaustive()
    }
}

/// A login to Kafka.
#[derive(Debug, Clone, Serialize)]
pub struct KafkaSasl {
    /// The mechanism of the login.
    pub mechanism: SaslMechanism,
    /// The user.
    pub username: String,
    /// The password.
    #[serde(flatten)]
    pub password: Secret,
}

words! {
    /// SASL mechanisms of this version, by their names in Kafka.
    pub enum SaslMechanism {
        /// The password itself; only sensible over TLS.
        Plain = "PLAIN",
        /// Challenge and response over SHA-256.
        ScramSha256 = "SCRAM-SHA-256",
        /// Challenge and response over SHA-512.
        ScramSha512 = "SCRAM-SHA-512",
    }
    later "OAUTHBEARER", "GSSAPI"
}

words! {
    /// Compression of record batches, by its name in librdkafka.
    pub enum KafkaCompression {
        /// None.
        None = "none",
        /// gzip.
        Gzip = "gzip",
        /// Snappy.
        Snappy = "snappy",
        /// LZ4.
        Lz4 = "lz4",
        /// Zstandard.
        Zstd = "zstd",
    }
}

/// Reads the sink.
pub(super) fn read(section: &Section<'_>) -> SinkSettings {
    let keys = KafkaKeys::read(section);
    SinkSettings::new(section, section.duration_or_auto(&sink_kafka::TIMEOUT), spec(section), move |at| {
        KafkaKeys::read(at.section).target(at, &keys)
    })
}

impl Connector for KafkaSpec {
    fn kind(&self) -> &'static str {
        NAME
    }

    fn connect(&self, timeout: Duration, _source: &Redis) -> Arc<dyn Sink> {
        Arc::new(super::KafkaSink::new(Arc::new(self.clone()), timeout))
    }

    fn validate(&self, timeout: Duration) -> Result<(), delaybridge_core::message::Failure> {
        use delaybridge_core::message::{Class, Failure};

        super::client::validate(self, timeout)
            .map_err(|problem| Failure::new(Class::TargetPermanent, "settings", problem))
    }

    fn backlog(
        &self,
        from: &str,
        reader: &str,
        timeout: Duration,
    ) -> Option<Result<Box<dyn delaybridge_sink::Backlog>, delaybridge_core::message::Failure>> {
        let opened = super::client::KafkaBacklog::open(self, from, reader, timeout);
        Some(opened.map(|backlog| -> Box<dyn delaybridge_sink::Backlog> { Box::new(backlog) }))
    }

    fn settings(&self) -> Map<String, Value> {
        let mut fields = shown::fields(self);
        if let Some(Value::Object(tls)) = fields.get_mut(sink_kafka::TLS.name) {
            tls.insert(sink_tls::VERIFY_HOSTNAME.name.to_owned(), self.verify_hostname.into());
        }
        fields
    }

    fn address(&self) -> String {
        self.brokers.join(", ")
    }

    fn least_timeout(&self) -> Duration {
        LEAST_TIMEOUT
    }

    fn against_timeout(&self, timeout: Duration) -> Option<(String, &'static str)> {
        // A batch has to have gone out well before its records are given up.
        (self.linger > timeout / 2).then(|| {
            let (linger, timeout) = (show_duration(self.linger), show_duration(timeout));
            let message = format!("linger ({linger}) is more than half of the time-out of the sink ({timeout})");
            (message, "shorten `linger`; a few milliseconds fill a batch")
        })
    }
}

/// Shortest time-out that librdkafka can work with.
const LEAST_TIMEOUT: Duration = Duration::from_secs(1);

/// The cluster under `section`.
fn spec(section: &Section<'_>) -> KafkaSpec {
    let (tls, verify_hostname) = encryption(section);
    let sasl = section.opt_section(&sink_kafka::SASL).map(|section| (login(&section), section.spot.clone()));
    if let (None, Some((Some(login), spot))) = (&tls, &sasl)
        && login.mechanism == SaslMechanism::Plain
    {
        let help = "write `tls: {}`, or a SCRAM mechanism";
        section.cx.report.warning(spot, "mechanism PLAIN without `tls` shows the password to the network", help);
    }
    KafkaSpec {
        brokers: brokers(section),
        client_id: section.text(&sink_kafka::CLIENT_ID).map(|id| id.value).unwrap_or_default(),
        tls,
        verify_hostname,
        sasl: sasl.and_then(|(login, _)| login),
        compression: section.one_of::<KafkaCompression>(&sink_kafka::COMPRESSION).unwrap_or(KafkaCompression::None),
        linger: section.duration(&sink_kafka::LINGER),
        // The ranges are librdkafka's.
        batch_size: bounded(section, &sink_kafka::BATCH_SIZE, 1, i32::MAX.unsigned_abs()),
        max_message_size: bounded(section, &sink_kafka::MAX_MESSAGE_SIZE, 1_000, 1_000_000_000),
        properties: properties::read(section, &sink_kafka::PROPERTIES, verify_hostname),
    }
}

/// The files, and whether the names in the brokers' certificates count.
fn encryption(section: &Section<'_>) -> (Option<TlsFiles>, bool) {
    let Some(tls) = section.opt_section(&sink_kafka::TLS) else { return (None, true) };
    let verify = tls.flag(&sink_tls::VERIFY_HOSTNAME).unwrap_or(true);
    if !verify {
        let help = "give the brokers certificates for their host names";
        let message = "the name in the brokers' certificates is not checked: any certificate of the authority passes";
        tls.cx.report.warning(&tls.spot(&sink_tls::VERIFY_HOSTNAME), message, help);
    }
    (Some(tls::files(&tls)), verify)
}

fn bounded(section: &Section<'_>, key: &Key, min: u32, max: u32) -> u32 {
    let bytes = section.size(key);
    let fits = u32::try_from(bytes).ok().filter(|bytes| (min..=max).contains(bytes));
    if fits.is_none() {
        let message = format!("{} is out of range", show_size(bytes));
        section.cx.report.problem(&section.spot(key), message, format!("write a size from {min}B to {max}B"));
    }
    fits.unwrap_or(max)
}

fn brokers(section: &Section<'_>) -> Vec<String> {
    let mut brokers = Vec::new();
    for text in section.texts(&sink_kafka::BROKERS) {
        for address in text.value.split(',').map(str::trim) {
            let read = match address.contains(['/', '@']) {
                true => Err("a broker is `host:port`, without a protocol, user or path"),
                false => host_and_port(address, 9092),
            };
            match read {
                Ok((host, port)) if host.contains(':') => brokers.push(format!("[{host}]:{port}")),
                Ok((host, port)) => brokers.push(format!("{host}:{port}")),
                // Not repeated: a URL with a user often has the password too.
                Err(problem) => section.cx.report.problem(&text.spot, problem, "write `kafka-0:9092`"),
            }
        }
    }
    brokers
}

fn login(section: &Section<'_>) -> Option<KafkaSasl> {
    let mechanism = section.one_of::<SaslMechanism>(&sasl::MECHANISM);
    let username = section.text(&sasl::USERNAME).map(|name| name.value);
    let password = secrets::password(section, "KAFKA_PASSWORD");
    if !section.has(&sasl::PASSWORD) && !section.has(&sasl::PASSWORD_FILE) {
        let help = "write `password_file: PATH`, or `password: ${KAFKA_PASSWORD}`";
        section.cx.report.problem(&section.spot, "there is a login, but no password", help);
    }
    let password = password.unwrap_or_else(|| Secret::Literal(SecretString::default()));
    Some(KafkaSasl { mechanism: mechanism?, username: username?, password })
}
