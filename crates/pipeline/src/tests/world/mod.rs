//! A server in memory, processes that work on it, and a clock that only the test moves.

mod wire;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use self::wire::{Trouble, Wire};
use super::{FakeSink, MINUTE, id, spec};
use crate::active::ActiveQueue;
use crate::claim::{claimer, safety_poll};
use crate::dead_letters::forwarder;
use crate::deliver::probes;
use crate::deliver::sink_handle::SinkHandle;
use crate::leases::keeper;
use crate::limits::budget::Budget;
use crate::process::Process;
use crate::registry::QueueRegistry;
use crate::watch;
use delaybridge_core::clock::{Followed, Instant, follow_tokio};
use delaybridge_core::message::{Failure, Outcome};
use delaybridge_ledger::store::Store;
use delaybridge_model::QueueSpec;
use delaybridge_sink::{Answers, Destination, Lookup, Outbound, RunSink, Sink};
use delaybridge_telemetry::events::Events;
use delaybridge_telemetry::labels::Wakeup;
use delaybridge_testing::memory::{MemoryServer, MemoryStore, element};

/// Longer than anything that a claim of [`spec`] waits for: a minute, and the time-out of its sink.
pub const STALLED_AFTER: Duration = Duration::from_secs(85);

/// The sinks of a process, with their names.
pub type Sinks<'a> = &'a [(&'a str, Arc<FakeSink>)];

/// A server with one queue, for a test on paused time.
pub struct World {
    pub server: MemoryServer,
    /// The queue, as the test looks at it.
    pub store: MemoryStore,
    /// Elements in flight of each process.
    pub in_flight: u64,
    /// Bytes in flight of each process.
    pub in_flight_bytes: u64,
    /// Elements that were handed to a sink before the server's time had reached their due time (R9).
    early: Arc<AtomicU64>,
    _clock: Followed,
}

impl World {
    /// An empty queue.
    pub fn new() -> World {
        World::seeded(1)
    }

    /// The same; the pipeline's random numbers follow from the seed.
    pub fn seeded(seed: u64) -> World {
        let clock = follow_tokio();
        fastrand::seed(seed);
        let server = MemoryServer::new();
        let store = server.store("q", [0; 8]);
        World { store, server, in_flight: 1000, in_flight_bytes: 1 << 26, early: Arc::default(), _clock: clock }
    }

    /// A process with everything that a daemon runs for its queue, except the upkeep of the source.
    pub fn bridge(&self, owner: u8, sinks: Sinks) -> Bridge {
        self.bridge_with(owner, sinks, spec(sinks))
    }

    /// The same with a configuration of its own.
    pub fn bridge_with(&self, owner: u8, sinks: Sinks, spec: QueueSpec) -> Bridge {
        let mut bridge = self.without_keeper(owner, sinks, spec);
        let process = bridge.process.clone();
        let beat = |task: &str| process.events.status().heartbeat(task, MINUTE);
        let server = Arc::new(bridge.wire.clone());
        let registry = QueueRegistry::of(server, vec![bridge.queue.clone()]);
        bridge.tasks.spawn(keeper::run(registry.clone(), beat("lease keeper")));
        bridge.tasks.spawn(safety_poll::run(registry, beat("safety poll")));
        bridge
    }

    /// A queue that nothing works on.
    pub fn idle_queue(&self) -> Arc<ActiveQueue> {
        let sinks = [("s", super::sink())];
        let mut bridge = self.without_keeper(9, &sinks, spec(&sinks));
        bridge.tasks.abort_all();
        let idle = Wire::new(self.server.clone(), self.server.store("q", [9; 8]), 0);
        let handle = bridge.queue.routes[0].handle.clone();
        ActiveQueue::new(bridge.queue.spec.clone(), bridge.process.clone(), Arc::new(idle), |_| Some(handle.clone()))
    }

    /// Only claims and delivers; its leases are not extended, and it looks again only when its alarm rings.
    pub fn without_keeper(&self, owner: u8, sinks: Sinks, spec: QueueSpec) -> Bridge {
        let owner = [owner; 8];
        let wire = Wire::new(self.server.clone(), self.server.store("q", owner), fastrand::u64(..));
        let events = Events::default();
        let budget = Budget::new(self.in_flight, self.in_flight_bytes);
        let process = Arc::new(Process::new(owner, budget, events.clone()));
        // A calendar that is right; the machine's has nothing to do with this server.
        wire.home().observe(self.server.now_ms());
        let handles: Vec<Arc<SinkHandle>> = sinks
            .iter()
            .map(|(name, sink)| {
                let name: Arc<str> = (*name).into();
                let own: Arc<dyn Sink> = Arc::new(SinkOfProcess {
                    sink: sink.clone(),
                    server: self.server.clone(),
                    early: self.early.clone(),
                    cut: wire.is_cut(),
                });
                #[cfg(debug_assertions)]
                let own = crate::fault_injection::sink(own);
                let events = events.sink(&name);
                let gates = process.gates.clone();
                Arc::new(SinkHandle::new(name, own, None, events, gates))
            })
            .collect();
        let store: Arc<dyn Store> = Arc::new(wire.clone());
        #[cfg(debug_assertions)]
        let store = crate::fault_injection::store(store, &process.stopping);
        let queue = ActiveQueue::new(Arc::new(spec), process.clone(), store, |name| {
            handles.iter().find(|handle| &*handle.name == name).cloned()
        });
        let mut tasks = JoinSet::new();
        let heartbeat = process.events.status().heartbeat("claimer", MINUTE);
        tasks.spawn(claimer::run(queue.clone(), heartbeat));
        if queue.dead_letter_to.is_some() {
            tasks.spawn(forwarder::run(queue.queue.clone()));
        }
        Bridge { process, queue, store: self.server.store("q", owner), wire, tasks }
    }

    /// Offers elements with these ids, all due now: one claim takes them together.
    pub fn offer(&self, ids: impl IntoIterator<Item = u64>) {
        self.offer_in(Duration::ZERO, ids);
    }

    /// Offers elements with these ids that fall due after `delay`.
    pub fn offer_in(&self, delay: Duration, ids: impl IntoIterator<Item = u64>) {
        offer(&self.store, delay, ids);
    }

    /// Waits until nothing is scheduled, in flight or waiting.
    pub async fn until_empty(&self) {
        within(10 * MINUTE, "the queue to be empty", || self.store.is_empty()).await;
        assert_eq!(self.early.load(Ordering::Relaxed), 0, "elements were sent before they were due");
    }
}

fn offer(store: &MemoryStore, delay: Duration, ids: impl IntoIterator<Item = u64>) {
    for n in ids {
        store.offer(element(id(n), format!("payload {n}").as_bytes()), delay);
    }
}

/// One process with one queue. Dropped, it is gone like a process that was killed.
pub struct Bridge {
    pub process: Arc<Process>,
    pub queue: Arc<ActiveQueue>,
    pub wire: Wire,
    store: MemoryStore,
    tasks: JoinSet<()>,
}

impl Bridge {
    /// Offers elements with these ids that are due at once, and announces them.
    pub fn offer(&self, ids: impl IntoIterator<Item = u64>) {
        self.offer_in(Duration::ZERO, ids);
    }

    /// Offers elements with these ids that fall due after `delay`, and announces them.
    pub fn offer_in(&self, delay: Duration, ids: impl IntoIterator<Item = u64>) {
        offer(&self.store, delay, ids);
        self.queue.alarm.ring(Wakeup::Published);
    }

    /// Watches the queue from now on: stalled after as long as the daemon would wait with this queue.
    pub fn watch(&mut self) {
        self.tasks
            .spawn(watch::run(QueueRegistry::of(Arc::new(self.wire.clone()), vec![self.queue.clone()]), STALLED_AFTER));
    }

    /// Probes the sinks from now on.
    pub fn probe(&mut self) {
        for route in &self.queue.routes {
            self.tasks.spawn(probes::run(route.handle.clone(), self.process.stopping.clone()));
        }
    }

    /// The value of one series, written as in the text format; 0 if it is not there.
    pub fn metric(&self, series: &str) -> f64 {
        metric(&self.process.events, series)
    }

    /// Waits until a series has this value.
    pub async fn metric_is(&self, series: &str, expected: f64) {
        eventually(&format!("{series} {expected}"), || self.metric(series) == expected).await;
    }

    /// Ends the process as its drain does: until 70 % of `timeout` sinks may answer, until 90 % verdicts are written.
    /// Whether nothing was left in flight.
    pub async fn stop(mut self, timeout: Duration) -> bool {
        let started = Instant::now();
        let process = self.process.clone();
        process.stopping.cancel();
        let tasks = &mut self.tasks;
        let mut idle = Box::pin(async move {
            // The lease keeper goes on until the leases are given up.
            while tasks.len() > 1 {
                let _ = tasks.join_next().await;
            }
            process.tasks.close();
            process.tasks.wait().await;
        });
        let left = |share: f64| timeout.mul_f64(share).saturating_sub(started.elapsed());
        if tokio::time::timeout(left(0.7), &mut idle).await.is_err() {
            self.process.abandon.cancel();
            let _ = tokio::time::timeout(left(0.9), &mut idle).await;
        }
        drop(idle);
        self.process.abandon.cancel();
        self.process.give_up.cancel();
        self.queue.leases.is_empty() && self.process.not_found.load(Ordering::Relaxed) == 0
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.wire.cut();
    }
}

/// A sink as one process sees it: when the process is gone, its deliveries are too.
struct SinkOfProcess {
    sink: Arc<FakeSink>,
    server: MemoryServer,
    early: Arc<AtomicU64>,
    cut: CancellationToken,
}

impl SinkOfProcess {
    fn notice(&self, message: &Outbound) {
        if message.due_ms.is_some_and(|due_ms| due_ms > self.server.now_ms()) {
            self.early.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Sink for SinkOfProcess {
    fn kind(&self) -> &'static str {
        self.sink.kind()
    }

    fn timeout(&self) -> Duration {
        self.sink.timeout()
    }

    fn deliver(&self, message: Outbound) -> BoxFuture<'_, Outcome> {
        self.notice(&message);
        async move {
            // Order: whoever is gone sends nothing.
            tokio::select! {
                biased;
                () = self.cut.cancelled() => std::future::pending().await,
                outcome = self.sink.deliver(message) => outcome,
            }
        }
        .boxed()
    }

    fn runs(&self) -> Option<&dyn RunSink> {
        self.sink.runs().map(|_| self as &dyn RunSink)
    }

    fn lookup(&self) -> Option<&dyn Lookup> {
        self.sink.lookup()
    }

    fn check<'a>(&'a self, destinations: &'a [Destination]) -> BoxFuture<'a, Result<Vec<String>, Failure>> {
        Sink::check(&*self.sink, destinations)
    }

    fn probe(&self) -> Option<BoxFuture<'_, Result<(), Failure>>> {
        self.sink.probe()
    }

    fn ended(&self) -> BoxFuture<'_, ()> {
        self.sink.ended()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.sink.close()
    }
}

impl RunSink for SinkOfProcess {
    fn line(&self, destination: &Destination) -> Option<u32> {
        self.sink.runs()?.line(destination)
    }

    fn prepare(&self) {
        self.sink.runs().into_iter().for_each(RunSink::prepare);
    }

    fn joins_keys(&self) -> bool {
        self.sink.runs().is_some_and(RunSink::joins_keys)
    }

    fn deliver_run<'a>(&'a self, run: Vec<Outbound>, answers: &'a Answers) -> BoxFuture<'a, ()> {
        for message in &run {
            self.notice(message);
        }
        async move {
            // Order: whoever is gone sends nothing.
            tokio::select! {
                biased;
                () = self.cut.cancelled() => std::future::pending().await,
                () = self.sink.deliver_run(run, answers) => {}
            }
        }
        .boxed()
    }
}

/// The value of one series, written as in the text format; 0 if it is not there.
pub fn metric(events: &Events, series: &str) -> f64 {
    let text = events.metrics().render().unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok());
    value.unwrap_or(0.0)
}

/// Waits for a condition that is not announced, at most two minutes of the test's time.
pub async fn eventually(what: &str, condition: impl FnMut() -> bool) {
    within(2 * MINUTE, what, condition).await;
}

/// The same with a limit of its own.
pub async fn within(limit: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    let mut step = Duration::from_millis(1);
    let longest = limit / 2000;
    while !condition() {
        assert!(started.elapsed() < limit, "waited {limit:?} in vain for: {what}");
        tokio::time::sleep(step).await;
        step = step.mul_f64(1.05).min(longest);
    }
}
