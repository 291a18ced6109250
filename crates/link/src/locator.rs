//! The current address of a server.
//!
//! A supervisor asks its locator before each attempt to connect, and is told by it when a connection must be closed at
//! once. The locator knows addresses only: whether a server is a master is checked on the connection itself.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::watch;

use super::endpoint::RedisEndpoint;
use super::error::{ConnectError, ConnectErrorKind};

/// The knowledge of where a server is.
pub(super) trait Locate: fmt::Debug + Send + Sync {
    /// Returns the address for people: `host:port/db`, or the name of the master.
    fn address(&self) -> String;

    /// Returns the settings that all its servers have in common; host and port are unused.
    fn servers(&self) -> &RedisEndpoint;

    /// Finds the possible servers, the most likely first; at least one.
    ///
    /// # Errors
    ///
    /// Returns the reason if no server is known.
    fn locate(&self) -> BoxFuture<'_, Result<Vec<Arc<RedisEndpoint>>, ConnectError>>;

    /// Waits until a connection to this server must be closed at once, because another one is the master. Cancel safe.
    fn left<'a>(&'a self, server: &'a RedisEndpoint) -> BoxFuture<'a, ()>;

    /// Subscribes to the changes that are a reason to look again; `None` if no change is ever announced.
    fn changes(&self) -> Option<watch::Receiver<u64>>;
}

/// The address in the configuration, which never changes.
impl Locate for RedisEndpoint {
    fn address(&self) -> String {
        RedisEndpoint::address(self)
    }

    fn servers(&self) -> &RedisEndpoint {
        self
    }

    fn locate(&self) -> BoxFuture<'_, Result<Vec<Arc<RedisEndpoint>>, ConnectError>> {
        Box::pin(async { Ok(vec![Arc::new(self.clone())]) })
    }

    fn left<'a>(&'a self, _server: &'a RedisEndpoint) -> BoxFuture<'a, ()> {
        Box::pin(std::future::pending())
    }

    fn changes(&self) -> Option<watch::Receiver<u64>> {
        None
    }
}

/// The way to find a server: its address, the master that sentinels name, or any node of a cluster. Clones share their
/// knowledge, and the connections through which it is updated.
#[derive(Clone, Debug)]
pub struct Locator(Arc<dyn Locate>);

impl Locator {
    pub(super) fn new(locate: Arc<dyn Locate>) -> Locator {
        Locator(locate)
    }

    /// Returns the address for people; see [`Locate::address`].
    pub(super) fn address(&self) -> String {
        self.0.address()
    }

    /// Returns the settings that all its servers have in common; host and port are unused.
    pub(super) fn servers(&self) -> &RedisEndpoint {
        self.0.servers()
    }

    /// Tries the possible servers one after the other.
    ///
    /// # Errors
    ///
    /// Returns an error if no server is known, or the error of the most likely one.
    pub(super) async fn first<'a, T>(
        &self,
        connect: impl Fn(Arc<RedisEndpoint>) -> BoxFuture<'a, Result<T, ConnectError>>,
    ) -> Result<(Arc<RedisEndpoint>, T), ConnectError> {
        let error = |kind, address, message: &str| ConnectError { kind, address, message: message.to_owned() };
        let mut first_error = None;
        for server in self.0.locate().await? {
            // A master that is unreachable may keep a connection waiting for long. Both branches can be dropped at any
            // time.
            let attempt = tokio::select! {
                attempt = connect(server.clone()) => attempt,
                () = self.left(&server) => {
                    Err(error(ConnectErrorKind::Replica, server.address(), "another server is the master now"))
                }
            };
            match attempt {
                Ok(connected) => return Ok((server, connected)),
                Err(error) => {
                    let _ = first_error.get_or_insert(error);
                }
            }
        }
        Err(first_error.unwrap_or_else(|| error(ConnectErrorKind::Server, self.address(), "no server is named")))
    }

    /// Waits until a connection to this server must be closed at once; see [`Locate::left`]. Cancel safe.
    pub(super) async fn left(&self, server: &RedisEndpoint) {
        self.0.left(server).await;
    }

    /// Subscribes to changes from now on.
    pub(super) fn news(&self) -> News {
        News(self.0.changes())
    }
}

impl From<Arc<RedisEndpoint>> for Locator {
    fn from(endpoint: Arc<RedisEndpoint>) -> Self {
        Locator(endpoint)
    }
}

/// The changes of a locator's knowledge: a reason to retry before a wait is over.
#[derive(Debug)]
pub(super) struct News(Option<watch::Receiver<u64>>);

impl News {
    /// Waits for a change since the last one, or since the creation. Cancel safe.
    pub(super) async fn next(&mut self) {
        let Some(changes) = &mut self.0 else { return std::future::pending().await };
        if changes.changed().await.is_err() {
            std::future::pending().await
        }
    }
}
