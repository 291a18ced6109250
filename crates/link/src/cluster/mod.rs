//! A Redis Cluster: one supervised connection for each master in use, and the map from slots to masters.
//!
//! The client library's cluster client is not used: it resends scripts after a lost reply, and whole pipelines after
//! one redirected entry. Here [`follow`] sends on only what a node has refused to execute. The map ([`slots`]) changes
//! by one slot when a node reports that it has moved, and as a whole by the [`refresh`] task.

mod follow;
mod redirect;
mod refresh;
mod slots;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

pub(super) use self::follow::Route;
pub use self::slots::Address;
use self::slots::Slots;
use super::connect::Asking;
use super::node::Node;
use super::{Conn, ConnectError, Link, LinkOptions, RedisEndpoint};

/// The address of a cluster and the settings of its nodes.
#[derive(Debug, Clone)]
pub struct ClusterTarget {
    /// Nodes that are asked for the map until others are known; at least one.
    pub seeds: Vec<Address>,
    /// Login, TLS and time-outs of all nodes; host and port are unused.
    pub servers: RedisEndpoint,
}

impl ClusterTarget {
    /// Returns the settings of one node.
    pub fn node(&self, at: &Address) -> Arc<RedisEndpoint> {
        Arc::new(self.servers.at(&at.host, at.port))
    }

    /// Returns `cluster:host:port,host:port` with the seeds.
    pub fn address(&self) -> String {
        let seeds: Vec<_> = self.seeds.iter().map(ToString::to_string).collect();
        format!("cluster:{}", seeds.join(","))
    }

    /// Returns whether the two have a node in common.
    pub(super) fn same_servers(&self, other: &ClusterTarget) -> bool {
        let nodes: Vec<_> = other.seeds.iter().map(|at| other.node(at)).collect();
        self.seeds.iter().map(|at| self.node(at)).any(|one| nodes.iter().any(|other| one.same_server(other)))
    }
}

/// A handle on the connections to a cluster; clones share them.
#[derive(Clone)]
pub struct Cluster {
    shared: Arc<Shared>,
    _stop_on_drop: Arc<DropGuard>,
}

struct Shared {
    target: Arc<ClusterTarget>,
    address: Arc<str>,
    options: LinkOptions,
    map: RwLock<Map>,
    /// Incremented when the map or a connection changes.
    changes: watch::Sender<u64>,
    /// Requests a new map.
    refresh: Notify,
    /// Connections to nodes that are asked now and then: at most one for each node of the map.
    asking: Mutex<HashMap<Address, Asking>>,
    stop: CancellationToken,
    task: Mutex<Option<JoinHandle<()>>>,
    /// Closed when the task ends, however that happens.
    ended: watch::Receiver<()>,
}

struct Map {
    slots: Slots,
    /// The slots in use.
    used: HashSet<u16>,
    /// Whether every master is in use, not only those of used slots.
    all: bool,
    nodes: HashMap<Address, Arc<Node>>,
    /// Nodes that the last map did not need. If the next map does not need them either, their connections are closed;
    /// until then a slot may be on its way to them.
    idle: HashSet<Address>,
    /// Nodes in use that had no connection when the last map arrived, or failed to arrive. A node that lost its
    /// connection since then may have left the cluster, which is checked first.
    away: HashSet<Address>,
    /// The reason why there is no map of the used slots; the inner option is empty until an attempt has failed.
    problem: Option<Option<Arc<ConnectError>>>,
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
        Some(conn.in_cluster(follow::Route::new(self.shared.clone())))
    }

    /// Returns the connection to a node, which follows redirections.
    pub(super) fn conn_of(&self, node: &Node) -> Option<Conn> {
        Some(node.current()?.in_cluster(follow::Route::new(self.shared.clone())))
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

    /// Returns the nodes that may be asked for common knowledge, replicas included.
    pub(super) fn any(&self) -> Vec<Arc<RedisEndpoint>> {
        self.shared.candidates().iter().map(|at| self.shared.target.node(at)).collect()
    }

    /// Returns the settings that all nodes have in common; host and port are unused.
    pub(super) fn servers(&self) -> &RedisEndpoint {
        &self.shared.target.servers
    }

    /// Waits until a node has left the cluster. Cancel safe.
    pub(super) async fn left(&self, node: &RedisEndpoint) {
        let mut changes = self.changes();
        loop {
            changes.borrow_and_update();
            let named = {
                let map = self.shared.map.read();
                map.problem.is_some() || map.slots.nodes().any(|at| *at.host == *node.host && at.port == node.port)
            };
            if !named {
                return;
            }
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
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

impl Map {
    /// Records the nodes in use without a connection; returns whether they differ from before.
    fn look(&mut self) -> bool {
        let away = self.nodes.iter().filter(|(at, node)| !self.idle.contains(*at) && node.current().is_none());
        let away: HashSet<_> = away.map(|(at, _)| at.clone()).collect();
        std::mem::replace(&mut self.away, away) != self.away
    }
}

impl Shared {
    /// Returns the node at an address; its connection is started if there is none.
    fn node_at(self: &Arc<Self>, map: &mut Map, at: &Address) -> Arc<Node> {
        if let Some(node) = map.nodes.get(at) {
            return node.clone();
        }
        let link = Link::start(self.target.node(at), self.options.clone());
        let mut state = link.state();
        let shared = Arc::downgrade(self);
        // Ends with the link, whose supervisor holds the sender.
        tokio::spawn(async move {
            while state.changed().await.is_ok() {
                let up = state.borrow_and_update().is_up();
                let Some(shared) = shared.upgrade() else { return };
                if !up {
                    shared.refresh.notify_one();
                }
                shared.changed();
            }
        });
        let node = Arc::new(Node::new(link));
        map.nodes.insert(at.clone(), node.clone());
        node
    }

    fn changed(&self) {
        self.changes.send_modify(|number| *number += 1);
    }

    /// Records that a slot has moved: the slot at once, the whole map soon.
    fn moved(self: &Arc<Self>, slot: u16, to: &Address) {
        let news = {
            let mut map = self.map.write();
            let news = map.slots.moved(slot, to.clone());
            let _ = self.node_at(&mut map, to);
            news
        };
        if news {
            self.refresh.notify_one();
            self.changed();
        }
    }

    /// Replaces the map, if the new one covers the slots in use, and disconnects nodes that are no longer in use.
    fn take(self: &Arc<Self>, slots: Slots) -> bool {
        let mut gone = Vec::new();
        {
            let mut map = self.map.write();
            if map.used.iter().any(|slot| slots.owner(*slot).is_none()) {
                return false;
            }
            let wanted: HashSet<Address> = if map.all {
                slots.masters().cloned().collect()
            } else {
                map.used.iter().filter_map(|slot| slots.owner(*slot)).cloned().collect()
            };
            map.slots = slots;
            map.problem = None;
            let idle: HashSet<_> = map.nodes.keys().filter(|at| !wanted.contains(*at)).cloned().collect();
            let before = std::mem::take(&mut map.idle);
            gone.extend(idle.intersection(&before).filter_map(|at| map.nodes.remove(at)));
            map.idle = idle;
            wanted.iter().for_each(|at| drop(self.node_at(&mut map, at)));
            map.look();
        }
        self.changed();
        // Outside of the lock: the end of a link may request the map.
        drop(gone);
        true
    }

    /// Records why no node returned a usable map. A previous map that covers the slots in use stays.
    fn no_map(&self, problem: ConnectError) {
        {
            let mut map = self.map.write();
            if map.look() {
                self.changed();
            }
            let missing = map.problem.is_some() || map.used.iter().any(|slot| map.slots.owner(*slot).is_none());
            if !missing || map.problem.as_ref().is_some_and(|known| known.as_deref() == Some(&problem)) {
                return;
            }
            map.problem = Some(Some(Arc::new(problem)));
        }
        self.changed();
    }

    /// Returns whether a master in use has no connection.
    fn any_is_down(&self) -> bool {
        self.map.read().nodes.values().any(|node| node.current().is_none())
    }

    /// Lists the nodes that may know the map, in the order to ask them: connected nodes, other nodes of the map, seeds.
    fn candidates(&self) -> Vec<Address> {
        let map = self.map.read();
        let (mut all, mut rest): (Vec<_>, Vec<_>) =
            map.slots.nodes().cloned().partition(|at| map.nodes.get(at).is_some_and(|node| node.current().is_some()));
        drop(map);
        let mut seeds = self.target.seeds.clone();
        for some in [&mut all, &mut rest, &mut seeds] {
            fastrand::shuffle(some);
        }
        let mut seen = HashSet::new();
        all.into_iter().chain(rest).chain(seeds).filter(|at| seen.insert(at.clone())).collect()
    }
}
