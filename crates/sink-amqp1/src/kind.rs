//! The kind, as the configuration knows it.

use super::target::NAME;
use super::{codes, config, target};
use delaybridge_core::codes::Codes;
use delaybridge_settings::keys::{Kind, key};
use delaybridge_sink::kind::SinkKind;

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
