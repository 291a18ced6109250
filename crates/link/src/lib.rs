//! The supervised connections to Redis, for sources and Redis sinks.
//!
//! A [`Redis`] is an entry of the configuration: one server at a time behind one [`Link`], or the masters of a cluster,
//! each behind a link of its own. A user of a key asks its [`Place`] for a connection.
//!
//! The client library's own reconnecting wrapper is not used: it gives up after a few attempts and keeps a silent peer.
//! Here one task for each server connects, asks for the server's information, checks the connection by a heartbeat and
//! replaces it when anything is wrong; see `supervisor.rs`. Callers see a [`Conn`], whose calls end quickly when it is
//! replaced, and a [`LinkError`], which says whether the command may have run.
//!
//! It does not depend on queues, entries, sinks or metrics. It repeats nothing by itself, except a script that the
//! server refused because it did not have it.

mod address;
mod asking;
mod cluster;
pub mod codes;
pub mod config;
mod conn;
mod connect;
mod durable;
mod endpoint;
mod error;
mod gate;
mod info;
mod key_space;
mod large;
mod link;
mod locator;
mod options;
mod refusal;
mod replies;
mod reply;
pub mod rights;
mod score;
mod script;
mod sentinel;
mod server;
mod slot;
mod state;
mod subscriber;
mod supervisor;
mod target;
mod topology;
mod url;
mod wait;
mod words;

#[cfg(test)]
mod fuzz;
#[cfg(any(test, feature = "testing"))]
mod test_ports;
#[cfg(any(test, feature = "testing"))]
pub mod test_server;
#[cfg(test)]
mod tests;

pub use address::Address;
pub use conn::Conn;
pub use durable::{Durability, Durable, DurableRedis, Shortfall};
pub use endpoint::{RedisEndpoint, Side};
pub use error::{ConnectError, ConnectErrorKind, LinkError, NoAnswer};
pub use info::{History, Memory, Role, ServerInfo, Version};
pub use key_space::{BadPrefix, KeyPrefix, KeySpace};
pub use large::{Argument, LargeArgs};
pub use link::{Link, Node};
pub use locator::Locator;
pub use options::LinkOptions;
pub use reply::{BadReply, Fields};
pub use rights::{missing_rights, whoami};
pub use score::Score;
pub use script::{Clock, Script, TEST_CLOCK};
pub use server::{Replication, Storage, listeners, nearly_full, replication, storage};
pub use slot::{hashed, slot};
pub use state::LinkState;
pub use subscriber::{Subscriber, SubscriberEvent, SubscriberState};
pub use target::{ClusterTarget, RedisTarget, SentinelTarget};
pub use topology::{Changes, Health, Place, Redis, UNNAMED};
pub use words::server_code;
