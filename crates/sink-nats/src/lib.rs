//! The `nats` sink: messages in the streams of NATS JetStream.
//!
//! `config` has the keys and the settings of the cluster, `login` the ways to log in, `target` the subjects as destinations,
//! `errors` the classes of failures, `codes` their cures, `client` the sink itself, which speaks the protocol.

mod client;
mod codes;
mod config;
mod errors;
mod login;
mod target;

pub use config::NatsSpec;
pub use login::NatsLogin;
pub use target::{NatsDestination, NatsTarget};

pub use client::NatsSink;

use delaybridge_core::codes::Codes;
use delaybridge_settings::keys::{Kind, key};
use delaybridge_sink::kind::SinkKind;

/// The kind in the configuration.
const NAME: &str = "nats";

/// The `nats` kind.
pub static KIND: SinkKind = SinkKind {
    key: key(NAME, Kind::Section(&config::sink_nats::TABLE), "Streams of NATS JetStream."),
    title: "NATS",
    tables: config::TABLES,
    to: target::KEYS,
    dead_letter: target::KEYS,
    read: Ok(config::read),
    codes: || Codes::of(codes::TITLE, codes::TEXT, codes::CODES),
};
