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

pub use config::{KafkaCompression, KafkaSpec, KafkaTls};
pub use login::{KafkaLogin, KafkaSasl, MskIamSpec, OidcSpec, SaslMechanism, TokenSpec, TokenUrl};
pub use target::{KafkaDestination, KafkaTarget};

pub use client::KafkaSink;
pub use input::KIND as INPUT_KIND;

use delaybridge_core::codes::Codes;
use delaybridge_settings::keys::{Kind, key};
use delaybridge_sink::kind::SinkKind;

/// The kind in the configuration.
const NAME: &str = "kafka";

/// The `kafka` kind.
pub static KIND: SinkKind = SinkKind {
    key: key(NAME, Kind::Section(&config::sink_kafka::TABLE), "Kafka topics."),
    title: "Kafka",
    tables: config::TABLES,
    to: target::KEYS,
    dead_letter: target::KEYS,
    read: Ok(config::read),
    codes,
};

/// Brokers and librdkafka have their codes in the table of `errors`; the rest is ours.
fn codes() -> Codes {
    let text = "Codes of the brokers and of librdkafka, spelt as they spell them. A record that may be in the log all the \
                same is `ambiguous`, with any code.";
    let list = errors::CODES.iter().cloned().chain(errors::documented()).collect::<Vec<_>>().into();
    Codes { title: "Kafka", text, list }
}
