//! The `kafka` sink: records in the topics of a Kafka cluster.
//!
//! `config` has the keys and the settings of the cluster, `login` those of a login, `target` the topics as destinations, `errors` the
//! classes of failures, `tokens` what a login by tokens asks a provider for, `client` the sink itself, on librdkafka. `input` consumes topics of the
//! same kind of cluster: it shares its keys, the login and the codes.

mod client;
mod config;
mod errors;
mod input;
mod login;
mod properties;
mod target;
mod tokens;

pub use config::{KIND, KafkaCompression, KafkaSpec, KafkaTls};
pub use login::{KafkaLogin, KafkaSasl, MskIamSpec, OidcSpec, SaslMechanism, TokenSpec, TokenUrl};
pub use target::{KafkaDestination, KafkaTarget};

pub use client::KafkaSink;
pub use input::KIND as INPUT_KIND;

pub(crate) use target::NAME;
