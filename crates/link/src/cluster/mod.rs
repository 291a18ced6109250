//! A Redis Cluster: one supervised connection for each master in use, and the map from slots to masters.
//!
//! The client library's cluster client is not used: it resends scripts after a lost reply, and whole pipelines after
//! one redirected entry. Here [`follow`] sends on only what a node has refused to execute. The map ([`slots`]) changes
//! by one slot when a node reports that it has moved, and as a whole by the [`refresh`] task.

mod follow;
mod redirect;
mod refresh;
mod shared;
mod slots;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use self::follow::ClusterRoute;
use self::shared::{Map, Shared};
use self::slots::Slots;
use super::conn::Conn;
use super::endpoint::RedisEndpoint;
use super::error::ConnectError;
use super::link::Node;
use super::locator::Locate;
use super::options::LinkOptions;
use super::target::ClusterTarget;

/// A handle on the connections to a cluster; clones share them.
#[derive(Clone)]
pub struct Cluster {
    shared: Arc<Shared>,
    _stop_on_drop: Arc<DropGuard>,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cluster({})", self.address())
    }
}

impl Cluster {
    /// Starts to ask for the map. Never fails: problems are reported by [`problem`](Cluster::problem) and retried.
    pub(super) fn start(target: Arc<ClusterTarget>, options: LinkOptions) -> Cluster {
        let stop = CancellationToken::new();
        let (lives, ended) = watch::channel(());
        let map = Map {
            slots: Slots::unknown(),
            used: HashSet::new(),
            all: false,
            nodes: HashMap::new(),
            idle: HashSet::new(),
            away: HashSet::new(),
            problem: Some(None),
        };
        let shared = Arc::new(Shared {
            address: target.address().into(),
            target,
            options,
            map: RwLock::new(map),
            changes: watch::Sender::new(0),
            refresh: Notify::new(),
            asking: Mutex::default(),
            stop: stop.clone(),
            task: Mutex::default(),
            ended,
        });
        let task = tokio::spawn(refresh::run(shared.clone(), lives));
        *shared.task.lock() = Some(task);
        Cluster { shared, _stop_on_drop: Arc::new(stop.drop_guard()) }
    }

    /// Returns the target that it was started with.
    pub(super) fn target(&self) -> &Arc<ClusterTarget> {
        &self.shared.target
    }

    pub(super) fn address(&self) -> &str {
        &self.shared.address
    }

    pub(super) fn command_timeout(&self) -> Duration {
        self.shared.target.servers.command_timeout
    }

    /// Registers a slot in use, so that its master gets a connection.
    pub(super) fn uses(&self, slot: u16) {
        if self.shared.map.read().used.contains(&slot) {
            return;
        }
        let mut map = self.shared.map.write();
        if map.used.insert(slot) {
            match map.slots.owner(slot).cloned() {
                Some(owner) => {
                    let _ = self.shared.node_at(&mut map, &owner);
                }
                // The map need not cover unused slots; now it has to.
                None => self.shared.refresh.notify_one(),
            }
        }
    }

    /// Returns the connection to the master of a slot.
    pub(super) fn conn(&self, slot: u16) -> Option<Conn> {
        let conn = self.node(slot)?.current()?;
        Some(conn.in_cluster(ClusterRoute::new(&self.shared)))
    }

    /// Returns the connection to a node, which follows redirections.
    pub(super) fn conn_of(&self, node: &Node) -> Option<Conn> {
        Some(node.current()?.in_cluster(ClusterRoute::new(&self.shared)))
    }

    /// Returns the master of a slot.
    pub(super) fn node(&self, slot: u16) -> Option<Arc<Node>> {
        let map = self.shared.map.read();
        map.nodes.get(map.slots.owner(slot)?).cloned()
    }

    /// Waits for a connection to the master of a slot.
    pub(super) async fn ready(&self, slot: u16) -> Conn {
        let mut changes = self.changes();
        loop {
            // Marked as seen before the look, so that a change in between ends the wait below at once.
            changes.borrow_and_update();
            if let Some(conn) = self.conn(slot) {
                return conn;
            }
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Returns the masters in use.
    pub(super) fn nodes(&self) -> Vec<Arc<Node>> {
        self.shared.map.read().nodes.values().cloned().collect()
    }

    /// Returns the masters in use, each with whether it certainly is one while it has no connection: a node that has
    /// lost its connection since the last map may have been removed.
    pub(super) fn nodes_and_certainty(&self) -> Vec<(Arc<Node>, bool)> {
        let map = self.shared.map.read();
        map.nodes.iter().map(|(at, node)| (node.clone(), map.away.contains(at))).collect()
    }

    /// Returns all masters. Each gets a connection and keeps it.
    pub(super) fn masters(&self) -> Vec<Arc<Node>> {
        let mut map = self.shared.map.write();
        map.all = true;
        let masters: Vec<_> = map.slots.masters().cloned().collect();
        masters.iter().map(|master| self.shared.node_at(&mut map, master)).collect()
    }

    /// Returns the reason why there is no map; the inner option is empty until an attempt has failed.
    pub(super) fn problem(&self) -> Option<Option<Arc<ConnectError>>> {
        self.shared.map.read().problem.clone()
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    pub(super) async fn ended(&self) {
        let mut ended = self.shared.ended.clone();
        while ended.changed().await.is_ok() {}
    }

    pub(super) async fn close(&self) {
        self.shared.stop.cancel();
        let task = self.shared.task.lock().take();
        if let Some(task) = task {
            // A panic is already visible to the callers of `ended`.
            drop(task.await);
        }
        self.shared.asking.lock().clear();
        let nodes: Vec<_> = self.shared.map.write().nodes.drain().map(|(_, node)| node).collect();
        futures_util::future::join_all(nodes.iter().map(|node| node.link.close())).await;
    }
}

/// Any node will do: it is asked for what all of them know.
impl Locate for Cluster {
    fn address(&self) -> String {
        self.shared.address.to_string()
    }

    fn servers(&self) -> &RedisEndpoint {
        &self.shared.target.servers
    }

    /// Returns the nodes of the map, replicas included.
    fn locate(&self) -> BoxFuture<'_, Result<Vec<Arc<RedisEndpoint>>, ConnectError>> {
        let nodes = self.shared.candidates().iter().map(|at| self.shared.target.node(at)).collect();
        Box::pin(std::future::ready(Ok(nodes)))
    }

    /// Waits until a node has left the cluster.
    fn left<'a>(&'a self, node: &'a RedisEndpoint) -> BoxFuture<'a, ()> {
        Box::pin(async {
            let mut changes = Cluster::changes(self);
            loop {
                changes.borrow_and_update();
                let named = {
                    let map = self.shared.map.read();
                    map.problem.is_some() || map.slots.nodes().any(|at| at.is_of(node))
                };
                if !named {
                    return;
                }
                if changes.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        })
    }

    fn changes(&self) -> Option<watch::Receiver<u64>> {
        None
    }
}
