//! A Redis as the configuration names it: one server, or the masters of a cluster. And the place of a key in it.
//!
//! What has a key asks its [`Place`] for a connection at every call: which server that is may have changed since.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::cluster::{Cluster, ClusterTarget};
use super::node::Node;
use super::slot::slot;
use super::{Conn, ConnectError, Link, LinkOptions, LinkState, RedisEndpoint};
use crate::clock::RedisClock;

/// A Redis. Clones share it; it ends with the last of them or at [`close`](Redis::close).
#[derive(Clone, Debug)]
pub struct Redis {
    kind: Kind,
    clock: Arc<RedisClock>,
}

#[derive(Clone, Debug)]
enum Kind {
    /// One server at a time has everything.
    One(Arc<Node>),
    /// Each slot has a server.
    Cluster(Cluster),
}

/// Where a key is kept.
#[derive(Clone, Debug)]
pub struct Place {
    at: At,
    clock: Arc<RedisClock>,
}

#[derive(Clone, Debug)]
enum At {
    One(Arc<Node>),
    Slot(Cluster, u16),
}

/// What is wrong with a Redis now.
#[derive(Debug, Clone, Default)]
pub struct Health {
    /// The servers in use that are connected, with their versions.
    pub up: Vec<(String, String)>,
    /// What is not connected, and why, once an attempt has failed.
    pub down: Vec<(String, Option<Arc<ConnectError>>)>,
}

impl Health {
    /// Whether everything in use is connected.
    pub fn is_up(&self) -> bool {
        self.down.is_empty() && !self.up.is_empty()
    }

    /// The first reason for which something is not connected.
    pub fn problem(&self) -> Option<&Arc<ConnectError>> {
        self.down.iter().find_map(|(_, problem)| problem.as_ref())
    }
}

impl Redis {
    /// One server behind a link.
    pub fn one(link: Link) -> Redis {
        Redis { kind: Kind::One(Arc::new(Node::new(link))), clock: Arc::default() }
    }

    /// Starts the connection to one server.
    pub fn start(endpoint: Arc<RedisEndpoint>, options: LinkOptions) -> Redis {
        Redis::one(Link::start(endpoint, options))
    }

    /// Starts the connections to the masters of a cluster.
    pub fn cluster(target: Arc<ClusterTarget>, options: LinkOptions) -> Redis {
        Redis { kind: Kind::Cluster(Cluster::start(target, options)), clock: Arc::default() }
    }

    /// The place of a key, and of all keys with the same hash tag.
    pub fn at(&self, key: impl AsRef<[u8]>) -> Place {
        match &self.kind {
            Kind::One(node) => Place { at: At::One(node.clone()), clock: self.clock.clone() },
            Kind::Cluster(cluster) => {
                let slot = slot(key.as_ref());
                cluster.uses(slot);
                // A clock of its own, because the slot may move to a server with another one.
                Place { at: At::Slot(cluster.clone(), slot), clock: Arc::default() }
            }
        }
    }

    /// Whether it is a cluster: keys of one command must have the same slot.
    pub fn is_cluster(&self) -> bool {
        matches!(self.kind, Kind::Cluster(_))
    }

    /// Where it is, for logs.
    pub fn address(&self) -> &str {
        match &self.kind {
            Kind::One(node) => node.link.address(),
            Kind::Cluster(cluster) => cluster.address(),
        }
    }

    /// The time after which a call gives up.
    pub fn command_timeout(&self) -> Duration {
        match &self.kind {
            Kind::One(node) => node.link.command_timeout(),
            Kind::Cluster(cluster) => cluster.command_timeout(),
        }
    }

    /// The servers in use.
    pub fn nodes(&self) -> Vec<Arc<Node>> {
        match &self.kind {
            Kind::One(node) => vec![node.clone()],
            Kind::Cluster(cluster) => cluster.nodes(),
        }
    }

    /// Every server that has keys, in use or not; each gets a connection. Before the map of a cluster is known there is none.
    pub fn masters(&self) -> Vec<Arc<Node>> {
        match &self.kind {
            Kind::One(node) => vec![node.clone()],
            Kind::Cluster(cluster) => cluster.masters(),
        }
    }

    /// What is connected now and what is not.
    pub fn health(&self) -> Health {
        let mut health = Health::default();
        if let Kind::Cluster(cluster) = &self.kind
            && let Some(problem) = cluster.problem()
        {
            health.down.push((cluster.address().to_owned(), problem));
        }
        for node in self.nodes() {
            let address = node.link.address().to_owned();
            match &*node.link.state().borrow() {
                LinkState::Up { info, .. } => health.up.push((address, info.version.to_string())),
                LinkState::Connecting { last_error, .. } => health.down.push((address, last_error.clone())),
            }
        }
        health
    }

    /// Changes of what is connected, and of which server has what. Waits cancel safely.
    pub fn changes(&self) -> Changes {
        match &self.kind {
            Kind::One(node) => Changes::One(node.link.state()),
            Kind::Cluster(cluster) => Changes::Cluster(cluster.changes()),
        }
    }

    /// Waits until it cannot be used any more, by [`close`](Redis::close) or by a panic. Cancel safe.
    pub async fn ended(&self) {
        match &self.kind {
            Kind::One(node) => node.link.ended().await,
            Kind::Cluster(cluster) => cluster.ended().await,
        }
    }

    /// Closes all connections. Outstanding calls end with [`LinkError::Unknown`](super::LinkError::Unknown).
    pub async fn close(&self) {
        match &self.kind {
            Kind::One(node) => node.link.close().await,
            Kind::Cluster(cluster) => cluster.close().await,
        }
    }
}

/// Tells when something has changed.
#[derive(Debug)]
pub enum Changes {
    /// The state of the one connection.
    One(watch::Receiver<LinkState>),
    /// A number that grows.
    Cluster(watch::Receiver<u64>),
}

impl Changes {
    /// Waits for the next change; false when there will be none. Cancel safe.
    pub async fn next(&mut self) -> bool {
        match self {
            Changes::One(state) => state.changed().await.is_ok(),
            Changes::Cluster(number) => number.changed().await.is_ok(),
        }
    }

    /// Takes what has changed until now as seen.
    pub fn seen(&mut self) {
        match self {
            Changes::One(state) => drop(state.borrow_and_update()),
            Changes::Cluster(number) => drop(number.borrow_and_update()),
        }
    }
}

impl Place {
    /// The connection to the server that has the place now, if there is one. In a cluster it follows a slot that has moved.
    pub fn current(&self) -> Option<Conn> {
        match &self.at {
            At::One(node) => node.current(),
            At::Slot(cluster, slot) => cluster.conn(*slot),
        }
    }

    /// The server that has the place now, if that is known.
    pub fn node(&self) -> Option<Arc<Node>> {
        match &self.at {
            At::One(node) => Some(node.clone()),
            At::Slot(cluster, slot) => cluster.node(*slot),
        }
    }

    /// Waits until there is a connection. Cancel safe.
    pub async fn ready(&self) -> Conn {
        match &self.at {
            At::One(node) => node.link.ready().await,
            At::Slot(cluster, slot) => cluster.ready(*slot).await,
        }
    }

    /// Where it is, for errors.
    pub fn address(&self) -> Arc<str> {
        match &self.at {
            At::One(node) => node.link.address().into(),
            At::Slot(cluster, slot) => match cluster.node(*slot) {
                Some(node) => node.link.address().into(),
                None => cluster.address().into(),
            },
        }
    }

    /// The time after which a call gives up.
    pub fn command_timeout(&self) -> Duration {
        match &self.at {
            At::One(node) => node.link.command_timeout(),
            At::Slot(cluster, _) => cluster.command_timeout(),
        }
    }

    /// What is known of the clock of its server.
    pub fn clock(&self) -> &RedisClock {
        &self.clock
    }

    /// Whether the memory of its server is nearly used up.
    pub fn is_nearly_full(&self) -> bool {
        match &self.at {
            At::One(node) => node.is_nearly_full(),
            At::Slot(cluster, slot) => cluster.node(*slot).is_some_and(|node| node.is_nearly_full()),
        }
    }
}
