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
pub use config::{KIND, RocketMqSpec, SlaveNotAvailable};
pub use login::RocketMqLogin;
pub use target::{RocketMqDestination, RocketMqTarget};

pub(crate) use target::NAME;
