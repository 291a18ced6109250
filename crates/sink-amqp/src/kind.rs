//! The kind, as the configuration knows it.

use super::target::NAME;
use super::{codes, config, declare, target};
use delaybridge_core::codes::Codes;
use delaybridge_settings::keys::{Kind, Table, key};
use delaybridge_sink::kind::SinkKind;

/// The `amqp` kind.
pub static KIND: SinkKind = SinkKind {
    key: key(NAME, Kind::Section(&config::sink_amqp::TABLE), "AMQP 0-9-1 exchanges (RabbitMQ)."),
    title: "AMQP",
    tables: TABLES,
    to: target::KEYS,
    dead_letter: target::DEAD_LETTER_KEYS,
    read: Ok(config::read),
    codes: || Codes::of(codes::TITLE, codes::TEXT, codes::CODES),
};

static TABLES: &[&Table] = &[
    &config::sink_amqp::TABLE,
    &declare::amqp_declare::TABLE,
    &declare::amqp_queue::TABLE,
    &target::amqp_properties::TABLE,
];
