//! The context that the tasks of one queue share. Below claims: it knows none of what is in flight.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::claim::alarm::Alarm;
use crate::claim::progress::ClaimProgress;
use crate::deliver::destinations::DestinationKey;
use crate::deliver::sink_handle::SinkHandle;
use crate::deliver::together::Together;
use crate::deliver::understand::CodecSaid;
use crate::limits::adaptive::Adaptive;
use crate::limits::budget::Budget;
use crate::limits::circuit::Circuit;
use crate::limits::growth::Growth;
use crate::limits::pauses::PauseBoard;
use crate::limits::rate::Bucket;
use crate::limits::share::Share;
use crate::process::Process;
use crate::settle::recent::RecentDeliveries;
use delaybridge_core::clock::Instant;
use delaybridge_core::message::About;
use delaybridge_ledger::claims::{Header, RECORD_PENDING};
use delaybridge_ledger::store::{QueueServer, Store};
use delaybridge_ledger::{Hints, millis};
use delaybridge_link::Side;
use delaybridge_model::{AuditFate, AuditSpec, MaxInFlight, Ordered, QueueSpec, RouteSpec};
use delaybridge_sink::Destination;
use delaybridge_telemetry::attempts::QueueAttempts;
use delaybridge_telemetry::events::QueueEvents;
use delaybridge_telemetry::metrics::DeliveryMetrics;

/// One destination of a queue.
pub struct SinkRoute {
    /// The part of the configuration.
    pub spec: RouteSpec,
    /// The sink.
    pub handle: Arc<SinkHandle>,
    /// Counters of this queue at this sink.
    pub metrics: DeliveryMetrics,
    /// All elements go to one destination: which one, as soon as an element was routed.
    only: Option<OnceLock<DestinationKey>>,
}

impl SinkRoute {
    fn new(spec: RouteSpec, handle: Arc<SinkHandle>, metrics: DeliveryMetrics) -> SinkRoute {
        let only = (!spec.target.varies(About::Route)).then(OnceLock::new);
        SinkRoute { spec, handle, metrics, only }
    }

    /// Returns the one destination of all elements, if there is one: it is this element's.
    pub fn only(&self, destination: &Destination) -> Option<DestinationKey> {
        self.only.as_ref().map(|only| *only.get_or_init(|| DestinationKey::of(destination, None)))
    }

    /// Returns the one destination of all elements, if there is one and an element was routed.
    pub fn known(&self) -> Option<DestinationKey> {
        self.only.as_ref().and_then(|only| only.get().copied())
    }
}

/// The sink that the dead letters of a queue are forwarded to.
pub struct DeadLetterTarget {
    /// The part of the configuration.
    pub spec: RouteSpec,
    /// The sink.
    pub handle: Arc<SinkHandle>,
}

/// The sink that takes the records of a queue's elements.
pub struct AuditTrail {
    /// The part of the configuration.
    pub spec: AuditSpec,
    /// The destination of the records.
    pub route: SinkRoute,
}

/// The context of one queue at work.
pub struct Queue {
    /// The part of the configuration.
    pub spec: Arc<QueueSpec>,
    /// The store of its elements.
    pub store: Arc<dyn Store>,
    /// The sinks of its elements, in the order of the configuration.
    pub routes: Vec<SinkRoute>,
    /// The context that all queues share.
    pub process: Arc<Process>,
    /// The log lines and counters of the queue.
    pub events: QueueEvents,
    /// Nothing new is claimed: the process stops, or the queue is changed or removed.
    pub stopping: CancellationToken,
    /// Elements at a sink are given up and released.
    pub abandon: CancellationToken,
    /// The time for writing verdicts is up as well.
    pub give_up: CancellationToken,
    /// The claimer, the deliveries and settlements of the queue.
    pub tasks: TaskTracker,
    /// The bound on what the queue may have in flight.
    pub budget: Budget,
    /// The alarm clock of its claimer.
    pub alarm: Alarm,
    /// The progress of its claimer.
    pub progress: ClaimProgress,
    /// The failed attempts that this process saw.
    pub history: QueueAttempts,
    /// The recent deliveries of this process.
    pub recent: RecentDeliveries,
    /// The sink that its dead letters are forwarded to.
    pub dead_letter_to: Option<Box<DeadLetterTarget>>,
    /// The trail that takes records of its elements.
    pub audit: Option<Box<AuditTrail>>,
    /// Knocks when one was stored.
    pub dead_letters: Notify,
    /// Rings when something of a queue in order comes to rest: what is handed over, waits, is written, or leased.
    quiet: Notify,
    /// The bound on elements in flight, where it adapts.
    adaptive: Option<Adaptive>,
    /// The bound beside queues that keep up.
    share: Share,
    pub(super) hold: Mutex<Circuit>,
    /// The pauses of the queue and its sinks.
    pub(super) pause: PauseBoard,
    rate: Option<Mutex<Bucket>>,
    hints: Mutex<Hints>,
    /// Payloads that the codec has refused in a row.
    refused: AtomicU32,
    /// Ghosts want a turn of the sweep.
    upkeep_wanted: AtomicBool,
    /// The latest Redis time in ms at which a lease of the queue, and so the order, was renewed.
    renewed_ms: AtomicI64,
    /// The cluster moves the queue's slot.
    pub(super) slot_migrating: AtomicBool,
    /// The latest time by Redis's clock at which nothing was seen to be due: an element that appears with an earlier due
    /// time was overdue when it was offered.
    nothing_due_ms: AtomicI64,
    settled: AtomicU64,
    released: AtomicU64,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Queue({})", self.spec.id)
    }
}

impl Queue {
    /// Creates the context of a queue that is put to work. `handle` finds a sink by its name; the configuration has
    /// checked that it exists.
    pub fn new(
        spec: Arc<QueueSpec>,
        process: Arc<Process>,
        store: Arc<dyn Store>,
        events: QueueEvents,
        handle: impl Fn(&str) -> Option<Arc<SinkHandle>>,
    ) -> Arc<Self> {
        let found = spec.to.iter().filter_map(|route| {
            let handle = handle(&route.sink)?;
            Some(SinkRoute::new(route.clone(), handle, events.metrics().to(&route.sink)))
        });
        // No room to grow: collected, one route would get that of four.
        let mut routes = Vec::with_capacity(spec.to.len());
        routes.extend(found);
        let dead_letter_to = spec
            .dead_letter_to
            .as_deref()
            .and_then(|to| Some(Box::new(DeadLetterTarget { spec: to.clone(), handle: handle(&to.sink)? })));
        let audit = spec.audit.as_deref().and_then(|audit| {
            let sink = &audit.route.sink;
            let route = SinkRoute::new(audit.route.clone(), handle(sink)?, events.metrics().to(sink));
            Some(Box::new(AuditTrail { spec: audit.clone(), route }))
        });
        let (adaptive, count) = match spec.max_in_flight {
            MaxInFlight::Auto => (Some(Adaptive::new()), Adaptive::FIRST),
            MaxInFlight::Fixed(n) => (None, u64::from(n)),
        };
        Arc::new(Queue {
            store,
            routes,
            stopping: process.stopping.child_token(),
            abandon: process.abandon.child_token(),
            give_up: process.give_up.child_token(),
            tasks: TaskTracker::new(),
            budget: Budget::new(count, spec.max_in_flight_bytes),
            adaptive,
            share: Share::default(),
            alarm: Alarm::new(),
            progress: ClaimProgress::default(),
            quiet: Notify::new(),
            history: process.events.attempts().queue(&spec.id),
            recent: RecentDeliveries::default(),
            dead_letter_to,
            audit,
            dead_letters: Notify::new(),
            hold: Mutex::new(Circuit::hold()),
            pause: PauseBoard::default(),
            rate: spec.max_rate.as_deref().map(|rate| Mutex::new(Bucket::new(*rate, Instant::now()))),
            hints: Mutex::default(),
            refused: 0.into(),
            upkeep_wanted: false.into(),
            renewed_ms: i64::MIN.into(),
            slot_migrating: false.into(),
            nothing_due_ms: i64::MIN.into(),
            settled: AtomicU64::new(0),
            released: AtomicU64::new(0),
            events,
            process,
            spec,
        })
    }

    /// Returns the server that holds the queue.
    pub fn home(&self) -> &dyn QueueServer {
        self.store.home()
    }

    /// Notes the Redis time at which a claim or an extension has run.
    pub fn renewed(&self, now_ms: i64) {
        self.home().observe(now_ms);
        self.renewed_ms.fetch_max(now_ms, Ordering::Relaxed);
    }

    /// Returns the Redis time in ms at which the order ends, if nothing renews it from here on.
    pub fn order_ends_ms(&self) -> i64 {
        self.home().now_ms().max(self.renewed_ms.load(Ordering::Relaxed)).saturating_add(millis(self.spec.lease))
    }

    /// Creates the room for what elements grow by, of which nothing is taken yet.
    pub fn growth(&self) -> Growth {
        Growth::none(&self.budget, self.process.budget_of(&self.spec.redis))
    }

    /// Waits for room for what elements grow by. Cancel safe.
    pub async fn grown(&self, bytes: u64) -> Growth {
        Growth::of(&self.budget, self.process.budget_of(&self.spec.redis), bytes).await
    }

    /// Returns the number of payloads that the codec has refused in a row.
    pub fn refused_in_a_row(&self) -> u32 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Notes the answer of the codec to a payload.
    pub fn decoded(&self, said: CodecSaid) {
        match said {
            CodecSaid::Nothing => {}
            CodecSaid::Refused => {
                self.refused.fetch_add(1, Ordering::Relaxed);
            }
            CodecSaid::Read | CodecSaid::Opaque if self.refused_in_a_row() == 0 => {}
            CodecSaid::Read | CodecSaid::Opaque => self.refused.store(0, Ordering::Relaxed),
        }
    }

    /// Returns whether a sink may have had an element with this header of which only the confirmation is known: by the
    /// name of a sink that is none of the queue's, as after a change of its name.
    pub fn may_have_had(&self, header: &Header) -> bool {
        let is_ours = |hash: &u64| self.routes.iter().any(|route| route.handle.hash == *hash);
        header.confirmed.iter().any(|hash| *hash != RECORD_PENDING && !is_ours(hash))
    }

    /// Returns the list that exactly-once pushes go to: the queue's only destination, if it asks for that.
    pub fn exactly_once(&self) -> Option<(&Bytes, Side)> {
        match self.routes.as_slice() {
            [SinkRoute { spec, .. }] => spec.target.redis_write()?.push_with_verdict(),
            _ => None,
        }
    }

    /// Returns whether deliveries are recorded, so that no element leaves together with others of its claim unrecorded.
    pub fn records_deliveries(&self) -> bool {
        self.audit.as_ref().is_some_and(|trail| trail.spec.records(AuditFate::Delivered))
    }

    /// Returns the degree to which elements in order go to their sink together. Not at all where several sinks have to
    /// confirm each of them, or a record, and not where some are looked for first.
    pub fn together(&self) -> Together {
        match self.routes.as_slice() {
            [route] if !route.spec.looks() && self.exactly_once().is_none() && !self.records_deliveries() => {
                route.handle.together(matches!(self.spec.order.as_deref(), Some(Ordered::Key(_))))
            }
            _ => Together::Never,
        }
    }

    /// Returns the sinks without which no element is delivered, each with the one destination that all elements have
    /// there, if it is known.
    pub fn needed(&self) -> impl Iterator<Item = (&Arc<SinkHandle>, Option<DestinationKey>)> {
        let trail = self.audit.as_ref().filter(|_| self.records_deliveries());
        let routes = self.routes.iter().chain(trail.map(|trail| &trail.route));
        routes.map(|route| (&route.handle, route.known()))
    }

    /// Returns whether nothing that only this context knows would be lost with it.
    pub fn may_be_forgotten(&self) -> bool {
        let full = |rate: &Mutex<Bucket>| lock(rate).is_full(Instant::now());
        self.dead_letter_to.is_none()
            && self.history.is_empty()
            && self.recent.is_empty(Instant::now())
            && self.hold.lock().is_clean()
            && !self.upkeep_wanted.load(Ordering::Relaxed)
            && self.rate.as_ref().is_none_or(full)
    }

    /// Starts a task of the queue, as [`Process::spawn`] does.
    pub fn spawn(self: &Arc<Self>, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        self.process.spawn(name, self.tasks.track_future(task));
    }

    /// Begins a task of the queue that then waits, as [`Process::spawn_deferred`] does.
    pub fn spawn_deferred(self: &Arc<Self>, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        self.process.spawn_deferred(name, self.tasks.track_future(task));
    }

    /// Reports that another daemon delivers in order until then, as Redis says.
    pub fn stands_by(&self, until_ms: i64) {
        self.events.stands_by(until_ms.saturating_sub(self.home().now_ms()));
    }

    /// Reports that this process delivers, as Redis says; that is news where the queue is in order.
    pub fn is_active(&self) {
        if self.spec.order.is_some() {
            self.events.delivers_in_order();
        }
    }

    /// Asks for a turn of the source's upkeep.
    pub fn want_upkeep(&self) {
        self.upkeep_wanted.store(true, Ordering::Relaxed);
        self.process.upkeep.notify_one();
    }

    /// Returns whether a turn was asked for; it counts as begun.
    pub fn take_upkeep(&self) -> bool {
        self.upkeep_wanted.swap(false, Ordering::Relaxed)
    }

    /// Counts elements that have ended with a verdict.
    pub fn count_settled(&self, elements: usize) {
        self.settled.fetch_add(elements as u64, Ordering::Relaxed);
    }

    /// Counts an element that goes back undelivered.
    pub fn count_released(&self) {
        self.released.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of elements that have ended with a verdict.
    pub fn settled(&self) -> u64 {
        self.settled.load(Ordering::Relaxed)
    }

    /// Returns the number of elements that went back undelivered.
    pub fn released(&self) -> u64 {
        self.released.load(Ordering::Relaxed)
    }

    /// Notes whether a claim took something, and whether it left something that is due.
    pub fn claimed(&self, took: bool, left: bool) {
        let now = Instant::now();
        self.share.claimed(left, now);
        if took && !left {
            self.process.neighbours.keeps_up(&self.spec.id, now);
        }
    }

    /// Adapts the bound on what is in flight to the time that these elements have been in it, and to the other queues.
    pub fn adapt(&self, took: Duration, elements: usize) {
        let now = Instant::now();
        let elements = elements as u64;
        let in_flight = self.budget.used().count;
        let own = match (&self.adaptive, self.spec.max_in_flight) {
            (Some(adaptive), _) => adaptive.answered(took, elements, in_flight),
            (None, MaxInFlight::Fixed(count)) => u64::from(count),
            (None, MaxInFlight::Auto) => return,
        };
        let beside = || self.process.neighbours.has_beside(&self.spec.id, now);
        let share = self.share.answered(elements, in_flight, beside, now);
        let limit = share.map_or(own, |share| share.min(own));
        if self.budget.limit().count != limit {
            self.budget.set_count_limit(limit);
        }
    }

    /// Tells the claimer of a queue in order that a part of what is in flight has come to rest.
    pub fn came_to_rest(&self) {
        if self.spec.order.is_some() {
            self.quiet.notify_one();
        }
    }

    /// Waits until another part of what is in flight has come to rest. Cancel safe.
    pub async fn rests(&self) {
        self.quiet.notified().await;
    }

    /// Notes that nothing was due at this time by Redis's clock.
    pub fn saw_nothing_due(&self, redis_ms: i64) {
        self.nothing_due_ms.fetch_max(redis_ms, Ordering::Relaxed);
    }

    /// Returns the latest time for which that was noted; `i64::MIN` before the first.
    pub fn nothing_due_ms(&self) -> i64 {
        self.nothing_due_ms.load(Ordering::Relaxed)
    }

    /// Returns the hints of earlier scripts about large elements.
    pub fn hints(&self) -> MutexGuard<'_, Hints> {
        self.hints.lock()
    }

    /// Takes from the rates of the queue and of all its sinks: how many may be claimed, when to ask for more, and which
    /// sink is the reason (none: the queue itself).
    pub fn take_rate(&self, want: u32) -> (u32, Instant, Option<&SinkRoute>) {
        let now = Instant::now();
        let mut granted = want;
        let mut next_at = now;
        let mut slowest = None;
        // One lock at a time: two queues may name the same sinks in another order.
        let mut taken: Vec<&Mutex<Bucket>> = Vec::new();
        let sinks = self.routes.iter().filter_map(|route| Some((route.handle.rate()?, Some(route))));
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

    /// Gives back the unused part of a claim.
    pub fn refund_rate(&self, unused: u32) {
        for bucket in self.rate.iter().chain(self.routes.iter().filter_map(|route| route.handle.rate())) {
            lock(bucket).refund(unused);
        }
    }
}

fn lock(bucket: &Mutex<Bucket>) -> MutexGuard<'_, Bucket> {
    bucket.lock()
}
