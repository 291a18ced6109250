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

pub use config::{AmqpLogin, AmqpSpec, KIND};
pub use declare::{AmqpArgument, AmqpQueue, AmqpTopology};
pub use target::{AmqpDestination, AmqpProperty, AmqpTarget};

pub use client::AmqpSink;
pub use input::KIND as INPUT_KIND;

pub(crate) use target::NAME;
