//! Where the server is that a connection leads to, now.
//!
//! A supervisor asks its locator before each attempt, and hears from it when a connection has to be left at once. The
//! locator knows addresses only: whether a server is a master is seen at the connection itself.

mod sentinel;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::watch;

pub(super) use self::sentinel::CHANNELS as SENTINEL_CHANNELS;
use self::sentinel::Sentinels;
use super::LinkOptions;
use super::cluster::Cluster;
use super::endpoint::RedisEndpoint;
use super::error::{ConnectError, ConnectErrorKind};
use super::target::RedisTarget;

/// What finds the server. Clones share what they know, and the connections by which they learn it.
#[derive(Clone, Debug)]
pub enum Locator {
    /// The configuration names the address.
    Fixed(Arc<RedisEndpoint>),
    /// Sentinels know it.
    Sentinel(Arc<Sentinels>),
    /// Any node of a cluster does.
    AnyNode(Cluster),
}

impl Locator {
    /// What finds this Redis; for sentinels it begins to listen to them.
    pub fn start(target: &RedisTarget) -> Locator {
        match target {
            RedisTarget::Fixed(endpoint) => Locator::Fixed(endpoint.clone()),
            RedisTarget::Sentinel(target) => Locator::Sentinel(Sentinels::start(target.clone())),
            RedisTarget::Cluster(target) => Locator::AnyNode(Cluster::start(target.clone(), LinkOptions::default())),
        }
    }

    /// What is meant, for a person: `host:port/db`, or the name of the master.
    pub(super) fn address(&self) -> String {
        match self {
            Locator::Fixed(endpoint) => endpoint.address(),
            Locator::Sentinel(sentinels) => sentinels.target().address(),
            Locator::AnyNode(cluster) => cluster.address().to_owned(),
        }
    }

    /// What all servers that it may lead to have in common; host and port mean nothing.
    pub(super) fn servers(&self) -> &RedisEndpoint {
        match self {
            Locator::Fixed(endpoint) => endpoint,
            Locator::Sentinel(sentinels) => &sentinels.target().servers,
            Locator::AnyNode(cluster) => cluster.servers(),
        }
    }

    /// Tries the servers that it may be now, one after the other.
    ///
    /// # Errors
    ///
    /// When none can be named, or why the most likely one does not do.
    pub(super) async fn first<'a, T>(
        &self,
        connect: impl Fn(Arc<RedisEndpoint>) -> BoxFuture<'a, Result<T, ConnectError>>,
    ) -> Result<(Arc<RedisEndpoint>, T), ConnectError> {
        let error = |kind, address, message: &str| ConnectError { kind, address, message: message.to_owned() };
        let mut first_error = None;
        for server in self.locate().await? {
            // A master that is gone may keep a connection waiting for long. Either may be left at any time.
            let attempt = tokio::select! {
                attempt = connect(server.clone()) => attempt,
                () = self.left(&server) => {
                    Err(error(ConnectErrorKind::Replica, server.address(), "another server is the master now"))
                }
            };
            match attempt {
                Ok(connected) => return Ok((server, connected)),
                Err(error) => drop(first_error.get_or_insert(error)),
            }
        }
        Err(first_error.unwrap_or_else(|| error(ConnectErrorKind::Server, self.address(), "no server is named")))
    }

    /// The servers to try now, the most likely first: at least one.
    ///
    /// # Errors
    ///
    /// When none can be named, and why.
    async fn locate(&self) -> Result<Vec<Arc<RedisEndpoint>>, ConnectError> {
        match self {
            Locator::Fixed(endpoint) => Ok(vec![endpoint.clone()]),
            Locator::Sentinel(sentinels) => sentinels.locate().await,
            Locator::AnyNode(cluster) => Ok(cluster.any()),
        }
    }

    /// Waits until a connection to this server has to be left at once, because another one is the master. Cancel safe.
    pub(super) async fn left(&self, server: &RedisEndpoint) {
        match self {
            Locator::Fixed(_) => std::future::pending().await,
            Locator::Sentinel(sentinels) => sentinels.left(server).await,
            Locator::AnyNode(cluster) => cluster.left(server).await,
        }
    }

    /// What there is to hear from now on.
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

/// Changes of what a locator knows: a reason to try again before a wait is over.
#[derive(Debug)]
pub(super) struct News(Option<watch::Receiver<u64>>);

impl News {
    /// Waits for a change since the last one, or since this was made. Cancel safe.
    pub(super) async fn next(&mut self) {
        let Some(changes) = &mut self.0 else { return std::future::pending().await };
        if changes.changed().await.is_err() {
            std::future::pending().await
        }
    }
}
