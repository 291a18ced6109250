//! What the tasks of one queue share, and what all queues share.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use tokio::sync::{Notify, RwLock, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::budget::Budget;
use super::circuit::{Allow, Circuit};
use super::handover::Handover;
use super::held::Held;
use super::history::History;
use super::in_flight::Adaptive;
use super::outlet::Outlet;
use super::rate::Bucket;
use super::settle::Settler;
use super::wake::Wake;
use crate::clock::{Instant, RedisClock};
use crate::config::{MaxInFlight, QueueSpec, RouteSpec, TargetSpec};
use crate::link::Link;
use crate::message::{Class, Failure, Side};
use crate::source::redisson::{Hints, Redisson};
use crate::telemetry::events::{Events, QueueEvents};
use crate::telemetry::metrics::DeliveryMetrics;

/// What all queues of the process share.
pub struct Process {
    /// Random number of this process: the owner in every header.
    pub owner: [u8; 8],
    /// The connection to the Redis that holds the queues.
    pub link: Link,
    /// Its clock.
    pub clock: RedisClock,
    /// In flight over all queues.
    pub budget: Budget,
    /// Held shared by whatever is in flight, and exclusively by an entry that must be alone.
    pub solo: Arc<RwLock<()>>,
    /// Changes when a breaker or a hold does.
    pub gates: watch::Sender<u64>,
    /// SIGTERM came: nothing new is claimed (R6).
    pub stopping: CancellationToken,
    /// The drain's time is up: what is at a sink is given up and released.
    pub abandon: CancellationToken,
    /// The time for writing verdicts is up as well.
    pub give_up: CancellationToken,
    /// Lost claims that the end of the drain left behind: their entries wait for their leases.
    pub not_found: AtomicU64,
    /// A delivery or a settling panicked outside of an element's own work: nothing can be relied on any more.
    pub failed: CancellationToken,
    /// The deliveries and settlings under way.
    pub tasks: TaskTracker,
    /// Log lines, counters, probes.
    pub events: Events,
    /// Redis uses more than 90 % of its `maxmemory`.
    pub redis_nearly_full: AtomicBool,
    /// Number of the last claim.
    claims: AtomicU64,
}

impl Process {
    /// The shared part of a process that claims from the Redis behind `link`.
    pub fn new(owner: [u8; 8], link: Link, budget: Budget, events: Events) -> Self {
        Process {
            owner,
            link,
            clock: RedisClock::new(),
            budget,
            solo: Arc::default(),
            gates: watch::Sender::new(0),
            stopping: CancellationToken::new(),
            abandon: CancellationToken::new(),
            give_up: CancellationToken::new(),
            not_found: AtomicU64::new(0),
            failed: CancellationToken::new(),
            tasks: TaskTracker::new(),
            events,
            redis_nearly_full: false.into(),
            claims: AtomicU64::new(0),
        }
    }

    /// Starts a delivery or a settling. One that panics ends the process: it may hold entries that nobody else will
    /// settle, and their leases would be kept for ever.
    pub fn spawn(self: &Arc<Self>, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let process = self.clone();
        self.tasks.spawn(async move {
            if AssertUnwindSafe(task).catch_unwind().await.is_err() {
                process.events.task_ended(name, "it panicked");
                process.failed.cancel();
            }
        });
    }

    /// A claim number that this process has not used.
    pub fn next_claim(&self) -> u64 {
        self.claims.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// One destination of a queue.
pub struct Route {
    /// Its part of the configuration.
    pub spec: RouteSpec,
    /// The sink.
    pub outlet: Arc<Outlet>,
    /// Counters of this queue at this sink.
    pub metrics: DeliveryMetrics,
}

/// Where the dead letters of a queue are moved on to.
pub struct Onward {
    /// Its part of the configuration.
    pub spec: RouteSpec,
    /// The sink.
    pub outlet: Arc<Outlet>,
}

/// One queue at work.
pub struct Queue {
    /// Its part of the configuration.
    pub spec: Arc<QueueSpec>,
    /// Its scripts.
    pub source: Redisson,
    /// Its destinations, in the order of the configuration.
    pub routes: Vec<Route>,
    /// What all queues share.
    pub process: Arc<Process>,
    /// Its log lines and counters.
    pub events: QueueEvents,
    /// The leases.
    pub held: Held,
    /// Its share of what may be in flight.
    pub budget: Budget,
    /// The bound that adapts.
    pub adaptive: Option<Adaptive>,
    /// When its claimer looks next.
    pub wake: Wake,
    /// Brings its claims to the sinks.
    pub handover: Handover,
    /// Writes its verdicts.
    pub settler: Settler,
    /// What earlier attempts of this process saw.
    pub history: History,
    /// Where its dead letters are moved on to.
    pub dead_letter_to: Option<Onward>,
    /// Knocks when one was stored.
    pub dead_letters: Notify,
    hold: Mutex<Circuit>,
    rate: Option<Mutex<Bucket>>,
    hints: Mutex<Hints>,
    /// Ghosts want a turn of the sweep.
    pub sweep_due: AtomicBool,
    /// The latest time by Redis's clock for which somebody has seen that nothing was due: what turns up with an earlier due
    /// time was overdue when it was offered.
    nothing_due_ms: AtomicI64,
    /// Elements that ended: settled, and released undelivered.
    pub settled: AtomicU64,
    /// See [`settled`](Queue::settled).
    pub released: AtomicU64,
}

/// What a claimer may do now.
#[derive(Debug)]
pub enum Gate {
    /// Claim.
    Free,
    /// Claim one element, to see whether things work again.
    Probe(Probe),
    /// Wait until this point, or for a change.
    Wait(Option<Instant>),
}

/// Permission for one element to find out whether something works again. Dropped without [`answered`](Probe::answered),
/// the permission is given back.
#[derive(Debug)]
pub struct Probe {
    queue: Arc<Queue>,
    hold: bool,
    outlets: Vec<Arc<Outlet>>,
}

impl Probe {
    /// The element has its verdict: `hold` tells whether the hold has seen it, `asked` which breakers have. The others
    /// get their permission back.
    pub fn answered(mut self, hold: bool, asked: impl Fn(&Outlet) -> bool) {
        self.hold &= !hold;
        self.outlets.retain(|outlet| !asked(outlet));
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        for outlet in &self.outlets {
            outlet.abandon_probe();
        }
        if self.hold {
            self.queue.hold().probe_abandoned(Instant::now());
            self.queue.process.gates.send_modify(|n| *n += 1);
        }
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Queue({})", self.spec.id)
    }
}

impl std::fmt::Debug for Outlet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Outlet({})", self.name)
    }
}

impl Queue {
    /// Puts a queue to work. `outlet` finds a sink by its name; the configuration has checked that it exists.
    pub fn new(spec: Arc<QueueSpec>, process: Arc<Process>, outlet: impl Fn(&str) -> Option<Arc<Outlet>>) -> Arc<Self> {
        let events = process.events.queue(&spec.id);
        let found = spec.to.iter().filter_map(|route| {
            let outlet = outlet(&route.sink)?;
            Some(Route { spec: route.clone(), metrics: events.metrics().to(&route.sink), outlet })
        });
        // No room to grow: collected, one route would get that of four.
        let mut routes = Vec::with_capacity(spec.to.len());
        routes.extend(found);
        let dead_letter_to = spec.dead_letter_to.as_ref();
        let dead_letter_to = dead_letter_to.and_then(|to| Some(Onward { spec: to.clone(), outlet: outlet(&to.sink)? }));
        let (adaptive, count) = match spec.max_in_flight {
            MaxInFlight::Auto => (Some(Adaptive::new()), Adaptive::FIRST),
            MaxInFlight::Fixed(n) => (None, u64::from(n)),
        };
        Arc::new(Queue {
            source: Redisson::new(
                &spec.name,
                process.owner,
                spec.consume_delayed,
                spec.consume_ready,
                spec.list_cleanup,
            ),
            routes,
            held: Held::default(),
            budget: Budget::new(count, spec.max_in_flight_bytes),
            adaptive,
            wake: Wake::new(),
            handover: Handover::default(),
            settler: Settler::default(),
            history: History::default(),
            dead_letter_to,
            dead_letters: Notify::new(),
            hold: Mutex::new(Circuit::hold()),
            rate: spec.max_rate.map(|rate| Mutex::new(Bucket::new(rate, Instant::now()))),
            hints: Mutex::default(),
            sweep_due: false.into(),
            nothing_due_ms: i64::MIN.into(),
            settled: AtomicU64::new(0),
            released: AtomicU64::new(0),
            events,
            process,
            spec,
        })
    }

    /// The list that exactly-once pushes go to: the queue's only destination, if it asks for that.
    pub fn exactly_once(&self) -> Option<(&Bytes, Side)> {
        match self.routes.as_slice() {
            [Route { spec, .. }] => match &spec.target {
                TargetSpec::RedisList { exactly_once: true, key, push } => Some((key.static_bytes()?, *push)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Notes that nothing was due at this time by Redis's clock.
    pub fn saw_nothing_due(&self, redis_ms: i64) {
        self.nothing_due_ms.fetch_max(redis_ms, Ordering::Relaxed);
    }

    /// The latest time for which that was noted; `i64::MIN` before the first.
    pub fn nothing_due_ms(&self) -> i64 {
        self.nothing_due_ms.load(Ordering::Relaxed)
    }

    /// What the hold and the breakers of all its sinks allow.
    pub fn gate(self: &Arc<Self>) -> Gate {
        let hold = self.hold().allows(Instant::now());
        let all = || std::iter::once(hold).chain(self.routes.iter().map(|route| route.outlet.allows()));
        if let Some(until) =
            all().filter_map(|allow| if let Allow::No { retry_at } = allow { Some(retry_at) } else { None }).max()
        {
            return Gate::Wait(until);
        }
        if all().all(|allow| allow == Allow::Free) {
            return Gate::Free;
        }
        let mut probe = Probe { queue: self.clone(), hold: false, outlets: Vec::new() };
        if hold == Allow::Probe {
            self.hold().probe_started();
            probe.hold = true;
        }
        for route in &self.routes {
            match route.outlet.allows() {
                Allow::Free => {}
                _ if route.outlet.start_probe() => probe.outlets.push(route.outlet.clone()),
                // Another queue was faster; its probe tells for us as well.
                _ => return Gate::Wait(None),
            }
        }
        Gate::Probe(probe)
    }

    /// The hold.
    pub fn hold(&self) -> MutexGuard<'_, Circuit> {
        self.hold.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// What earlier scripts learned about large elements.
    pub fn hints(&self) -> MutexGuard<'_, Hints> {
        self.hints.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Takes from the rates of the queue and of all its sinks: how many may be claimed, when to ask for more, and which
    /// sink is the reason (none: the queue itself).
    pub fn take_rate(&self, want: u32) -> (u32, Instant, Option<&Route>) {
        let now = Instant::now();
        let (mut granted, mut next_at, mut slowest) = (want, now, None);
        // One lock at a time: two queues may name the same sinks in another order.
        let mut taken: Vec<&Mutex<Bucket>> = Vec::new();
        let sinks = self.routes.iter().filter_map(|route| Some((route.outlet.rate()?, Some(route))));
        for (bucket, route) in self.rate.iter().map(|rate| (rate, None)).chain(sinks) {
            let got = lock(bucket).take(now, granted);
            for earlier in &taken {
                lock(earlier).refund(granted - got.granted);
            }
            granted = got.granted;
            if got.next_at > next_at {
                (next_at, slowest) = (got.next_at, route);
            }
            taken.push(bucket);
        }
        (granted, next_at, slowest)
    }

    /// Gives back what a claim did not use.
    pub fn refund_rate(&self, unused: u32) {
        for bucket in self.rate.iter().chain(self.routes.iter().filter_map(|route| route.outlet.rate())) {
            lock(bucket).refund(unused);
        }
    }

    /// Holds the queue, and says why.
    pub fn hold_because(&self, sink: Option<&str>, failure: &Failure) {
        self.hold().on_failure(Class::TargetPermanent, Instant::now(), fastrand::f64());
        self.events.held(sink, failure.code, &failure.to_string());
        self.process.gates.send_modify(|n| *n += 1);
    }

    /// Something was delivered: the queue goes on if it was held.
    pub fn release_hold(&self) {
        let closed = self.hold().on_success().is_some();
        if closed {
            self.events.resumed();
            self.process.gates.send_modify(|n| *n += 1);
        }
    }

    /// Redis takes claims and verdicts again. A queue that is held because of a sink stays held.
    pub fn resume(&self) {
        if self.hold().why().is_none() {
            self.events.resumed();
        }
    }

    /// What a lease must have left for an element to be handed to a sink.
    pub fn margin(&self) -> Duration {
        (self.spec.lease / 10).min(Duration::from_secs(1))
    }
}

fn lock(bucket: &Mutex<Bucket>) -> MutexGuard<'_, Bucket> {
    bucket.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
