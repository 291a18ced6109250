//! The `amqp` sink: messages to exchanges of an AMQP 0-9-1 broker (RabbitMQ).
//!
//! `config` has the keys and the settings of the cluster, `declare` the declarations, `target` the exchanges as
//! destinations, `errors` the classes of failures, `codes` their cures, `client` the sink itself, on lapin. `input` consumes a
//! queue of the same kind of broker: it shares the keys of the broker, the connection and its supervision. `wire` is below
//! lapin: it replaces what lapin cannot read.

mod client;
mod codes;
mod config;
mod declare;
mod errors;
mod input;
mod target;
mod url;
mod wire;

pub use config::{AmqpLogin, AmqpSpec};
pub use declare::{AmqpArgument, AmqpQueue, AmqpTopology};
pub use target::{AmqpDestination, AmqpProperty, AmqpTarget};

pub use client::AmqpSink;
pub use input::KIND as INPUT_KIND;

use delaybridge_core::codes::Codes;
use delaybridge_settings::keys::{Kind, Table, key};
use delaybridge_sink::kind::SinkKind;

/// The kind in the configuration.
const NAME: &str = "amqp";

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
