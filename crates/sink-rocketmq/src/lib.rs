//! The `rocketmq` sink: messages to topics of RocketMQ 4 and 5, over its remoting protocol.
//!
//! `config` has the keys and the settings of the cluster, `login` the access key, `target` the topics as destinations, `errors` the
//! classes of failures, `codes` their cures, `wire` the protocol, `client` the sink itself.

mod client;
mod codes;
mod config;
mod errors;
mod login;
mod target;
mod wire;

pub use client::RocketMqSink;
pub use config::{RocketMqSpec, SlaveNotAvailable};
pub use login::RocketMqLogin;
pub use target::{RocketMqDestination, RocketMqTarget};

use delaybridge_core::codes::Codes;
use delaybridge_settings::keys::{Kind, key};
use delaybridge_sink::kind::SinkKind;

/// The kind in the configuration.
const NAME: &str = "rocketmq";

/// The `rocketmq` kind.
pub static KIND: SinkKind = SinkKind {
    key: key(NAME, Kind::Section(&config::sink_rocketmq::TABLE), "Topics of RocketMQ."),
    title: "RocketMQ",
    tables: config::TABLES,
    to: target::KEYS,
    dead_letter: target::KEYS,
    read: Ok(config::read),
    codes: || Codes::of(codes::TITLE, codes::TEXT, codes::CODES),
};
