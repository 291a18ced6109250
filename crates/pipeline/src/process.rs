//! What all queues of the process share.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use futures_util::FutureExt;
use tokio::sync::{Notify, RwLock, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::deferred;
use crate::left::LeftToLeases;
use crate::limits::budget::Budget;
use crate::limits::large::Large;
use crate::limits::neighbours::Neighbours;
use delaybridge_spans::Tracer;
use delaybridge_telemetry::events::Events;

/// The context that all queues of the process share. Each queue has a Redis of its own.
pub struct Process {
    /// Random number of this process: the owner in every header.
    pub owner: [u8; 8],
    /// In flight over all queues.
    pub budget: Budget,
    /// The same by the Redis that holds the queues, where there are several.
    shares: HashMap<Arc<str>, Budget>,
    /// Whose turn it is to build a large value.
    pub large: Large,
    /// The queues that keep up.
    pub neighbours: Neighbours,
    /// Leases shared by whatever is in flight, and exclusively by an entry that must be alone.
    pub isolation: Arc<RwLock<()>>,
    /// Changes when a breaker or a hold does.
    pub gates: watch::Sender<u64>,
    /// Knocks when a queue wants a turn of upkeep.
    pub upkeep: Notify,
    /// SIGTERM came: nothing new is claimed (R6).
    pub stopping: CancellationToken,
    /// The drain's time is up: what is at a sink is given up and released.
    pub abandon: CancellationToken,
    /// The time for writing verdicts is up as well.
    pub give_up: CancellationToken,
    /// Claimers at work: at the end of the drain one may have a claim of which it does not know what it took.
    pub claimers: AtomicUsize,
    /// Lost claims that the end of the drain left behind: their entries wait for their leases.
    pub not_found: AtomicU64,
    /// Claims that changes of queues have left to their leases.
    pub left: LeftToLeases,
    /// A delivery or a settling panicked outside of an element's own work: nothing can be relied on any more.
    pub failed: CancellationToken,
    /// The running deliveries and settlements.
    pub tasks: TaskTracker,
    /// Log lines, counters, probes.
    pub events: Events,
    /// Takes the spans of elements, if they are traced.
    pub tracer: Option<Tracer>,
    /// Number of the last claim.
    claims: AtomicU64,
    /// The number of further owners.
    owners: AtomicU64,
}

impl Process {
    /// Creates the shared part of a process.
    pub fn new(owner: [u8; 8], budget: Budget, events: Events) -> Self {
        Process {
            owner,
            budget,
            shares: HashMap::new(),
            large: Large::default(),
            neighbours: Neighbours::default(),
            isolation: Arc::default(),
            gates: watch::Sender::new(0),
            upkeep: Notify::new(),
            stopping: CancellationToken::new(),
            abandon: CancellationToken::new(),
            give_up: CancellationToken::new(),
            claimers: AtomicUsize::new(0),
            not_found: AtomicU64::new(0),
            left: LeftToLeases::default(),
            failed: CancellationToken::new(),
            tasks: TaskTracker::new(),
            events,
            tracer: None,
            claims: AtomicU64::new(0),
            owners: AtomicU64::new(0),
        }
    }

    /// Returns an owner that this process has not been yet. It is random, too: as far from those of other processes as
    /// the first one.
    pub fn another_owner(&self) -> [u8; 8] {
        let further = self.owners.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        u64::from_be_bytes(self.owner).wrapping_add(further).to_be_bytes()
    }

    /// Divides what may be in flight equally between several Redis: elements that wait for one that does not answer
    /// leave room for the others.
    #[must_use]
    pub fn shared_by<'a>(self, redis: impl ExactSizeIterator<Item = &'a Arc<str>>, count: u64, bytes: u64) -> Self {
        let several = redis.len() as u64;
        let share = |name: &Arc<str>| (name.clone(), Budget::new((count / several).max(1), bytes / several));
        let shares = if several > 1 { redis.map(share).collect() } else { HashMap::new() };
        Process { shares, ..self }
    }

    /// Sets the tracer of elements.
    #[must_use]
    pub fn traced_by(self, tracer: Option<Tracer>) -> Self {
        Process { tracer, ..self }
    }

    /// Returns the bound on what the queues of this Redis may have in flight together.
    pub fn budget_of(&self, redis: &str) -> &Budget {
        self.shares.get(redis).unwrap_or(&self.budget)
    }

    /// Starts a delivery or a settlement. One that panics ends the process: it may hold entries that no other task will
    /// settle, and their leases would be kept for ever.
    pub fn spawn(self: &Arc<Self>, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(self.contained(name, task));
    }

    /// Spawns a task as [`spawn`](Process::spawn) does, but runs its first steps here: the task starts when it is
    /// woken.
    pub fn spawn_deferred(self: &Arc<Self>, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        deferred::spawn(self.tasks.track_future(self.contained(name, task)));
    }

    /// Wraps a task so that its panic ends the process. Not an async function: that would hold the task several times.
    fn contained<T: Future<Output = ()>>(
        self: &Arc<Self>,
        name: &'static str,
        task: T,
    ) -> impl Future<Output = ()> + use<T> {
        let process = self.clone();
        AssertUnwindSafe(task).catch_unwind().map(move |ended| {
            if ended.is_err() {
                process.task_panicked(name);
            }
        })
    }

    /// Runs a part of a delivery in the caller's task; a panic in it ends the process as that of a
    /// [task](Process::spawn) does.
    pub fn contain(&self, name: &'static str, work: impl FnOnce()) {
        if std::panic::catch_unwind(AssertUnwindSafe(work)).is_err() {
            self.task_panicked(name);
        }
    }

    fn task_panicked(&self, name: &str) {
        self.events.task_ended(name, "it panicked");
        self.failed.cancel();
    }

    /// Returns a claim number that this process has not used.
    pub fn next_claim(&self) -> u64 {
        self.claims.fetch_add(1, Ordering::Relaxed) + 1
    }
}
