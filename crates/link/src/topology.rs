//! A Redis of the configuration: one server, or the masters of a cluster; and the location of a key in it.
//!
//! The user of a key asks its [`Place`] for a connection at every call, because the key may have moved to another
//! server.
//!
//! A queue knows its Redis, the process does not. A Redis that does not answer keeps nothing that queues in another Redis
//! need.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::cluster::Cluster;
use super::conn::Conn;
use super::error::ConnectError;
use super::info::History;
use super::key_space::KeySpace;
use super::link::{Link, Node};
use super::locator::Locator;
use super::options::LinkOptions;
use super::sentinel::Sentinels;
use super::slot::slot;
use super::state::LinkState;
use super::target::RedisTarget;
use delaybridge_core::clock::RedisClock;

/// The name of a Redis without a name in the configuration.
pub const UNNAMED: &str = "default";

/// A Redis. Clones share it; it ends with the last of them or at [`close`](Redis::close).
#[derive(Clone, Debug)]
pub struct Redis {
    /// The name in the configuration, for metrics and probes.
    name: Arc<str>,
    space: KeySpace,
    kind: Kind,
    /// In a cluster, the clock of the server that answered last; the clocks of its servers should agree.
    clock: Arc<RedisClock>,
}

#[derive(Clone, Debug)]
enum Kind {
    /// One server at a time that holds all keys.
    One(Arc<Node>),
    /// A server for each slot.
    Cluster(Cluster),
}

/// The location of a key, which yields connections to its current server.
#[derive(Clone, Debug)]
pub struct Place {
    at: At,
    clock: Arc<RedisClock>,
    /// The clock of the whole cluster.
    shared: Option<Arc<RedisClock>>,
}

#[derive(Clone, Debug)]
enum At {
    One(Arc<Node>),
    Slot(Cluster, u16),
}

/// The health of the connections to a Redis.
#[derive(Debug, Clone, Default)]
pub struct Health {
    /// The connected servers in use, with their versions.
    pub up: Vec<(String, String)>,
    /// The unconnected servers, each with the reason once an attempt has failed.
    pub down: Vec<(String, Option<Arc<ConnectError>>)>,
}

impl Health {
    /// Returns whether all servers in use are connected.
    pub fn is_up(&self) -> bool {
        self.down.is_empty() && !self.up.is_empty()
    }

    /// Returns the first reason why a server is not connected.
    pub fn problem(&self) -> Option<&Arc<ConnectError>> {
        self.down.iter().find_map(|(_, problem)| problem.as_ref())
    }
}

impl Redis {
    /// Creates a Redis of one server.
    pub fn one(link: Link) -> Redis {
        Redis {
            name: UNNAMED.into(),
            space: KeySpace::default(),
            kind: Kind::One(Arc::new(Node::new(link))),
            clock: Arc::default(),
        }
    }

    /// Starts the connections. Never fails: problems are reported by [`health`](Redis::health) and retried.
    pub fn start(target: &RedisTarget, options: LinkOptions) -> Redis {
        let space = target.space();
        let kind = match target {
            RedisTarget::Fixed(endpoint) => Kind::One(Arc::new(Node::new(Link::start(endpoint.clone(), options)))),
            RedisTarget::Sentinel(target) => {
                Kind::One(Arc::new(Node::new(Link::start(Sentinels::start(target.clone()), options))))
            }
            RedisTarget::Cluster(target) => Kind::Cluster(Cluster::start(target.clone(), options)),
        };
        Redis { name: UNNAMED.into(), space, kind, clock: Arc::default() }
    }

    /// Starts additional connections to the same servers.
    pub fn beside(&self, options: LinkOptions) -> Redis {
        let kind = match &self.kind {
            Kind::One(node) => Kind::One(Arc::new(Node::new(Link::start(node.link.locator(), options)))),
            Kind::Cluster(cluster) => Kind::Cluster(Cluster::start(cluster.target().clone(), options)),
        };
        Redis { name: self.name.clone(), space: self.space.clone(), kind, clock: Arc::default() }
    }

    /// Sets the name of the Redis.
    pub fn named(self, name: Arc<str>) -> Redis {
        Redis { name, ..self }
    }

    /// Returns the name in the configuration.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Returns the names of our keys and channels there.
    pub fn space(&self) -> &KeySpace {
        &self.space
    }

    /// Returns the locator of a server that receives all messages, for a [`Subscriber`](super::Subscriber).
    pub fn locator(&self) -> Locator {
        match &self.kind {
            Kind::One(node) => node.link.locator(),
            Kind::Cluster(cluster) => Locator::new(Arc::new(cluster.clone())),
        }
    }

    /// Returns a connection to any of its servers. Waits only until an attempt to connect has failed. Cancel safe.
    ///
    /// # Errors
    ///
    /// Returns the reason if there is none; `None` after it was closed.
    pub async fn first(&self) -> Result<Conn, Option<Arc<ConnectError>>> {
        let mut changes = self.changes();
        loop {
            changes.seen();
            let _ = self.masters();
            if let Some(conn) = self.any() {
                return Ok(conn);
            }
            if let Some(problem) = self.health().problem() {
                return Err(Some(problem.clone()));
            }
            if !changes.next().await {
                return Err(None);
            }
        }
    }

    /// Returns connections to all servers that hold keys. Waits only until an attempt to connect has failed. Cancel
    /// safe.
    ///
    /// # Errors
    ///
    /// Returns the reason if one of them is missing; `None` after it was closed.
    pub async fn first_to_all(&self) -> Result<Vec<Conn>, Option<Arc<ConnectError>>> {
        self.first().await?;
        let mut all = Vec::new();
        for node in self.masters() {
            let mut state = node.link.state();
            all.push(loop {
                let failed = match &*state.borrow_and_update() {
                    LinkState::Connecting { last_error, .. } => last_error.clone(),
                    LinkState::Up { .. } => None,
                };
                let conn = match &self.kind {
                    Kind::One(node) => node.current(),
                    Kind::Cluster(cluster) => cluster.conn_of(&node),
                };
                match (conn, failed) {
                    (Some(conn), _) => break conn,
                    (None, Some(problem)) => return Err(Some(problem)),
                    (None, None) => state.changed().await.map_err(|_closed| None)?,
                }
            });
        }
        Ok(all)
    }

    /// Returns any current connection.
    pub fn any(&self) -> Option<Conn> {
        match &self.kind {
            Kind::One(node) => node.current(),
            Kind::Cluster(cluster) => cluster.nodes().iter().find_map(|node| cluster.conn_of(node)),
        }
    }

    /// Returns the estimated time of its servers' clock, in ms since the epoch.
    pub fn now_ms(&self) -> i64 {
        self.clock.now_ms()
    }

    /// Returns the location of a key, and of all keys with the same hash tag.
    pub fn at(&self, key: impl AsRef<[u8]>) -> Place {
        match &self.kind {
            Kind::One(node) => Place { at: At::One(node.clone()), clock: self.clock.clone(), shared: None },
            Kind::Cluster(cluster) => {
                let slot = slot(key.as_ref());
                cluster.uses(slot);
                // A separate clock, because the slot may move to a server with another one.
                let clock = Arc::new(self.clock.copy());
                clock.observe(self.clock.now_ms());
                Place { at: At::Slot(cluster.clone(), slot), clock, shared: Some(self.clock.clone()) }
            }
        }
    }

    /// Returns whether it is a cluster, where all keys of one command must have the same slot.
    pub fn is_cluster(&self) -> bool {
        matches!(self.kind, Kind::Cluster(_))
    }

    /// Returns the address for logs.
    pub fn address(&self) -> &str {
        match &self.kind {
            Kind::One(node) => node.link.address(),
            Kind::Cluster(cluster) => cluster.address(),
        }
    }

    /// Returns the time-out of a call.
    pub fn command_timeout(&self) -> Duration {
        match &self.kind {
            Kind::One(node) => node.link.command_timeout(),
            Kind::Cluster(cluster) => cluster.command_timeout(),
        }
    }

    /// Returns the servers in use.
    pub fn nodes(&self) -> Vec<Arc<Node>> {
        match &self.kind {
            Kind::One(node) => vec![node.clone()],
            Kind::Cluster(cluster) => cluster.nodes(),
        }
    }

    /// Returns all servers that hold keys, in use or not. Each gets a connection. Empty until the map of a cluster is
    /// known.
    pub fn masters(&self) -> Vec<Arc<Node>> {
        match &self.kind {
            Kind::One(node) => vec![node.clone()],
            Kind::Cluster(cluster) => cluster.masters(),
        }
    }

    /// Returns the current health of the connections.
    pub fn health(&self) -> Health {
        let mut health = Health::default();
        if let Kind::Cluster(cluster) = &self.kind
            && let Some(problem) = cluster.problem()
        {
            health.down.push((cluster.address().to_owned(), problem));
        }
        let nodes = match &self.kind {
            Kind::One(node) => vec![(node.clone(), true)],
            Kind::Cluster(cluster) => cluster.nodes_and_certainty(),
        };
        for (node, in_use) in nodes {
            let address = node.link.address().to_owned();
            match &*node.link.state().borrow() {
                LinkState::Up { address, info, .. } => health.up.push((address.to_string(), info.version.to_string())),
                LinkState::Connecting { .. } if !in_use => {}
                LinkState::Connecting { last_error, .. } => health.down.push((address, last_error.clone())),
            }
        }
        health
    }

    /// Returns a receiver of changes of connections and of the map. Its waits are cancel safe.
    pub fn changes(&self) -> Changes {
        match &self.kind {
            Kind::One(node) => Changes::One(node.link.state()),
            Kind::Cluster(cluster) => Changes::Cluster(cluster.changes()),
        }
    }

    /// Waits until it is unusable, by [`close`](Redis::close) or by a panic. Cancel safe.
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

impl From<Link> for Redis {
    fn from(link: Link) -> Redis {
        Redis::one(link)
    }
}

impl From<&Redis> for Redis {
    fn from(redis: &Redis) -> Redis {
        redis.clone()
    }
}

/// A receiver of changes.
#[derive(Debug)]
pub enum Changes {
    /// The state of the only connection.
    One(watch::Receiver<LinkState>),
    /// A number that is incremented at each change.
    Cluster(watch::Receiver<u64>),
}

impl Changes {
    /// Waits for the next change; returns false if there will be none. Cancel safe.
    pub async fn next(&mut self) -> bool {
        match self {
            Changes::One(state) => state.changed().await.is_ok(),
            Changes::Cluster(number) => number.changed().await.is_ok(),
        }
    }

    /// Marks all changes so far as seen.
    pub fn seen(&mut self) {
        match self {
            Changes::One(state) => {
                let _ = state.borrow_and_update();
            }
            Changes::Cluster(number) => {
                let _ = number.borrow_and_update();
            }
        }
    }
}

impl Place {
    /// Returns the connection to the current server of the key, if there is one. In a cluster it follows a slot that
    /// has moved.
    pub fn current(&self) -> Option<Conn> {
        match &self.at {
            At::One(node) => node.current(),
            At::Slot(cluster, slot) => cluster.conn(*slot),
        }
    }

    /// Returns the current server of the key, if it is known.
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

    /// Returns the connection. Waits only until an attempt to connect has failed. Cancel safe.
    ///
    /// # Errors
    ///
    /// Returns the reason if there is none; `None` after it was closed.
    pub async fn first(&self) -> Result<Conn, Option<Arc<ConnectError>>> {
        let mut changes = match &self.at {
            At::One(node) => Changes::One(node.link.state()),
            At::Slot(cluster, _) => Changes::Cluster(cluster.changes()),
        };
        loop {
            // Marked as seen before the look, so that a change in between ends the wait below at once.
            changes.seen();
            if let Some(conn) = self.current() {
                return Ok(conn);
            }
            if let Some(problem) = self.problem() {
                return Err(Some(problem));
            }
            if !changes.next().await {
                return Err(None);
            }
        }
    }

    /// Returns the error of the last attempt to connect, if it failed.
    fn problem(&self) -> Option<Arc<ConnectError>> {
        let of_node = |node: &Node| match &*node.link.state().borrow() {
            LinkState::Connecting { last_error, .. } => last_error.clone(),
            LinkState::Up { .. } => None,
        };
        match &self.at {
            At::One(node) => of_node(node),
            At::Slot(cluster, slot) => match cluster.node(*slot) {
                Some(node) => of_node(&node),
                None => cluster.problem().flatten(),
            },
        }
    }

    /// Returns the address for errors.
    pub fn address(&self) -> Arc<str> {
        match &self.at {
            At::One(node) => node.link.address().into(),
            At::Slot(cluster, slot) => match cluster.node(*slot) {
                Some(node) => node.link.address().into(),
                None => cluster.address().into(),
            },
        }
    }

    /// Returns the time-out of a call.
    pub fn command_timeout(&self) -> Duration {
        match &self.at {
            At::One(node) => node.link.command_timeout(),
            At::Slot(cluster, _) => cluster.command_timeout(),
        }
    }

    /// Returns the estimated time of its server's clock, in ms since the epoch.
    pub fn now_ms(&self) -> i64 {
        self.clock.now_ms()
    }

    /// Records a time that its server has just answered.
    pub fn observe(&self, now_ms: i64) {
        self.clock.observe(now_ms);
        if let Some(shared) = &self.shared {
            shared.observe(now_ms);
        }
    }

    /// Returns the identity of the current connection: the server and the number of its connection.
    pub fn epoch(&self) -> Option<(usize, u64)> {
        let node = self.node()?;
        let conn = node.current()?;
        Some((Arc::as_ptr(&node) as usize, conn.epoch()))
    }

    /// Returns the history of the data behind the connection; `None` while there is no connection.
    pub fn history(&self) -> Option<History> {
        let node = self.node()?;
        let conn = node.current()?;
        let own = || History::of_connection(Arc::as_ptr(&node) as usize, conn.epoch());
        Some(conn.info().history.unwrap_or_else(own))
    }

    /// Returns whether the memory of its server is nearly full.
    pub fn is_nearly_full(&self) -> bool {
        match &self.at {
            At::One(node) => node.is_nearly_full(),
            At::Slot(cluster, slot) => cluster.node(*slot).is_some_and(|node| node.is_nearly_full()),
        }
    }
}
