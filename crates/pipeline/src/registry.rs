//! The queues of the configuration, each at work or at rest.
//!
//! A [`ActiveQueue`] at work takes some kilobytes: its keys, its counters, its claimer. Most of ten thousand queues have nothing
//! to do most of the time. So each has a small [`QueueSlot`], and a `ActiveQueue` only while something is due, in flight, or expected
//! soon. A claimer that has nothing to do ends, and its queue goes to rest: it is dropped, and built again when there is
//! something to do.
//!
//! What wakes a queue: the look after a start and after each reconnect, an announcement of something that is due soon, and
//! the safety poll. The poll looks as far [ahead](QueueRegistry::horizon) as its next look at the same queue, and a queue with
//! something due before that is not put to rest. So rest costs no lateness.
//!
//! A queue stays at work while only it knows something: claims and their names, verdicts, failed attempts, a hold, a rate
//! below its bound, a requested sweep. A queue whose dead letters are forwarded, and one that does not deliver, is always
//! at work. Counters stay in the slot.

mod changes;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{MappedRwLockReadGuard, Mutex, RwLock, RwLockReadGuard};
use tokio::sync::Notify;

use crate::active::ActiveQueue;
use crate::claim::lookers::Lookers;
use crate::deliver::sink_handle::SinkHandle;
use crate::process::Process;
use delaybridge_ledger::millis;
use delaybridge_ledger::store::{RedisReads, Store};
use delaybridge_model::{Mode, QueueSpec};
use delaybridge_telemetry::events::QueueEvents;
use delaybridge_telemetry::labels::Wakeup;

/// Opens the store of a queue, for this owner of claims.
pub type OpenStore = Box<dyn Fn(&QueueSpec, [u8; 8]) -> Arc<dyn Store> + Send + Sync>;

/// The means to build queues.
pub struct QueueParts {
    /// Opens their stores.
    pub store: OpenStore,
    /// The sinks, by name.
    pub sinks: HashMap<Arc<str>, Arc<SinkHandle>>,
}

/// All queues, in the order of the configuration as it was at the start. A queue is named by its place. A
/// [reload](changes) changes what is at a place; untouched queues keep theirs.
pub struct QueueRegistry {
    process: Arc<Process>,
    server: Arc<dyn RedisReads>,
    store: OpenStore,
    sinks: RwLock<HashMap<Arc<str>, Arc<SinkHandle>>>,
    /// Locked after `state`, where both are.
    slots: RwLock<Vec<QueueSlot>>,
    state: Mutex<RegistryState>,
    /// The number of times that a queue came, went, or was changed.
    changes: AtomicU64,
    /// Rings when a queue was woken, or all are to be looked at.
    bell: Notify,
    /// See [`horizon`](QueueRegistry::horizon), in ms.
    horizon_ms: AtomicU64,
    /// See [`take_due_soon`](QueueRegistry::take_due_soon), in ms.
    far_ms: AtomicU64,
    /// The other daemons with these queues.
    lookers: Lookers,
}

/// The part of a queue that is kept while it is idle.
struct QueueSlot {
    spec: Arc<QueueSpec>,
    /// The owner of its claims.
    owner: [u8; 8],
    /// Of a queue that has series or has written lines: its counters go on where they were.
    events: OnceLock<QueueEvents>,
    /// See [`Queue::saw_nothing_due`](crate::queue::Queue::saw_nothing_due).
    nothing_due_ms: AtomicI64,
    /// See [`QueueRegistry::was_empty`].
    empty: AtomicBool,
    /// See [`QueueRegistry::take_changed`].
    changed: AtomicBool,
    /// See [`QueueRegistry::take_due_soon`].
    due_soon: AtomicBool,
}

impl QueueSlot {
    /// Creates an idle queue that nothing is known of; with its counters, where it had another configuration before.
    fn new(spec: Arc<QueueSpec>, owner: [u8; 8], events: Option<QueueEvents>) -> QueueSlot {
        let events = events.map_or_else(OnceLock::new, OnceLock::from);
        QueueSlot {
            spec,
            owner,
            events,
            nothing_due_ms: i64::MIN.into(),
            empty: false.into(),
            changed: true.into(),
            due_soon: false.into(),
        }
    }
}

#[derive(Default)]
struct RegistryState {
    at_work: BTreeMap<usize, Arc<ActiveQueue>>,
    /// Queues that were woken and have no claimer yet: at most all of them.
    woken: Vec<usize>,
    /// Queues that are to be looked at.
    looks: BTreeSet<usize>,
    /// Places from which nothing is put to work: their queues are about to be others, or gone.
    closed: BTreeSet<usize>,
    /// The closed places that have no queue.
    free: BTreeSet<usize>,
    /// The counts of queues that are idle now.
    before: QueueCounts,
}

/// The counts of queues since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Claims that were sent.
    pub claims: u64,
    /// Elements that were settled.
    pub settled: u64,
    /// Elements that were released undelivered.
    pub released: u64,
}

impl QueueCounts {
    /// Returns the counts of one queue.
    pub fn of(queue: &ActiveQueue) -> QueueCounts {
        QueueCounts { claims: queue.progress.sent(), settled: queue.settled(), released: queue.released() }
    }

    /// Returns all together: it changes when anything moves.
    pub fn sum(self) -> u64 {
        self.claims.wrapping_add(self.settled).wrapping_add(self.released)
    }

    /// Adds two counts.
    pub fn plus(self, other: QueueCounts) -> QueueCounts {
        QueueCounts {
            claims: self.claims.wrapping_add(other.claims),
            settled: self.settled.wrapping_add(other.settled),
            released: self.released.wrapping_add(other.released),
        }
    }
}

impl QueueRegistry {
    /// Creates a registry of these queues, all idle except those that do not claim, which are active for good.
    pub fn new(
        process: Arc<Process>,
        server: Arc<dyn RedisReads>,
        specs: &[Arc<QueueSpec>],
        parts: QueueParts,
    ) -> QueueRegistry {
        process.events.status().add_queues(specs.len());
        let QueueParts { store, sinks } = parts;
        let registry = QueueRegistry {
            lookers: Lookers::new(process.owner),
            slots: RwLock::new(specs.iter().map(|spec| QueueSlot::new(spec.clone(), process.owner, None)).collect()),
            process,
            server,
            store,
            sinks: RwLock::new(sinks),
            state: Mutex::default(),
            changes: AtomicU64::new(0),
            bell: Notify::new(),
            horizon_ms: AtomicU64::new(0),
            far_ms: AtomicU64::new(0),
        };
        for place in registry.places().into_iter().filter(|place| registry.spec(*place).mode != Mode::Deliver) {
            registry.state.lock().at_work.insert(place, registry.build(place));
        }
        registry
    }

    /// Creates a registry of queues that are active for good.
    #[cfg(test)]
    pub fn of(server: Arc<dyn RedisReads>, queues: Vec<Arc<ActiveQueue>>) -> Arc<QueueRegistry> {
        let process = queues[0].process.clone();
        let specs: Vec<_> = queues.iter().map(|queue| queue.spec.clone()).collect();
        let stores: HashMap<_, _> = queues.iter().map(|queue| (queue.spec.id.clone(), queue.store.clone())).collect();
        let parts = QueueParts { store: Box::new(move |spec, _| stores[&spec.id].clone()), sinks: HashMap::new() };
        let registry = QueueRegistry::new(process, server, &specs, parts);
        registry.state.lock().at_work = queues.into_iter().enumerate().collect();
        Arc::new(registry)
    }

    /// Returns the context that all queues share.
    pub fn process(&self) -> &Arc<Process> {
        &self.process
    }

    /// Returns the server that holds the queues, or several that are one Redis.
    pub fn server(&self) -> &Arc<dyn RedisReads> {
        &self.server
    }

    /// Returns the other daemons with these queues, as far as they share looks.
    pub fn lookers(&self) -> &Lookers {
        &self.lookers
    }

    /// Returns a sink, by its name.
    pub fn sink(&self, name: &str) -> Option<Arc<SinkHandle>> {
        self.sinks.read().get(name).cloned()
    }

    /// Returns the number of queues.
    pub fn len(&self) -> usize {
        let state = self.state.lock();
        self.slots.read().len() - state.free.len()
    }

    /// Returns whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the places of all queues.
    pub fn places(&self) -> Vec<usize> {
        let state = self.state.lock();
        (0..self.slots.read().len()).filter(|place| !state.free.contains(place)).collect()
    }

    /// Returns the number of times that a queue came, went, or was changed: a caller that caches something of all
    /// queues asks again then.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Returns the places of the queues with this mode.
    pub fn with_mode(&self, meant: impl Fn(Mode) -> bool) -> Vec<usize> {
        self.places().into_iter().filter(|place| meant(self.spec(*place).mode)).collect()
    }

    /// Returns the configuration of a queue.
    pub fn spec(&self, place: usize) -> Arc<QueueSpec> {
        self.slot(place).spec.clone()
    }

    /// Returns the slot at a place. Never held while the state is locked afterwards: who changes slots has locked the
    /// state.
    fn slot(&self, place: usize) -> MappedRwLockReadGuard<'_, QueueSlot> {
        RwLockReadGuard::map(self.slots.read(), |slots| &slots[place])
    }

    /// Returns the store of a queue, which need not be at work.
    pub fn store(&self, place: usize) -> Arc<dyn Store> {
        match self.state.lock().at_work.get(&place) {
            Some(queue) => queue.store.clone(),
            None => {
                let slot = self.slot(place);
                (self.store)(&slot.spec, slot.owner)
            }
        }
    }

    /// Returns a queue, if it is at work.
    pub fn get(&self, place: usize) -> Option<Arc<ActiveQueue>> {
        self.state.lock().at_work.get(&place).cloned()
    }

    /// Returns the queues at work, with their places.
    pub fn at_work(&self) -> Vec<(usize, Arc<ActiveQueue>)> {
        self.state.lock().at_work.iter().map(|(place, queue)| (*place, queue.clone())).collect()
    }

    /// Returns the number of what a process that ends now leaves to its leases: elements in flight, and claims that a
    /// change of a queue left behind.
    pub fn left_over(&self) -> u64 {
        let of = |queue: &Arc<ActiveQueue>| queue.leases.len() + queue.leases.forgotten();
        self.state.lock().at_work.values().map(of).sum::<usize>() as u64
    }

    /// Returns the queues at work that are meant.
    pub fn find(&self, meant: impl Fn(&ActiveQueue) -> bool) -> Vec<Arc<ActiveQueue>> {
        self.state.lock().at_work.values().filter(|queue| meant(queue)).cloned().collect()
    }

    /// Runs `then` with a queue, after waking it if it is idle; a queue that is about to go is left alone. `then` only
    /// leaves a note with it: no queue becomes idle meanwhile, and none afterwards that was rung for.
    pub fn wake(&self, place: usize, then: impl FnOnce(&Arc<ActiveQueue>)) {
        let mut state = self.state.lock();
        if let Some(queue) = self.wake_slot(&mut state, place) {
            then(queue);
        }
    }

    /// Returns the queue at this place, woken if it is idle.
    fn wake_slot<'a>(&self, state: &'a mut RegistryState, place: usize) -> Option<&'a Arc<ActiveQueue>> {
        let RegistryState { at_work, woken, closed, .. } = state;
        if closed.contains(&place) {
            return at_work.get(&place);
        }
        Some(at_work.entry(place).or_insert_with(|| {
            woken.push(place);
            self.bell.notify_one();
            self.build(place)
        }))
    }

    fn build(&self, place: usize) -> Arc<ActiveQueue> {
        let slot = self.slot(place);
        let QueueSlot { spec, owner, events, nothing_due_ms, empty, changed: _, due_soon: _ } = &*slot;
        empty.store(false, Ordering::Relaxed);
        let store = (self.store)(spec, *owner);
        let events = events.get().cloned().unwrap_or_else(|| self.process.events.queue(&spec.id));
        let queue = ActiveQueue::with_events(spec.clone(), self.process.clone(), store, events, |name| self.sink(name));
        queue.saw_nothing_due(nothing_due_ms.load(Ordering::Relaxed));
        queue
    }

    /// Returns whether a claim has found nothing due in an idle queue since then.
    pub fn was_looked_at(&self, place: usize) -> bool {
        self.get(place).is_none() && self.slot(place).nothing_due_ms.load(Ordering::Relaxed) > i64::MIN
    }

    /// Returns whether an idle queue had nothing in it at the last look at its gauges, and has announced nothing
    /// since.
    pub fn was_empty(&self, place: usize) -> bool {
        self.slot(place).empty.load(Ordering::Relaxed)
    }

    /// Notes what a look at the gauges has shown.
    pub fn set_empty(&self, place: usize, empty: bool) {
        self.slot(place).empty.store(empty, Ordering::Relaxed);
    }

    /// Returns whether something was announced in a queue, or it came to rest, since this was last asked: it may have another next due
    /// time.
    pub fn take_changed(&self, place: usize) -> bool {
        self.slot(place).changed.swap(false, Ordering::Relaxed)
    }

    /// Returns whether a queue came to rest, since this was last asked, with something that falls due before the next look
    /// [far ahead](QueueRegistry::set_horizons). Only this daemon may know of it: an element that it put back until its destination works again.
    pub fn take_due_soon(&self, place: usize) -> bool {
        self.slot(place).due_soon.swap(false, Ordering::Relaxed)
    }

    /// Announces that something in a queue falls due at this time. What is due after the next poll is left to that.
    pub fn announce(&self, place: usize, due_ms: i64) {
        self.set_empty(place, false);
        self.slot(place).changed.store(true, Ordering::Relaxed);
        let soon = due_ms.saturating_sub(self.store(place).home().now_ms()) <= millis(self.horizon());
        let mut state = self.state.lock();
        if (soon || state.at_work.contains_key(&place))
            && let Some(queue) = self.wake_slot(&mut state, place)
        {
            queue.alarm.announce(due_ms);
        }
    }

    /// Notes that nothing was due in an idle queue at this time by Redis's clock.
    pub fn saw_nothing_due(&self, place: usize, redis_ms: i64) {
        let slot = self.slot(place);
        // The estimate is as good as Redis's own time after the first reply, and a claim has had one.
        if slot.nothing_due_ms.load(Ordering::Relaxed) > i64::MIN {
            slot.nothing_due_ms.fetch_max(redis_ms, Ordering::Relaxed);
        }
    }

    /// Puts a queue to rest whose claimer has ended, if nothing has come meanwhile and nothing is lost by it. `false`
    /// if it is to go on.
    pub fn rest(&self, place: usize, ended: &Arc<ActiveQueue>) -> bool {
        let mut state = self.state.lock();
        // Another one has its place; or it goes, and stays where it can be seen until nothing of it is in flight.
        let Some(queue) = state.at_work.get(&place).filter(|queue| Arc::ptr_eq(queue, ended)) else { return true };
        if state.closed.contains(&place) {
            return true;
        }
        if !queue.may_rest() || !queue.alarm.is_quiet(queue.home().now_ms(), self.horizon()) {
            return false;
        }
        let slot = self.slot(place);
        if queue.events.is_worth_keeping() {
            // Kept before, or kept now.
            let _ = slot.events.set(queue.events.clone());
        }
        slot.nothing_due_ms.fetch_max(queue.nothing_due_ms(), Ordering::Relaxed);
        slot.changed.store(true, Ordering::Relaxed);
        let far = Duration::from_millis(self.far_ms.load(Ordering::Relaxed));
        if !queue.alarm.is_quiet(queue.home().now_ms(), far) {
            slot.due_soon.store(true, Ordering::Relaxed);
        }
        state.before = state.before.plus(QueueCounts::of(queue));
        state.at_work.remove(&place);
        true
    }

    /// Returns the sum of the counts of all queues.
    pub fn counts(&self) -> QueueCounts {
        let state = self.state.lock();
        state.at_work.values().map(|queue| QueueCounts::of(queue)).fold(state.before, QueueCounts::plus)
    }

    /// Returns the log lines and counters of a queue, if it has any.
    pub fn events(&self, place: usize) -> Option<QueueEvents> {
        match self.get(place) {
            Some(queue) => Some(queue.events.clone()),
            None => self.slot(place).events.get().cloned(),
        }
    }

    /// Returns the events, which are made if necessary.
    pub fn events_or_new(&self, place: usize) -> QueueEvents {
        let state = self.state.lock();
        let slot = self.slot(place);
        let events = || state.at_work.get(&place).map(|queue| queue.events.clone());
        slot.events.get_or_init(|| events().unwrap_or_else(|| self.process.events.queue(&slot.spec.id))).clone()
    }

    /// Returns the time that a poll looks ahead at an idle queue: longer than until its next look at the same queue.
    pub fn horizon(&self) -> Duration {
        Duration::from_millis(self.horizon_ms.load(Ordering::Relaxed))
    }

    /// Sets how far the poll looks ahead, and how far a look far ahead.
    pub fn set_horizons(&self, horizon: Duration, far: Duration) {
        self.horizon_ms.store(millis(horizon).unsigned_abs(), Ordering::Relaxed);
        self.far_ms.store(millis(far).unsigned_abs(), Ordering::Relaxed);
    }

    /// Requests a look at all queues: what was announced meanwhile is lost.
    pub fn look_at_all(&self, reason: Wakeup) {
        self.look_at(self.places(), reason);
    }

    /// Requests a look at some queues.
    pub fn look_at(&self, places: impl IntoIterator<Item = usize>, reason: Wakeup) {
        let mut state = self.state.lock();
        for place in places {
            match state.at_work.get(&place) {
                Some(queue) => queue.alarm.ring(reason),
                None if state.closed.contains(&place) => {}
                None => {
                    state.looks.insert(place);
                }
            }
        }
        self.bell.notify_one();
    }

    /// Wakes up to `most` of the queues that are to be looked at. Whether there are more.
    pub fn look_at_some(&self, most: usize) -> bool {
        let mut state = self.state.lock();
        for _ in 0..most {
            let Some(place) = state.looks.pop_first() else { return false };
            self.wake_slot(&mut state, place);
        }
        !state.looks.is_empty()
    }

    /// Returns the queues that are to be looked at.
    pub fn to_look_at(&self) -> Vec<usize> {
        self.state.lock().looks.iter().copied().collect()
    }

    /// Waits until a queue was woken, or some are to be looked at. Cancel safe.
    pub async fn woken(&self) {
        self.bell.notified().await;
    }

    /// Returns the queues that were woken and have no claimer yet.
    pub fn take_woken(&self) -> Vec<(usize, Arc<ActiveQueue>)> {
        let mut state = self.state.lock();
        let woken = std::mem::take(&mut state.woken);
        woken.into_iter().filter_map(|place| Some((place, state.at_work.get(&place)?.clone()))).collect()
    }
}
