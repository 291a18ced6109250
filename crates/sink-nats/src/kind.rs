//! The kind, as the configuration knows it.

use super::target::NAME;
use super::{codes, config, target};
use delaybridge_core::codes::Codes;
use delaybridge_settings::keys::{Kind, key};
use delaybridge_sink::kind::SinkKind;

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
