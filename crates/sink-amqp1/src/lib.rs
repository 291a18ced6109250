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
pub use config::{Amqp1Spec, KIND};
pub use login::Amqp1Login;
pub use target::{Amqp1Destination, Amqp1Target};

pub(crate) use target::NAME;
