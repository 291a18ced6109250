//! Routes that go aside: each has fallen silent once, and no longer shares a channel or a connection with the others.
//!
//! **Why.** A queue that cannot take a message, such as a quorum queue without its majority, keeps more than its own messages.
//! RabbitMQ's channel registers with a quorum queue at its first message, and waits there for a minute: later messages on
//! that channel wait too. A channel with 32 messages that such a queue has not taken asks for a pause, and after 400 more the
//! broker does not read the connection any more, so that no other channel of it is served. So a route without an answer
//! gets channels of its own on a second connection, with few messages outstanding, and stays there.
//!
//! Both the places aside, which routes share, and the remembered routes are bounded. A forgotten route goes aside after it
//! has fallen silent again.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::supervisor::{self, ConnectionState};
use crate::AmqpSpec;
use delaybridge_dial::ReadBudget;
use delaybridge_sink::Destination;

/// Routes that are remembered.
const MOST: usize = 4096;
/// Channels of an exchange for them. Two that share one wait for each other, and both have been silent.
const PLACES: u64 = 16;

/// The routes that go aside, and their connection, which is made for the first of them.
#[derive(Debug)]
pub(super) struct AsideRoutes {
    spec: Arc<AmqpSpec>,
    /// The budget of all connections of the sink.
    reads: Arc<ReadBudget>,
    stop: CancellationToken,
    /// Whether there are any: asked for every message.
    any: AtomicBool,
    routes: Mutex<HashSet<u64>>,
    /// Random for each process: payloads choose routes.
    hash: RandomState,
    connection: Mutex<Option<(watch::Receiver<ConnectionState>, JoinHandle<()>)>>,
}

impl AsideRoutes {
    /// Creates an empty set of routes; `stop` ends the connection.
    pub(super) fn new(spec: Arc<AmqpSpec>, reads: Arc<ReadBudget>, stop: CancellationToken) -> AsideRoutes {
        AsideRoutes {
            spec,
            reads,
            stop,
            any: AtomicBool::new(false),
            routes: Mutex::default(),
            hash: RandomState::new(),
            connection: Mutex::default(),
        }
    }

    fn key(&self, destination: &Destination) -> u64 {
        self.hash.hash_one(destination.lane())
    }

    /// Returns the place aside of this route; `None` if it does not go aside.
    pub(super) fn place(&self, destination: &Destination) -> Option<u64> {
        if !self.any.load(Ordering::Relaxed) {
            return None;
        }
        let key = self.key(destination);
        self.routes.lock().contains(&key).then_some(key % PLACES)
    }

    /// Sends this route aside from now on.
    pub(super) fn put(&self, destination: &Destination) {
        let mut routes = self.routes.lock();
        if routes.len() >= MOST {
            routes.clear();
        }
        routes.insert(self.key(destination));
        self.any.store(true, Ordering::Relaxed);
    }

    /// Returns the state of the connection for them. It declares nothing: a declaration waits for a queue too.
    pub(super) fn state(&self) -> watch::Receiver<ConnectionState> {
        let start = || {
            let spec = Arc::new(AmqpSpec { declare: None, ..(*self.spec).clone() });
            let (sender, state) = watch::channel(ConnectionState::Connecting { failure: None });
            (state, tokio::spawn(supervisor::run(spec, self.reads.clone(), sender, self.stop.clone())))
        };
        self.connection.lock().get_or_insert_with(start).0.clone()
    }

    /// Returns the task that keeps the connection, if there is one: it ends after `stop`.
    pub(super) fn supervisor(&self) -> Option<JoinHandle<()>> {
        self.connection.lock().take().map(|(_, task)| task)
    }
}
