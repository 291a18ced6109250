//! The `amqp1` sink: messages to addresses of a broker that speaks AMQP 1.0.
//!
//! `config` has the keys and the settings of the broker, `login` the ways to log in, `target` the addresses as destinations,
//! `errors` the classes of failures, `codes` their cures, `client` the sink itself, which speaks the protocol.

mod client;
mod codes;
mod config;
mod errors;
mod login;
mod target;

pub use client::Amqp1Sink;
pub use config::Amqp1Spec;
pub use login::Amqp1Login;
pub use target::{Amqp1Destination, Amqp1Target};

use delaybridge_core::codes::Codes;
use delaybridge_settings::keys::{Kind, key};
use delaybridge_sink::kind::SinkKind;

/// The kind in the configuration.
const NAME: &str = "amqp1";

/// The `amqp1` kind.
pub static KIND: SinkKind = SinkKind {
    key: key(NAME, Kind::Section(&config::sink_amqp1::TABLE), "Addresses of a broker that speaks AMQP 1.0."),
    title: "AMQP 1.0",
    tables: config::TABLES,
    to: target::KEYS,
    dead_letter: target::KEYS,
    read: Ok(config::read),
    codes: || Codes::of(codes::TITLE, codes::TEXT, codes::CODES),
};
