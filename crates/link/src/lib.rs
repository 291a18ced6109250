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
mod listeners;
mod locator;
mod node;
mod refusal;
mod replication;
mod replies;
mod reply;
pub mod rights;
mod score;
mod script;
mod slot;
mod storage;
mod subscriber;
mod supervisor;
mod target;
mod topology;
mod url;
mod words;

#[cfg(test)]
mod fuzz;
#[cfg(any(test, feature = "testing"))]
mod test_ports;
#[cfg(any(test, feature = "testing"))]
pub mod test_server;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use delaybridge_core::clock::Instant;
use delaybridge_dial::ReadBudget;

pub use cluster::{Address, ClusterTarget};
pub use conn::Conn;
pub use durable::{Durability, Durable, DurableRedis, Shortfall};
pub use endpoint::{RedisEndpoint, Side};
pub use error::{ConnectError, ConnectErrorKind, LinkError, NoAnswer};
pub use info::{History, Memory, Role, ServerInfo, Version};
pub use key_space::{BadPrefix, KeyPrefix, KeySpace};
pub use listeners::listeners;
pub use locator::Locator;
pub use node::Node;
pub use replication::{Replication, replication};
pub use reply::{BadReply, Fields};
pub use rights::{missing_rights, whoami};
pub use score::Score;
pub use script::{Clock, Script, TEST_CLOCK};
pub use slot::{hashed, slot};
pub use storage::{Storage, storage};
pub use subscriber::{Subscriber, SubscriberEvent, SubscriberState};
pub use target::{RedisTarget, SentinelTarget};
pub use topology::{Changes, Health, Place, Redis, UNNAMED};
pub use words::server_code;

/// The options of a link.
#[derive(Debug, Clone)]
pub struct LinkOptions {
    /// The name that `CLIENT LIST` shows.
    pub client_name: String,
    /// Scripts that are loaded at every connect, so that a pipeline of `EVALSHA`s finds them.
    pub scripts: Vec<Script>,
    /// Interval between two heartbeats of an idle connection.
    pub heartbeat: Duration,
    /// Whether no reply has elements in it, as those of a server that only confirms: larger ones end the connection.
    pub small_replies: bool,
    /// The budget of all connections that are made with these options, while replies are small.
    pub reads: Arc<ReadBudget>,
}

impl Default for LinkOptions {
    fn default() -> Self {
        LinkOptions {
            client_name: "delaybridge".to_owned(),
            scripts: Vec::new(),
            heartbeat: Duration::from_secs(1),
            small_replies: false,
            reads: ReadBudget::new(ReadBudget::ANSWERS),
        }
    }
}

/// The state of a link.
#[derive(Debug, Clone)]
pub enum LinkState {
    /// There is no connection; the supervisor is trying.
    Connecting {
        /// The start of the outage.
        since: Instant,
        /// The error of the last attempt; `None` until the first attempt of this outage has failed.
        last_error: Option<Arc<ConnectError>>,
    },
    /// Connected to a server that passed the checks.
    Up {
        /// Number of this connection on its link, starting at 1.
        epoch: u64,
        /// `host:port/db` of the server.
        address: Arc<str>,
        /// The server's information at connect.
        info: Arc<ServerInfo>,
    },
}

impl LinkState {
    /// Returns whether commands can be sent.
    pub fn is_up(&self) -> bool {
        matches!(self, LinkState::Up { .. })
    }
}

/// A handle on a supervised connection; clones share it. The supervisor ends with the last clone or at
/// [`close`](Link::close).
#[derive(Clone, Debug)]
pub struct Link {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    locator: Locator,
    address: Arc<str>,
    command_timeout: Duration,
    state: watch::Receiver<LinkState>,
    current: watch::Receiver<Option<Conn>>,
    stop: CancellationToken,
    /// Ends the supervisor when the last clone is dropped.
    _stop_on_drop: DropGuard,
    supervisor: Mutex<Option<JoinHandle<()>>>,
}

impl Link {
    /// Starts the supervisor of a connection to `target`. Never fails: problems are reported by [`state`](Link::state)
    /// and retried.
    pub fn start(target: impl Into<RedisTarget>, options: LinkOptions) -> Link {
        Link::at(Locator::start(&target.into()), options)
    }

    /// Starts a link to the server of `locator`, which several links may share.
    pub fn at(locator: Locator, options: LinkOptions) -> Link {
        let (address, command_timeout): (Arc<str>, _) = (locator.address().into(), locator.servers().command_timeout);
        let stop = CancellationToken::new();
        let (supervisor, state, current) = supervisor::Supervisor::new(locator.clone(), options, stop.clone());
        let task = tokio::spawn(supervisor.run());
        Link {
            shared: Arc::new(Shared {
                locator,
                address,
                command_timeout,
                state,
                current,
                _stop_on_drop: stop.clone().drop_guard(),
                stop,
                supervisor: Mutex::new(Some(task)),
            }),
        }
    }

    /// Returns the address in the configuration: `host:port/db`, or `sentinel:master/db`.
    pub fn address(&self) -> &str {
        &self.shared.address
    }

    /// Returns the locator of the server, for other connections to it.
    pub fn locator(&self) -> Locator {
        self.shared.locator.clone()
    }

    /// Returns the time-out of a call.
    pub fn command_timeout(&self) -> Duration {
        self.shared.command_timeout
    }

    /// Returns the connection, if there is one now.
    pub fn current(&self) -> Option<Conn> {
        self.shared.current.borrow().clone().filter(Conn::is_alive)
    }

    /// Waits until there is a connection. Cancel safe. Never returns after [`close`](Link::close).
    pub async fn ready(&self) -> Conn {
        let mut current = self.shared.current.clone();
        loop {
            // Marked as seen before the look, so that a change in between ends the wait below at once.
            let conn = current.borrow_and_update().clone();
            if let Some(conn) = conn.filter(Conn::is_alive) {
                return conn;
            }
            if current.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Returns a receiver of the state and its changes.
    pub fn state(&self) -> watch::Receiver<LinkState> {
        self.shared.state.clone()
    }

    /// Waits until the supervisor has ended, by [`close`](Link::close) or by a panic. Cancel safe.
    pub async fn ended(&self) {
        let mut state = self.shared.state.clone();
        // The supervisor owns the sender, so it is dropped however the supervisor ends.
        while state.changed().await.is_ok() {}
    }

    /// Closes the connection and waits for the end of the supervisor. Outstanding calls end with
    /// [`LinkError::Unknown`].
    pub async fn close(&self) {
        self.shared.stop.cancel();
        let task = self.shared.supervisor.lock().take();
        match task {
            // A panic of the supervisor is already visible to the callers of `ended`.
            Some(task) => drop(task.await),
            None => self.ended().await,
        }
    }
}
