//! The kind, as the configuration knows it.

use super::target::NAME;
use super::{config, errors, target};
use delaybridge_settings::keys::{Kind, key};
use delaybridge_sink::kind::SinkKind;

/// The `kafka` kind.
pub static KIND: SinkKind = SinkKind {
    key: key(NAME, Kind::Section(&config::sink_kafka::TABLE), "Kafka topics."),
    title: "Kafka",
    tables: config::TABLES,
    to: target::KEYS,
    dead_letter: target::KEYS,
    read: Ok(config::read),
    codes: errors::codes,
};
