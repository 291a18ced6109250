//! The current address of a server.
//!
//! A supervisor asks its locator before each attempt to connect, and is told by it when a connection must be closed at
//! once. The locator knows addresses only: whether a server is a master is checked on the connection itself.

mod sentinel;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::watch;

pub(super) use self::sentinel::CHANNELS as SENTINEL_CHANNELS;
use self::sentinel::Sentinels;
use super::cluster::Cluster;
use super::endpoint::RedisEndpoint;
use super::error::{ConnectError, ConnectErrorKind};
use super::options::LinkOptions;
use super::target::RedisTarget;

/// The way to find a server. Clones share their knowledge, and the connections through which it is updated.
#[derive(Clone, Debug)]
pub enum Locator {
    /// The address in the configuration.
    Fixed(Arc<RedisEndpoint>),
    /// The master that sentinels name.
    Sentinel(Arc<Sentinels>),
    /// Any node of a cluster.
    AnyNode(Cluster),
}

impl Locator {
    /// Creates the locator of a Redis; for sentinels it starts to subscribe to them.
    pub fn start(target: &RedisTarget) -> Locator {
        match target {
            RedisTarget::Fixed(endpoint) => Locator::Fixed(endpoint.clone()),
            RedisTarget::Sentinel(target) => Locator::Sentinel(Sentinels::start(target.clone())),
            RedisTarget::Cluster(target) => Locator::AnyNode(Cluster::start(target.clone(), LinkOptions::default())),
        }
    }

    /// Returns the address for people: `host:port/db`, or the name of the master.
    pub(super) fn address(&self) -> String {
        match self {
            Locator::Fixed(endpoint) => endpoint.address(),
            Locator::Sentinel(sentinels) => sentinels.target().address(),
            Locator::AnyNode(cluster) => cluster.address().to_owned(),
        }
    }

    /// Returns the settings that all its servers have in common; host and port are unused.
    pub(super) fn servers(&self) -> &RedisEndpoint {
        match self {
            Locator::Fixed(endpoint) => endpoint,
            Locator::Sentinel(sentinels) => &sentinels.target().servers,
            Locator::AnyNode(cluster) => cluster.servers(),
        }
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
        for server in self.locate().await? {
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

    /// Finds the possible servers, the most likely first; at least one.
    ///
    /// # Errors
    ///
    /// Returns the reason if no server is known.
    async fn locate(&self) -> Result<Vec<Arc<RedisEndpoint>>, ConnectError> {
        match self {
            Locator::Fixed(endpoint) => Ok(vec![endpoint.clone()]),
            Locator::Sentinel(sentinels) => sentinels.locate().await,
            Locator::AnyNode(cluster) => Ok(cluster.any()),
        }
    }

    /// Waits until a connection to this server must be closed at once, because another one is the master. Cancel safe.
    pub(super) async fn left(&self, server: &RedisEndpoint) {
        match self {
            Locator::Fixed(_) => std::future::pending().await,
            Locator::Sentinel(sentinels) => sentinels.left(server).await,
            Locator::AnyNode(cluster) => cluster.left(server).await,
        }
    }

    /// Subscribes to changes from now on.
    pub(super) fn news(&self) -> News {
        match self {
            Locator::Fixed(_) => News(None),
            Locator::Sentinel(sentinels) => News(Some(sentinels.news())),
            Locator::AnyNode(_) => News(None),
        }
    }
}

impl From<Arc<RedisEndpoint>> for Locator {
    fn from(endpoint: Arc<RedisEndpoint>) -> Self {
        Locator::Fixed(endpoint)
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
