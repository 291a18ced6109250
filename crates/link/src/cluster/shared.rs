//! The state that the handles, the routes and the refresh task of a cluster share.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::slots::Slots;
use crate::address::Address;
use crate::connect::Asking;
use crate::error::ConnectError;
use crate::link::{Link, Node};
use crate::options::LinkOptions;
use crate::target::ClusterTarget;

pub(super) struct Shared {
    pub(super) target: Arc<ClusterTarget>,
    pub(super) address: Arc<str>,
    pub(super) options: LinkOptions,
    pub(super) map: RwLock<Map>,
    /// Incremented when the map or a connection changes.
    pub(super) changes: watch::Sender<u64>,
    /// Requests a new map.
    pub(super) refresh: Notify,
    /// Connections to nodes that are asked now and then: at most one for each node of the map.
    pub(super) asking: Mutex<HashMap<Address, Asking>>,
    pub(super) stop: CancellationToken,
    pub(super) task: Mutex<Option<JoinHandle<()>>>,
    /// Closed when the task ends, however that happens.
    pub(super) ended: watch::Receiver<()>,
}

pub(super) struct Map {
    pub(super) slots: Slots,
    /// The slots in use.
    pub(super) used: HashSet<u16>,
    /// Whether every master is in use, not only those of used slots.
    pub(super) all: bool,
    pub(super) nodes: HashMap<Address, Arc<Node>>,
    /// Nodes that the last map did not need. If the next map does not need them either, their connections are closed;
    /// until then a slot may be on its way to them.
    pub(super) idle: HashSet<Address>,
    /// Nodes in use that had no connection when the last map arrived, or failed to arrive. A node that lost its
    /// connection since then may have left the cluster, which is checked first.
    pub(super) away: HashSet<Address>,
    /// The reason why there is no map of the used slots; the inner option is empty until an attempt has failed.
    pub(super) problem: Option<Option<Arc<ConnectError>>>,
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
    pub(super) fn node_at(self: &Arc<Self>, map: &mut Map, at: &Address) -> Arc<Node> {
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

    pub(super) fn changed(&self) {
        self.changes.send_modify(|number| *number += 1);
    }

    /// Records that a slot has moved: the slot at once, the whole map soon.
    pub(super) fn moved(self: &Arc<Self>, slot: u16, to: &Address) {
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
    pub(super) fn take(self: &Arc<Self>, slots: Slots) -> bool {
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
    pub(super) fn no_map(&self, problem: ConnectError) {
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
    pub(super) fn any_is_down(&self) -> bool {
        self.map.read().nodes.values().any(|node| node.current().is_none())
    }

    /// Lists the nodes that may know the map, in the order to ask them: connected nodes, other nodes of the map, seeds.
    pub(super) fn candidates(&self) -> Vec<Address> {
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
