//! A sink as the pipeline uses it: with its breaker, those of its destinations, its rate and its record of what it confirmed.
//! Shared by all queues.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::deliver::blame::{Breaker, Concern, concerns_destination, concerns_sink, scope};
use crate::deliver::destinations::{Admission, Ask, DestinationKey, DestinationTrouble, SinkDestinations};
use crate::deliver::look_outages::LookOutages;
use crate::deliver::redact::{name, redacted};
use crate::deliver::together::Together;
use crate::limits::budget::Room;
use crate::limits::circuit::{Allow, LONGEST_WAIT, OpenReason, Transition};
use crate::limits::rate::Bucket;
use delaybridge_core::clock::Instant;
use delaybridge_core::message::{About, Class, Failure, Outcome};
use delaybridge_ledger::sink_hash;
use delaybridge_sink::{Answers, Destination, Lookup, Outbound, RunSink, Sink, Target};
use delaybridge_telemetry::events::SinkEvents;
use delaybridge_telemetry::labels::LookResult;
use delaybridge_telemetry::metrics::SinkMetrics;

/// Beyond its own time-out a sink is given this much; then it is taken for hung.
const GRACE: Duration = Duration::from_secs(1);

/// One configured sink at work.
pub struct SinkHandle {
    /// The name in the configuration.
    pub name: Arc<str>,
    /// The name as entry headers keep it.
    pub hash: u64,
    sink: Arc<dyn Sink>,
    breaker: Mutex<Breaker>,
    destinations: Mutex<SinkDestinations>,
    rate: Option<Mutex<Bucket>>,
    /// The destinations that cannot be asked what they have.
    looks: Mutex<LookOutages>,
    /// Redis ms of the last element that the sink confirmed.
    confirmed_ms: AtomicI64,
    /// Answers to elements so far, those about the sink only.
    answers: AtomicU64,
    /// Whether its last answer, to an element or to a probe, was good.
    known_up: AtomicBool,
    events: SinkEvents,
    /// Another sink has its name now, or none: it finishes what it has.
    retired: CancellationToken,
    /// Counts changes of any gate; claimers that wait look again.
    gates: watch::Sender<u64>,
}

/// A probe that was started: it is to be [ended](SinkHandle::abandon_probe) if no answer ends it.
#[derive(Debug, Clone, Copy)]
pub struct StartedProbe {
    /// That of the breaker of the sink.
    sink: bool,
    /// That of the destination.
    lane: Option<DestinationKey>,
}

impl std::fmt::Debug for SinkHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SinkHandle({})", self.name)
    }
}

impl SinkHandle {
    /// Puts a sink to work.
    pub fn new(
        name: Arc<str>,
        sink: Arc<dyn Sink>,
        max_rate: Option<f64>,
        events: SinkEvents,
        gates: watch::Sender<u64>,
    ) -> Self {
        SinkHandle {
            hash: sink_hash(&name),
            name,
            sink,
            breaker: Mutex::new(Breaker::new(Instant::now())),
            destinations: Mutex::new(SinkDestinations::new(Instant::now())),
            rate: max_rate.map(|rate| Mutex::new(Bucket::new(rate, Instant::now()))),
            looks: Mutex::default(),
            confirmed_ms: AtomicI64::new(i64::MIN),
            answers: AtomicU64::new(0),
            known_up: false.into(),
            events,
            retired: CancellationToken::new(),
            gates,
        }
    }

    /// Retires the handle: another sink or none has its name from here on, so its events are shown no more.
    pub fn retire(&self) {
        self.events.retire();
        self.retired.cancel();
    }

    /// Ends when the sink is [retired](SinkHandle::retire).
    pub async fn retired(&self) {
        self.retired.cancelled().await;
    }

    /// Returns the destination, or the part of it that the element goes to, as its state is kept.
    pub fn lane(&self, destination: &Destination) -> DestinationKey {
        DestinationKey::of(destination, self.sink.part(destination))
    }

    /// Returns the number of copies that the sink keeps of a body; see [`Sink::copies`].
    pub fn copies(&self, bytes: usize) -> u64 {
        self.sink.copies(bytes)
    }

    /// Returns whether only a part of this destination may be in trouble.
    pub fn has_parts(&self, destination: &Destination) -> bool {
        self.sink.part(destination).is_some()
    }

    /// Returns whether the breakers let elements through: that of the sink, and that of the destination where all
    /// elements of the caller have `only` that one.
    pub fn allows(&self, only: Option<DestinationKey>) -> Allow {
        let now = Instant::now();
        let sink = self.breaker().allows(only, now);
        sink.and(only.map_or(Allow::Free, |lane| self.destinations().allows(lane, now)))
    }

    /// Takes the one probe that half-open breakers permit; `None` if there is none to take.
    pub fn start_probe(&self, only: Option<DestinationKey>) -> Option<StartedProbe> {
        let now = Instant::now();
        // Both are looked at and taken under both locks. Else another queue may take the probe of the sink in between, and
        // that of the destination would be taken for an element that is never sent: nothing would end it.
        let mut breaker = self.breaker();
        let mut destinations = self.destinations();
        let sink = breaker.allows(only, now);
        let lane = only.map_or(Allow::Free, |lane| destinations.allows(lane, now));
        if sink.and(lane) != Allow::Probe {
            return None;
        }
        if sink == Allow::Probe {
            breaker.circuit.probe_started();
        }
        let lane = only.filter(|key| lane == Allow::Probe && destinations.start_probe(*key, now));
        Some(StartedProbe { sink: sink == Allow::Probe, lane })
    }

    /// Ends a probe that got no answer.
    pub fn abandon_probe(&self, started: StartedProbe) {
        let now = Instant::now();
        if started.sink {
            self.breaker().circuit.probe_abandoned(now);
        }
        if let Some(lane) = started.lane {
            self.destinations().abandon_probe(lane, now);
        }
        self.gates.send_modify(|n| *n += 1);
    }

    /// Decides about elements of a queue with this room, one after the other.
    pub fn admit(&self, room: Room, asks: impl IntoIterator<Item = Ask>) -> Vec<Admission> {
        let now = Instant::now();
        // The breaker first, as for a probe.
        let mut breaker = self.breaker();
        let mut destinations = self.destinations();
        let admitted = asks.into_iter().map(destinations.admit(room, breaker.pace(), now)).collect();
        let forgotten = destinations.forget_idle(now);
        let in_trouble = destinations.in_trouble();
        drop((destinations, breaker));
        if !forgotten.is_empty() {
            let keys: Vec<u64> = forgotten.into_iter().map(DestinationKey::id).collect();
            self.events.destinations_forgotten(&keys, in_trouble);
        }
        admitted
    }

    /// Releases what an admitted element held.
    pub fn left(&self, lane: DestinationKey, size: u64, probe: bool) {
        self.destinations().left(lane, size, probe, Instant::now());
        if probe {
            // Without an answer, another may be made at once.
            self.gates.send_modify(|n| *n += 1);
        }
    }

    /// Returns the trouble of the destination of an element that it refused.
    pub fn trouble(&self, lane: DestinationKey) -> DestinationTrouble {
        self.destinations().trouble(lane, Instant::now())
    }

    /// Returns the scope of a failure at this destination, given what works.
    pub fn scope(&self, lane: DestinationKey, failure: &Failure) -> About {
        scope(failure, self.destinations().others_work(lane, Instant::now()))
    }

    /// Returns the wait of an element that its destination refused.
    pub fn wait(&self, lane: DestinationKey) -> Duration {
        self.destinations().wait(lane, Instant::now())
    }

    /// Returns the bucket of `max_rate`, if there is one.
    pub fn rate(&self) -> Option<&Mutex<Bucket>> {
        self.rate.as_ref()
    }

    /// Returns `max_rate`, if there is one.
    pub fn max_rate(&self) -> Option<f64> {
        self.rate().map(|bucket| bucket.lock().per_second())
    }

    /// Waits until `max_rate` lets something through, and takes at most `want` of it.
    pub async fn grant(&self, want: u32) -> u32 {
        let Some(bucket) = &self.rate else { return want };
        loop {
            let got = bucket.lock().take(Instant::now(), want);
            if got.granted > 0 {
                return got.granted;
            }
            tokio::time::sleep(got.next_at.since(Instant::now()).max(Duration::from_millis(1))).await;
        }
    }

    /// Ends when the sink's worker has ended by itself: nothing can be delivered there any more.
    pub async fn ended(&self) {
        self.sink.ended().await;
    }

    /// Returns the longest that [`deliver`](SinkHandle::deliver) takes, with a look before it.
    pub fn longest(&self) -> Duration {
        let look = self.sink.lookup().map_or(Duration::ZERO, |_| self.sink.timeout());
        self.sink.timeout().saturating_add(look).saturating_add(GRACE)
    }

    /// Returns whether the sink has confirmed anything since this Redis time.
    pub fn sink_moved_since(&self, ms: i64) -> bool {
        self.confirmed_ms.load(Ordering::Relaxed) >= ms
    }

    /// Returns whether the destination has confirmed anything since this Redis time.
    pub fn moved_since(&self, lane: DestinationKey, ms: i64) -> bool {
        self.sink_moved_since(ms) && self.destinations().moved_since(lane, ms)
    }

    /// Hands one element for this target to the sink and waits for its answer, which the breakers see as well.
    pub async fn deliver(&self, message: Outbound, target: &dyn Target) -> Outcome {
        let sent = Instant::now();
        let now_ms = message.now_ms;
        let destination = message.destination.clone();
        let outcome = self.in_time(self.sink.deliver(message)).await.unwrap_or_else(|| Err(self.hung()));
        if matches!(&outcome, Err(failure) if failure.is_stale()) {
            return outcome; // It says something about us, nothing about the sink.
        }
        let took = sent.elapsed();
        self.events.metrics().answered(&outcome, took);
        let at_ms = now_ms.saturating_add(i64::try_from(took.as_millis()).unwrap_or(i64::MAX));
        match &outcome {
            Ok(()) => self.confirmed_at(Some(self.lane(&destination)), at_ms),
            Err(failure) => self.failed(&destination, target, failure),
        }
        outcome
    }

    /// Returns the degree to which elements in order, by key or all of them, go to the sink together.
    pub fn together(&self, by_key: bool) -> Together {
        match self.sink.runs() {
            None => Together::Never,
            Some(runs) if by_key && !runs.joins_keys() => Together::FirstOfKeys,
            Some(_) => Together::Runs,
        }
    }

    /// Says that runs will come.
    pub(super) fn prepare_runs(&self) {
        self.sink.runs().into_iter().for_each(RunSink::prepare);
    }

    /// Returns the line that elements with this destination are on; `None`: one goes at a time. See
    /// [`RunSink`](delaybridge_sink::RunSink).
    pub(super) fn line(&self, destination: &Destination) -> Option<DestinationKey> {
        let part = self.sink.runs()?.line(destination)?;
        Some(DestinationKey::of(destination, Some(part)))
    }

    /// Returns the sink's way to look for what earlier attempts have left, if it has one.
    pub(super) fn lookup(&self) -> Option<&dyn Lookup> {
        self.sink.lookup()
    }

    /// Returns the longest that the sink takes for a delivery.
    pub(super) fn timeout(&self) -> Duration {
        self.sink.timeout()
    }

    /// Records a look that has said whether the destination has an element.
    pub(super) fn looked(&self, destination: &Destination, is_there: bool) {
        self.looks.lock().is_over(self.lane(destination));
        self.events.metrics().looked(if is_there { LookResult::There } else { LookResult::Absent });
    }

    /// Records a failed look for an element. Returns whether the element waits for the next one, and is not sent
    /// meanwhile.
    pub(super) fn look_failed(&self, destination: &Destination, failure: &Failure) -> bool {
        let waits = self.looks.lock().waits(self.lane(destination), failure.class, Instant::now());
        self.events.metrics().looked(if waits { LookResult::Held } else { LookResult::Failed });
        self.events.look_failed(failure, waits);
        waits
    }

    /// Hands elements to the sink in their order, see [`RunSink`](delaybridge_sink::RunSink), and puts the answer of
    /// each into `answers`.
    pub(super) fn deliver_run<'a>(&'a self, run: Vec<Outbound>, answers: &'a Answers) -> impl Future<Output = ()> + 'a {
        let delivered = match self.sink.runs() {
            Some(sink) => sink.deliver_run(run, answers),
            None => self.sink.deliver_all(run, answers),
        };
        self.answered(delivered, answers)
    }

    /// Hands a batch to the sink and puts the answer of each element into `answers`.
    pub(super) fn deliver_all<'a>(
        &'a self,
        batch: Vec<Outbound>,
        answers: &'a Answers,
    ) -> impl Future<Output = ()> + 'a {
        self.answered(self.sink.deliver_all(batch, answers), answers)
    }

    /// Waits for a delivery, and gives an answer to each element that has none from it.
    async fn answered(&self, delivered: impl Future<Output = ()>, answers: &Answers) {
        match self.in_time(AssertUnwindSafe(delivered).catch_unwind()).await {
            Some(Ok(())) => {}
            Some(Err(_panic)) => answers.open().into_iter().for_each(|place| answers.put_panic(place)),
            None => answers.open().into_iter().for_each(|place| answers.put(place, Err(self.hung()))),
        }
    }

    /// Waits for what the sink answers; `None` if it is hung.
    ///
    /// The grace begins when the end of the time-out is noticed: in a process that was suspended all timers end at
    /// once, and
    /// the sink still has to say of each element whether it was sent.
    async fn in_time<T>(&self, delivering: impl Future<Output = T>) -> Option<T> {
        let mut delivering = std::pin::pin!(delivering);
        match tokio::time::timeout(self.sink.timeout(), &mut delivering).await {
            Ok(answer) => Some(answer),
            Err(_) => tokio::time::timeout(GRACE, delivering).await.ok(),
        }
    }

    fn hung(&self) -> Failure {
        let text = format!("deliver to sink {}: no answer for {} s", self.name, self.longest().as_secs());
        Failure::new(Class::Ambiguous, "hung", text)
    }

    /// Records a confirmation outside of the sink: by the script that pushes exactly once.
    pub fn confirmed(&self, now_ms: i64) {
        self.confirmed_at(None, now_ms);
    }

    pub(super) fn confirmed_at(&self, lane: Option<DestinationKey>, now_ms: i64) {
        let transition = self.breaker().worked();
        self.answers.fetch_add(1, Ordering::Relaxed);
        self.confirmed_ms.fetch_max(now_ms, Ordering::Relaxed);
        let over = lane.map_or_else(Vec::new, |lane| {
            let mut destinations = self.destinations();
            let over = destinations.confirmed(lane, now_ms, Instant::now());
            // Under the lock: else a failure that comes later could be shown before it, and stay.
            for works in over.iter().filter(|works| works.shown) {
                self.events.destination_works(works.lane.id(), destinations.in_trouble());
            }
            over
        });
        self.is_up(transition.is_some());
        // Also where its trouble was not shown: claimers wait for it all the same.
        if transition.is_some() || !over.is_empty() {
            self.gates.send_modify(|n| *n += 1);
        }
    }

    /// Answers to elements so far; one that comes meanwhile says more than a probe.
    pub fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    /// Asks the sink whether it answers; `None` if it has nothing to ask.
    pub fn question(&self) -> Option<impl Future<Output = Result<(), Failure>> + '_> {
        let asking = self.sink.probe()?;
        let hung = || Failure::new(Class::Transient, "hung", format!("probe sink {}: no answer", self.name));
        Some(async move { self.in_time(asking).await.unwrap_or_else(|| Err(hung())) })
    }

    /// Takes in what came of a question that was asked after this many answers, and `quiet` after the last of them.
    pub fn probed(&self, answer: &Result<(), Failure>, answers: u64, quiet: Duration) {
        if self.answers() != answers {
            return;
        }
        let is_open = self.breaker().circuit.why().is_some();
        match answer {
            Ok(()) if !is_open => self.is_up(false),
            // While something is due, an element tries the sink before that: the queues have nothing for it.
            Ok(()) if quiet > LONGEST_WAIT.saturating_add(self.longest().saturating_mul(2)) => {
                self.breaker().worked();
                self.destinations().sink_answers();
                self.is_up(true);
                self.gates.send_modify(|n| *n += 1);
            }
            Err(failure) if !is_open && failure.class == Class::Backpressure => self.is_full(failure),
            Err(failure) if !is_open => {
                self.known_up.store(false, Ordering::Relaxed);
                self.events.silent(failure);
            }
            // The breaker is open, and says why.
            Ok(()) | Err(_) => {}
        }
    }

    /// Says that the sink is up, if that is news.
    fn is_up(&self, news: bool) {
        // Read first: every confirmed batch comes by.
        if news || !self.known_up.load(Ordering::Relaxed) {
            self.known_up.store(true, Ordering::Relaxed);
            self.events.up();
        }
    }

    /// Notes that the sink answers, and takes nothing for the moment.
    fn is_full(&self, failure: &Failure) {
        // Confirmed again, it is up again.
        self.known_up.store(false, Ordering::Relaxed);
        self.events.blocked(failure);
    }

    /// Shows a failure to the breakers that it concerns.
    pub(super) fn failed(&self, destination: &Destination, target: &dyn Target, failure: &Failure) {
        let lane = self.lane(destination);
        let now = Instant::now();
        let shown = redacted(failure, destination, target);
        let others_work = self.destinations().others_work(lane, now);
        let sink = concerns_sink(failure, lane, others_work);
        self.answers.fetch_add(1, Ordering::Relaxed);
        let transition = {
            let mut breaker = self.breaker();
            let transition = match sink {
                Concern::Failure(at) => Some(breaker.failed(at, failure.class)),
                Concern::None if breaker.circuit.is_probing() => Some(breaker.probe_failed(failure, lane)),
                Concern::None => None,
                Concern::Answer => Some(breaker.worked()),
            };
            // Why it is open now: the board shows the latest reason.
            transition.map(|transition| (transition, breaker.circuit.why()))
        };
        match transition {
            Some((_, Some(OpenReason::Blocked))) => self.is_full(&shown),
            Some((_, Some(_))) => {
                self.known_up.store(false, Ordering::Relaxed);
                self.events.down(&shown);
            }
            Some((Some(Transition::Closed), None)) => self.is_up(true),
            Some(_) | None => {}
        }
        if concerns_destination(failure, others_work) {
            // Where the sink is reported, or the queue will be, this is not.
            let held = failure.class == Class::TargetPermanent && !target.varies(scope(failure, others_work));
            let show = !matches!(sink, Concern::Failure(_)) && !held;
            let mut destinations = self.destinations();
            let news = destinations.failed(lane, failure.class, show, now, fastrand::f64());
            if news {
                let in_trouble = destinations.in_trouble();
                self.events.destination_in_trouble(lane.id(), &name(destination, target), &shown, in_trouble);
            }
        } else {
            self.destinations().inconclusive(lane, now, fastrand::f64());
        }
        // A failed probe is no transition, but the waiting claimers have a new time to wait for.
        self.gates.send_modify(|n| *n += 1);
    }

    /// Flushes and closes the sink.
    pub async fn close(&self) {
        self.sink.close().await;
    }

    pub(super) fn metrics(&self) -> &SinkMetrics {
        self.events.metrics()
    }

    fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock()
    }

    fn destinations(&self) -> MutexGuard<'_, SinkDestinations> {
        self.destinations.lock()
    }
}

#[cfg(test)]
mod tests;
