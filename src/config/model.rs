//! The validated configuration: what the daemon runs on.
//!
//! Built only by [`super::load`]; every value here has been checked, every default filled in, every template compiled.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;

use crate::message::{AmqpProperty, Side};
use crate::route::Template;

/// Everything that one daemon does.
#[derive(Debug, Clone)]
pub struct Config {
    /// Address of `/metrics` and the probes; `None` when the user wrote `http: none`.
    pub http_listen: Option<SocketAddr>,
    /// How long the ordered drain may take after SIGTERM.
    pub shutdown_timeout: Duration,
    /// Limits of the whole process.
    pub limits: Limits,
    /// The Redis that holds the queues.
    pub redis: Arc<RedisEndpoint>,
    /// Sinks that at least one queue uses, in the order of the file.
    pub sinks: Vec<Arc<SinkSpec>>,
    /// Queues, in the order of the file.
    pub queues: Vec<Arc<QueueSpec>>,
}

/// What all queues together may hold in memory.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Elements in flight.
    pub in_flight: u32,
    /// Bytes of elements in flight.
    pub in_flight_bytes: u64,
}

/// How to reach a Redis server.
#[derive(Debug, Clone)]
pub struct RedisEndpoint {
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Set for `rediss://`.
    pub tls: Option<TlsFiles>,
    /// Database number.
    pub database: u32,
    /// ACL user; `None` is the default user.
    pub username: Option<String>,
    /// Where the password comes from.
    pub password: Option<Secret>,
    /// Time allowed for TCP, TLS and AUTH together.
    pub connect_timeout: Duration,
    /// Time allowed for one command or script.
    pub command_timeout: Duration,
}

impl RedisEndpoint {
    /// `host:port/db`, for logs and for comparing two endpoints; never with a password.
    pub fn address(&self) -> String {
        let host = &self.host;
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        format!("{host}:{}/{}", self.port, self.database)
    }

    /// Whether keys of the same name are the same keys; the usual names of this machine count as one.
    pub fn same_keys(&self, other: &RedisEndpoint) -> bool {
        let host = |endpoint: &RedisEndpoint| match endpoint.host.to_ascii_lowercase() {
            host if matches!(host.as_str(), "localhost" | "::1") => "127.0.0.1".to_owned(),
            host => host,
        };
        host(self) == host(other) && self.port == other.port && self.database == other.database
    }
}

/// TLS files of a server.
#[derive(Debug, Clone, Default)]
pub struct TlsFiles {
    /// Private CA in PEM; `None` trusts the system's.
    pub ca_file: Option<PathBuf>,
    /// Client certificate and key in PEM.
    pub client: Option<(PathBuf, PathBuf)>,
}

/// A password: never shown, and read again at every connect when it lives in a file (files are rotated).
#[derive(Debug, Clone)]
pub enum Secret {
    /// Written in the configuration, usually by `${VAR}`.
    Literal(SecretString),
    /// First line of a file.
    File(PathBuf),
}

/// One named sink.
#[derive(Debug, Clone)]
pub struct SinkSpec {
    /// The name under `sinks:`.
    pub name: Arc<str>,
    /// What it is.
    pub kind: SinkKind,
    /// Longest a delivery may take.
    pub timeout: Duration,
    /// Elements per second over all queues; `None` is unlimited.
    pub max_rate: Option<f64>,
}

/// The kinds of sinks, with what each needs to connect.
#[derive(Debug, Clone)]
pub enum SinkKind {
    /// A Redis server: of its own, or the source's when `endpoint` is `None`.
    Redis {
        /// The server.
        endpoint: Option<Arc<RedisEndpoint>>,
    },
    /// Kafka brokers.
    Kafka(Arc<KafkaSpec>),
    /// AMQP 0-9-1 brokers of one cluster.
    Amqp(Arc<AmqpSpec>),
    /// Standard output.
    Stdout,
}

impl SinkKind {
    /// The key in the configuration.
    pub fn as_str(&self) -> &'static str {
        match self {
            SinkKind::Redis { .. } => "redis",
            SinkKind::Kafka(_) => "kafka",
            SinkKind::Amqp(_) => "amqp",
            SinkKind::Stdout => "stdout",
        }
    }
}

/// How to reach a Kafka cluster, and how records are sent to it.
#[derive(Clone)]
pub struct KafkaSpec {
    /// `host:port` of some brokers; the rest of the cluster is learned from them. At least one.
    pub brokers: Vec<String>,
    /// How the producer names itself to the brokers.
    pub client_id: String,
    /// Set where connections use TLS.
    pub tls: Option<TlsFiles>,
    /// Set where the brokers want a login.
    pub sasl: Option<KafkaSasl>,
    /// How batches are compressed.
    pub compression: Compression,
    /// How long a record waits for others to share its batch.
    pub linger: Duration,
    /// Largest batch in bytes, before compression.
    pub batch_bytes: u32,
    /// Largest record in bytes that is sent at all, before compression.
    pub max_message_bytes: u32,
    /// Further settings of librdkafka; none of them weakens delivery.
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
#[derive(Debug, Clone)]
pub struct KafkaSasl {
    /// How the password is proven.
    pub mechanism: SaslMechanism,
    /// The user.
    pub username: String,
    /// The password.
    pub password: Secret,
}

/// SASL mechanisms of this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaslMechanism {
    /// The password itself; only sensible over TLS.
    Plain,
    /// Challenge and response over SHA-256.
    ScramSha256,
    /// Challenge and response over SHA-512.
    ScramSha512,
}

impl SaslMechanism {
    /// The name in the configuration, which is Kafka's.
    pub fn as_str(self) -> &'static str {
        match self {
            SaslMechanism::Plain => "PLAIN",
            SaslMechanism::ScramSha256 => "SCRAM-SHA-256",
            SaslMechanism::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

/// Compression of record batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// None.
    None,
    /// gzip.
    Gzip,
    /// Snappy.
    Snappy,
    /// LZ4.
    Lz4,
    /// Zstandard.
    Zstd,
}

impl Compression {
    /// The name in the configuration, which is librdkafka's.
    pub fn as_str(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Gzip => "gzip",
            Compression::Snappy => "snappy",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        }
    }
}

/// How to reach an AMQP 0-9-1 broker, and how messages are published to it.
#[derive(Debug, Clone)]
pub struct AmqpSpec {
    /// Nodes of one cluster, tried in turn. At least one.
    pub nodes: Vec<(String, u16)>,
    /// Virtual host.
    pub vhost: String,
    /// Set for `amqps://`.
    pub tls: Option<TlsFiles>,
    /// Who we are.
    pub login: AmqpLogin,
    /// Time allowed for TCP, TLS and login together.
    pub connect_timeout: Duration,
    /// Interval of heartbeats, in whole seconds; a silent broker is given up after twice as long.
    pub heartbeat: Duration,
    /// Messages without a confirmation on one channel.
    pub window: u32,
    /// Whether the broker returns what it cannot route; if not, it drops and confirms it.
    pub mandatory: bool,
    /// Whether messages in durable queues survive a restart of the broker.
    pub persistent: bool,
    /// Largest body in bytes that is sent at all.
    pub max_message_bytes: u64,
    /// What is declared at every connect; `None` expects everything to be there.
    pub declare: Option<AmqpTopology>,
}

impl AmqpSpec {
    /// `host:port` of each node, for messages.
    pub fn addresses(&self) -> Vec<String> {
        let address = |(host, port): &(String, u16)| match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        };
        self.nodes.iter().map(address).collect()
    }
}

/// A login to AMQP.
#[derive(Debug, Clone)]
pub enum AmqpLogin {
    /// Mechanism PLAIN.
    Plain {
        /// The user.
        username: String,
        /// The password.
        password: Secret,
    },
    /// Mechanism EXTERNAL: the client certificate says who we are.
    External,
}

/// An exchange, and what is bound to it.
#[derive(Debug, Clone, PartialEq)]
pub struct AmqpTopology {
    /// The exchange; empty is the default exchange, which cannot be declared.
    pub exchange: String,
    /// `direct`, `fanout`, `topic`, `headers`, or a plugin's.
    pub exchange_kind: String,
    /// Whether exchange and queue survive a restart of the broker.
    pub durable: bool,
    /// A queue that is declared as well.
    pub queue: Option<AmqpQueue>,
}

/// A queue that is declared and bound.
#[derive(Debug, Clone, PartialEq)]
pub struct AmqpQueue {
    /// Its name.
    pub name: String,
    /// `x-queue-type`, `x-max-length` and the like: booleans, whole numbers and texts.
    pub arguments: Vec<(String, AmqpArgument)>,
    /// Binding key to the exchange.
    pub binding_key: String,
}

/// An argument of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AmqpArgument {
    /// `true` or `false`.
    Flag(bool),
    /// A whole number.
    Number(i64),
    /// Text.
    Text(String),
}

/// One queue: where its elements come from and where they go.
#[derive(Debug, Clone)]
pub struct QueueSpec {
    /// The key under `queues:`: the metric label.
    pub id: Arc<str>,
    /// Mapped name of the Redisson queue: the key of its ready list.
    pub name: Arc<str>,
    /// Whether due elements of the sorted set are claimed.
    pub consume_delayed: bool,
    /// Whether the ready list is drained.
    pub consume_ready: bool,
    /// How payloads are decoded for templates and envelopes.
    pub codec: Codec,
    /// What happens to a payload that the codec refuses.
    pub on_decode_error: OnDecodeError,
    /// How long a claim is ours without an extension.
    pub lease: Duration,
    /// Elements in flight.
    pub max_in_flight: MaxInFlight,
    /// Bytes of elements in flight.
    pub max_in_flight_bytes: u64,
    /// How claimed elements leave Redisson's list.
    pub list_cleanup: ListCleanup,
    /// Age of the oldest ghost at which a turn of the sweep starts.
    pub ghost_max_age: Duration,
    /// Bytes per second that the sweep may move, on average.
    pub sweep_bandwidth: u64,
    /// Elements per second; `None` is unlimited.
    pub max_rate: Option<f64>,
    /// Elements later than this are expired.
    pub max_lateness: Option<Duration>,
    /// What happens to an expired element.
    pub on_expired: OnExpired,
    /// Destinations: at least one, each with a sink of its own.
    pub to: Vec<RouteSpec>,
    /// When and how often a failed element is tried again.
    pub retry: RetryPolicy,
    /// Exact length that the dead-letter stream is trimmed to; only with `allow_loss: true`.
    pub dead_letter_max_len: Option<u64>,
    /// Where dead letters are moved on to; they stay in the stream until that sink has confirmed them.
    pub dead_letter_to: Option<RouteSpec>,
}

impl QueueSpec {
    /// What of the lease is not to be used: nothing is handed to a sink that late, and every sink's time-out fits into
    /// the rest. A fifth, so that it grows with the pauses that a long lease is meant for.
    pub fn lease_margin(&self) -> Duration {
        self.lease / 5
    }
}

/// Payload codecs of this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// Bytes, not looked into.
    Raw,
    /// UTF-8 text.
    String,
    /// One JSON value.
    Json,
}

impl Codec {
    /// The name in the configuration, in metrics and in dead letters.
    pub fn as_str(self) -> &'static str {
        match self {
            Codec::Raw => "raw",
            Codec::String => "string",
            Codec::Json => "json",
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What happens to a payload that the codec refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDecodeError {
    /// Dead letter, with the bytes.
    DeadLetter,
    /// Delivered as it is; templates on the payload have no value.
    ForwardRaw,
    /// The queue is held until somebody changes the configuration or the element.
    Hold,
}

/// Bound on elements in flight of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaxInFlight {
    /// Adapts to the sink, up to 10,000.
    Auto,
    /// Fixed.
    Fixed(u32),
}

/// How claimed elements leave Redisson's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListCleanup {
    /// At the ends at once, `LREM` while it is cheap, the rest by the sweep.
    Auto,
    /// `LREM` in the claim: no ghost ever, at Redisson's price.
    Exact,
}

/// What happens to an element later than `max_lateness`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnExpired {
    /// Dead letter, reason `expired`.
    DeadLetter,
    /// Delivered all the same, and counted.
    Deliver,
}

/// One destination of a queue.
#[derive(Debug, Clone)]
pub struct RouteSpec {
    /// The sink's name.
    pub sink: Arc<str>,
    /// Where in the sink, with the templates compiled.
    pub target: TargetSpec,
    /// The user's headers.
    pub headers: Vec<(Arc<str>, Template)>,
    /// What the body is.
    pub envelope: Envelope,
}

/// Where in a sink an element goes.
#[derive(Debug, Clone)]
pub enum TargetSpec {
    /// A list.
    RedisList {
        /// Template of the key.
        key: Template,
        /// The end that is pushed to.
        push: Side,
        /// Push and settle are one script; only a static list on the source's server and slot, as the only destination.
        exactly_once: bool,
    },
    /// A stream.
    RedisStream {
        /// Template of the key.
        key: Template,
        /// Approximate length that the stream is trimmed to.
        max_len: Option<u64>,
    },
    /// A Kafka topic.
    KafkaTopic {
        /// Template of the topic.
        topic: Template,
        /// Template of the record's key.
        key: Option<Template>,
    },
    /// An AMQP exchange.
    AmqpExchange {
        /// Template of the exchange.
        exchange: Template,
        /// Template of the routing key.
        routing_key: Template,
        /// Templates of the message's properties.
        properties: Vec<(AmqpProperty, Template)>,
    },
    /// Standard output.
    Stdout,
}

impl TargetSpec {
    /// Whether the target differs from element to element.
    pub fn is_templated(&self) -> bool {
        match self {
            TargetSpec::RedisList { key, .. } | TargetSpec::RedisStream { key, .. } => !key.is_static(),
            // The key of a record chooses among the partitions of one topic.
            TargetSpec::KafkaTopic { topic, key: _ } => !topic.is_static(),
            TargetSpec::AmqpExchange { exchange, routing_key, properties: _ } => {
                !exchange.is_static() || !routing_key.is_static()
            }
            TargetSpec::Stdout => false,
        }
    }
}

/// What the body of a delivered message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Envelope {
    /// The payload's bytes exactly as they came.
    Raw,
    /// The decoded value: JSON, or a plain string as its text.
    Decoded,
    /// One JSON object with `id`, `queue`, `due_ms`, `attempt`, `payload`.
    Json,
    /// CloudEvents 1.0 in binary mode: the payload's bytes, and headers `ce_*`.
    CloudEvents,
}

/// A named retry policy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryPolicy {
    /// Counted attempts after which the element is dead.
    pub max_attempts: u32,
    /// Upper bound of the first wait.
    pub initial_interval: Duration,
    /// Upper bound of any wait.
    pub max_interval: Duration,
    /// Growth of the upper bound from one attempt to the next, at least 1.
    pub multiplier: f64,
    /// Whether waits are drawn from `0..=bound` (full) or are the bound itself (none).
    pub full_jitter: bool,
}
