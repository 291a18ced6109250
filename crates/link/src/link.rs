//! A handle on a supervised connection, and the server behind it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::conn::Conn;
use super::locator::Locator;
use super::options::LinkOptions;
use super::state::LinkState;
use super::supervisor::Supervisor;

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
    /// Starts the supervisor of a connection to a server, or to the server of a locator, which several links may share.
    /// Never fails: problems are reported by [`state`](Link::state) and retried.
    pub fn start(at: impl Into<Locator>, options: LinkOptions) -> Link {
        let locator = at.into();
        let (address, command_timeout): (Arc<str>, _) = (locator.address().into(), locator.servers().command_timeout);
        let stop = CancellationToken::new();
        let (supervisor, state, current) = Supervisor::new(locator.clone(), options, stop.clone());
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
    /// [`LinkError::Unknown`](super::LinkError::Unknown).
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

/// One server, shared by everything that is kept there.
#[derive(Debug)]
pub struct Node {
    /// The supervised connection.
    pub link: Link,
    nearly_full: AtomicBool,
}

impl Node {
    /// Wraps the link of a server.
    pub fn new(link: Link) -> Node {
        Node { link, nearly_full: false.into() }
    }

    /// Returns the connection, if there is one now.
    pub fn current(&self) -> Option<Conn> {
        self.link.current()
    }

    /// Returns whether more than 90 % of its memory was in use at the last look.
    pub fn is_nearly_full(&self) -> bool {
        self.nearly_full.load(Ordering::Relaxed)
    }

    /// Records the result of a look at its memory.
    pub fn set_nearly_full(&self, full: bool) {
        self.nearly_full.store(full, Ordering::Relaxed);
    }
}
