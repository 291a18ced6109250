//! The keys of `sinks.NAME.kafka`, and the cluster that they describe.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::errors;
use super::login::{KafkaSasl, aws_msk_iam, oidc, sasl};
use super::properties;
use super::target::{self, KafkaKeys, NAME};
use delaybridge_settings::keys::{Key, Kind, Table, key};
use delaybridge_settings::reader::Section;
use delaybridge_settings::units::{show_duration, show_size};
use delaybridge_settings::url::{host_and_port, host_with_port};
use delaybridge_settings::words::words;
use delaybridge_settings::{Settings, TlsFiles, tls};
use delaybridge_sink::kind::{self, SinkKind, SinkSettings};
use delaybridge_sink::{Connector, Sink, SinkStart};

/// The `kafka` kind.
pub static KIND: SinkKind = SinkKind {
    key: key(NAME, Kind::Section(&sink_kafka::TABLE), "Kafka topics."),
    title: "Kafka",
    tables: TABLES,
    to: target::destination::OWN,
    dead_letter: target::destination::OWN,
    read: Ok(read),
    codes: errors::codes,
};

/// Every table, in the order of the reference.
pub(super) static TABLES: &[&Table] =
    &[&sink_kafka::TABLE, &sink_tls::TABLE, &sasl::TABLE, &oidc::TABLE, &aws_msk_iam::TABLE];

/// A Kafka cluster. Delivery is idempotent and waits for all in-sync replicas (`acks=all`); the partition is that of a
/// Java producer for the key. The value is the payload.
#[derive(Clone, Settings)]
#[settings(sink_kafka, at = "sinks.NAME.kafka", offered = target::ON_SINK)]
pub struct KafkaSpec {
    /// `host:port` of some brokers, default port 9092; the rest is discovered. One text may have several, separated by
    /// commas.
    #[key(Kind::Texts, required, read = brokers)]
    pub brokers: Vec<String>,
    /// Name of the producer at the brokers.
    #[key(Kind::Text, default = "delaybridge")]
    pub client_id: String,
    /// TLS; `{}` trusts the system's authorities.
    #[key(Kind::Section(&sink_tls::TABLE))]
    pub tls: Option<KafkaTls>,
    /// Login.
    #[key(Kind::Section(&sasl::TABLE), later = None)]
    pub sasl: Option<KafkaSasl>,
    /// Compression of batches.
    #[key(word::<KafkaCompression>(), default = "none")]
    pub compression: KafkaCompression,
    /// Time for which a record waits for others in its batch. Larger batches use less CPU, and add up to this lateness.
    #[key(duration(0), default = "1ms")]
    pub linger: Duration,
    /// Largest batch before compression. Brokers accept 1 MiB with overhead by default.
    #[key(Kind::Size, default = "1MB", read = batch_size)]
    pub batch_size: u32,
    /// Largest record before compression, at most `max.message.bytes` of the topics. A larger one becomes a dead
    /// letter.
    #[key(Kind::Size, default = "1MB", read = max_message_size)]
    pub max_message_size: u32,
    /// Further settings by their names in librdkafka. Those that weaken delivery, have a key here or are unknown are
    /// refused.
    #[key(Kind::Scalars, later = Vec::new(), show = properties::shown)]
    #[settings(keys(TIMEOUT, kind::MAX_RATE))]
    pub properties: Vec<(String, String)>,
}

/// The time-out, which `auto` leaves to the leases.
const TIMEOUT: Key = key(
    "timeout",
    Kind::DurationOrAuto { min_ms: 1_000 },
    "Time limit of a delivery; `delivery.timeout.ms` is slightly shorter. `auto`: half of the shortest lease of the sink's queues, from 1s to 30s.",
)
.default("auto");

/// Certificates, as in `redis.tls`.
#[derive(Debug, Clone, Settings)]
#[settings(sink_tls, at = "sinks.NAME.kafka.tls", offered = tls::KEYS)]
pub struct KafkaTls {
    /// The files.
    #[settings(read = tls::files, flatten)]
    pub files: TlsFiles,
    /// Whether a broker's certificate must match its host. With `false`, any certificate of the authority can
    /// impersonate a broker.
    #[key(Kind::Flag, default = "true", read = verified)]
    pub verify_hostname: bool,
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

/// The keys of a cluster, for everything that connects to one.
pub(super) const CLUSTER_KEYS: &[Key] =
    &[sink_kafka::BROKERS, sink_kafka::CLIENT_ID, sink_kafka::TLS, sink_kafka::SASL, sink_kafka::MAX_MESSAGE_SIZE];

/// Reads the keys of a cluster alone: the rest is that of a sink without any other key.
pub(super) fn cluster(section: &Section<'_>) -> KafkaSpec {
    spec(section)
}

pub(super) fn read(section: &Section<'_>) -> SinkSettings {
    let keys = KafkaKeys::of(section);
    SinkSettings::new(section, section.duration_or_auto(&TIMEOUT), spec(section), move |at| {
        KafkaKeys::of(at.section).target(at, &keys)
    })
}

impl Connector for KafkaSpec {
    fn kind(&self) -> &'static str {
        NAME
    }

    fn connect(&self, start: &SinkStart<'_>) -> Arc<dyn Sink> {
        Arc::new(super::client::KafkaSink::new(Arc::new(self.clone()), start.timeout))
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
        self.shown()
    }

    fn address(&self) -> String {
        self.brokers.join(", ")
    }

    fn descriptors(&self) -> u64 {
        // librdkafka has a thread for each broker, with a connection and a pipe that wakes it.
        3 * (self.brokers.len() as u64 + FURTHER_BROKERS)
    }

    fn least_timeout(&self) -> Duration {
        LEAST_TIMEOUT
    }

    fn against_timeout(&self, timeout: Duration) -> Option<(String, &'static str)> {
        // A batch has to have gone out well before its records are given up.
        (self.linger > timeout / 2).then(|| {
            let linger = show_duration(self.linger);
            let timeout = show_duration(timeout);
            let message = format!("linger ({linger}) is more than half of the time-out of the sink ({timeout})");
            (message, "shorten `linger`; a few milliseconds fill a batch")
        })
    }
}

/// Brokers of a cluster that are not named in a configuration.
const FURTHER_BROKERS: u64 = 8;

/// Shortest time-out that librdkafka can work with.
const LEAST_TIMEOUT: Duration = Duration::from_secs(1);

/// Returns the cluster under `section`.
fn spec(section: &Section<'_>) -> KafkaSpec {
    let spec = KafkaSpec::of(section);
    let sasl = section.opt_section(&sink_kafka::SASL).map(|section| (KafkaSasl::of(&section), section.spot.clone()));
    if let (None, Some((login, spot))) = (&spec.tls, &sasl)
        && login.mechanism.shows_the_proof()
        && login.is_complete()
    {
        let mechanism = login.mechanism.as_str();
        let proof = login.proof();
        let message = format!("mechanism {mechanism} without `tls` shows the {proof} to the network");
        section.cx.report.warning(spot, message, "write `tls: {}`, or a SCRAM mechanism");
    }
    let sasl = sasl.map(|(login, _)| login);
    let verify_hostname = spec.tls.as_ref().is_none_or(|tls| tls.verify_hostname);
    let properties = properties::read(section, &sink_kafka::PROPERTIES, verify_hostname);
    KafkaSpec { sasl, properties, ..spec }
}

/// Returns whether the names in the brokers' certificates count.
fn verified(section: &Section<'_>, key: &Key) -> bool {
    let verify = section.flag(key).unwrap_or(true);
    if !verify {
        let help = "give the brokers certificates for their host names";
        let message = "the name in the brokers' certificates is not checked: any certificate of the authority passes";
        section.cx.report.warning(&section.spot(key), message, help);
    }
    verify
}

// The ranges are librdkafka's.
fn batch_size(section: &Section<'_>, key: &Key) -> u32 {
    bounded(section, key, 1, i32::MAX.unsigned_abs())
}

fn max_message_size(section: &Section<'_>, key: &Key) -> u32 {
    bounded(section, key, 1_000, 1_000_000_000)
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

fn brokers(section: &Section<'_>, key: &Key) -> Vec<String> {
    let mut brokers = Vec::new();
    for text in section.texts(key) {
        for address in text.value.split(',').map(str::trim) {
            let read = if address.contains(['/', '@']) {
                Err("a broker is `host:port`, without a protocol, user or path")
            } else {
                host_and_port(address, 9092)
            };
            match read {
                Ok((host, port)) => brokers.push(host_with_port(&host, port)),
                // Not repeated: a URL with a user often has the password too.
                Err(problem) => section.cx.report.problem(&text.spot, problem, "write `kafka-0:9092`"),
            }
        }
    }
    brokers
}
