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

pub use config::{KIND, NatsSpec};
pub use login::NatsLogin;
pub use target::{NatsDestination, NatsTarget};

pub use client::NatsSink;

pub(crate) use target::NAME;
