//! Servers and sinks: how to reach them, and how they are used.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;

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
