//! A sink as the pipeline uses it: with its breaker, its rate and its record of what it confirmed. Shared by all queues.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use crate::clock::Instant;
use crate::message::{Class, Failure, Outcome};
use crate::pipeline::limits::circuit::{Allow, Circuit, LONGEST_WAIT, Transition, Why};
use crate::pipeline::limits::rate::Bucket;
use crate::sink::{Answered, Answers, Outbound, Sink};
use crate::source::ledger::sink_hash;
use crate::telemetry::events::SinkEvents;

/// Beyond its own time-out a sink is given this much; then it is taken for hung.
const GRACE: Duration = Duration::from_secs(1);

/// One configured sink at work.
pub struct SinkHandle {
    /// The name in the configuration.
    pub name: Arc<str>,
    /// The name as entry headers keep it.
    pub hash: u64,
    sink: Arc<dyn Sink>,
    breaker: Mutex<Circuit>,
    rate: Option<Mutex<Bucket>>,
    /// Redis ms of the last element that the sink confirmed.
    confirmed_ms: AtomicI64,
    /// Answers to elements so far, those about the sink only.
    answers: AtomicU64,
    /// Whether its last answer, to an element or to a probe, was good.
    known_up: AtomicBool,
    events: SinkEvents,
    /// Counts changes of any gate; claimers that wait look again.
    gates: watch::Sender<u64>,
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
            breaker: Mutex::new(Circuit::breaker()),
            rate: max_rate.map(|rate| Mutex::new(Bucket::new(rate, Instant::now()))),
            confirmed_ms: AtomicI64::new(i64::MIN),
            answers: AtomicU64::new(0),
            known_up: false.into(),
            events,
            gates,
        }
    }

    /// Whether the breaker lets elements through.
    pub fn allows(&self) -> Allow {
        let breaker = self.breaker();
        // Asked for every element: while it is closed, the time does not matter.
        breaker.why().map_or(Allow::Free, |_| breaker.allows(Instant::now()))
    }

    /// Takes the one probe that a half-open breaker permits; `false` if there is none to take.
    pub fn start_probe(&self) -> bool {
        let mut breaker = self.breaker();
        let allowed = breaker.allows(Instant::now()) == Allow::Probe;
        if allowed {
            breaker.probe_started();
        }
        allowed
    }

    /// The probe ended without an answer.
    pub fn abandon_probe(&self) {
        self.breaker().probe_abandoned(Instant::now());
        self.gates.send_modify(|n| *n += 1);
    }

    /// The bucket of `max_rate`, if there is one.
    pub fn rate(&self) -> Option<&Mutex<Bucket>> {
        self.rate.as_ref()
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

    /// The longest that [`deliver`](SinkHandle::deliver) takes.
    pub fn longest(&self) -> Duration {
        self.sink.timeout().saturating_add(GRACE)
    }

    /// Whether the sink has confirmed anything since this Redis time.
    pub fn moved_since(&self, ms: i64) -> bool {
        self.confirmed_ms.load(Ordering::Relaxed) >= ms
    }

    /// Hands one element to the sink and waits for its answer, which the breaker sees as well.
    pub async fn deliver(&self, message: Outbound) -> Outcome {
        let (sent, now_ms) = (Instant::now(), message.now_ms);
        let outcome = self.in_time(self.sink.deliver(message)).await.unwrap_or_else(|| Err(self.hung()));
        if matches!(&outcome, Err(failure) if failure.is_stale()) {
            return outcome; // It says something about us, nothing about the sink.
        }
        let took = sent.elapsed();
        self.events.metrics().answered(&outcome, took);
        self.observe(&outcome, now_ms.saturating_add(i64::try_from(took.as_millis()).unwrap_or(i64::MAX)));
        outcome
    }

    /// Hands a batch to the sink; [`Delivery::wave`] brings the answers, which the breaker sees as well.
    pub fn deliver_all(self: &Arc<Self>, batch: Vec<Outbound>) -> Delivery {
        let (answers, now_ms) = (Answers::new(batch.len()), batch.first().map_or(0, |message| message.now_ms));
        let alone = batch.len() == 1;
        let (handle, into) = (self.clone(), answers.clone());
        let delivering = async move {
            let delivered = AssertUnwindSafe(handle.sink.deliver_all(batch, &into)).catch_unwind();
            match handle.in_time(delivered).await {
                Some(Ok(())) => {}
                Some(Err(_panic)) => into.open().into_iter().for_each(|place| into.put_panic(place)),
                None => into.open().into_iter().for_each(|place| into.put(place, Err(handle.hung()))),
            }
        };
        let delivering = Some(delivering.boxed());
        Delivery { handle: self.clone(), answers, delivering, alone, sent: Instant::now(), now_ms }
    }

    /// What the sink answers; `None` if it is hung.
    ///
    /// The grace begins when the end of the time-out is noticed: in a process that was suspended all timers end at once, and
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

    /// Confirmed outside of the sink: by the script that pushes exactly once.
    pub fn confirmed(&self, now_ms: i64) {
        self.observe(&Ok(()), now_ms);
    }

    fn observe(&self, outcome: &Outcome, now_ms: i64) {
        let transition = {
            let mut breaker = self.breaker();
            match outcome {
                Ok(()) => breaker.on_success(),
                Err(failure) => breaker.on_failure(failure.class, Instant::now(), fastrand::f64()),
            }
        };
        self.answers.fetch_add(1, Ordering::Relaxed);
        if outcome.is_ok() {
            self.confirmed_ms.fetch_max(now_ms, Ordering::Relaxed);
        }
        match (transition, outcome) {
            (Some(Transition::Opened(Why::Blocked)), Err(failure)) => self.is_full(failure),
            (Some(Transition::Opened(_)), Err(failure)) => {
                self.known_up.store(false, Ordering::Relaxed);
                self.events.down(failure);
            }
            (Some(Transition::Closed), _) | (None, Ok(())) => self.is_up(transition.is_some()),
            _ => {}
        }
        // A failed probe is no transition, but the waiting claimers have a new time to wait for.
        if transition.is_some() || outcome.is_err() {
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

    /// What came of a question that was asked after so many answers, and `quiet` after the last of them.
    pub fn probed(&self, answer: &Result<(), Failure>, answers: u64, quiet: Duration) {
        if self.answers() != answers {
            return;
        }
        let is_open = self.breaker().why().is_some();
        match answer {
            Ok(()) if !is_open => self.is_up(false),
            // While something is due, an element tries the sink before that: the queues have nothing for it.
            Ok(()) if quiet > LONGEST_WAIT.saturating_add(self.longest().saturating_mul(2)) => {
                self.breaker().on_success();
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

    /// It answers, and takes nothing for the moment.
    fn is_full(&self, failure: &Failure) {
        // Confirmed again, it is up again.
        self.known_up.store(false, Ordering::Relaxed);
        self.events.blocked(failure);
    }

    /// Flushes and closes the sink.
    pub async fn close(&self) {
        self.sink.close().await;
    }

    fn breaker(&self) -> MutexGuard<'_, Circuit> {
        self.breaker.lock()
    }
}

/// How long confirmed elements of a batch wait for its others before they are written: what a crash delivers twice.
const WAVE: Duration = Duration::from_millis(20);

/// A batch at a sink.
pub struct Delivery {
    handle: Arc<SinkHandle>,
    answers: Answers,
    /// `None` when every element has its answer.
    delivering: Option<BoxFuture<'static, ()>>,
    /// A batch of one.
    alone: bool,
    sent: Instant,
    now_ms: i64,
}

impl Delivery {
    /// Brings every element to the sink, as far as the sink has room.
    pub fn begin(&mut self) {
        // Unconstrained: the runtime would let only so many of them get anywhere.
        if let Some(delivering) = &mut self.delivering
            && tokio::task::unconstrained(delivering).now_or_never().is_some()
        {
            self.delivering = None;
        }
    }

    /// The next answers: all that come within a moment, or all that are left. `None` after the last. Cancel safe.
    pub async fn wave(&mut self) -> Option<Answered> {
        loop {
            match &mut self.delivering {
                // No other waits for it.
                Some(delivering) if self.alone => {
                    delivering.await;
                    self.delivering = None;
                }
                Some(delivering) => {
                    // Order: what is complete need not wait. Both may be left at any time.
                    tokio::select! {
                        biased;
                        () = delivering => self.delivering = None,
                        () = tokio::time::sleep(WAVE) => {}
                    }
                }
                None => {}
            }
            let answered = self.answers.take();
            if !answered.is_empty() {
                self.observe(&answered);
                return Some(answered);
            }
            self.delivering.as_ref()?;
        }
    }

    /// Whether no answer will come any more.
    pub fn is_over(&self) -> bool {
        self.delivering.is_none()
    }

    /// When it was handed over, in Redis ms.
    pub fn sent_ms(&self) -> i64 {
        self.now_ms
    }

    fn observe(&self, answered: &Answered) {
        let took = self.sent.elapsed();
        let metrics = self.handle.events.metrics();
        let at_ms = self.now_ms.saturating_add(i64::try_from(took.as_millis()).unwrap_or(i64::MAX));
        for _ in &answered.confirmed {
            metrics.answered(&Ok(()), took);
        }
        if !answered.confirmed.is_empty() {
            self.handle.observe(&Ok(()), at_ms);
        }
        // It says something about us, nothing about the sink.
        for (_, failure) in answered.failed.iter().filter(|(_, failure)| !failure.is_stale()) {
            let outcome = Err(failure.clone());
            metrics.answered(&outcome, took);
            self.handle.observe(&outcome, at_ms);
        }
    }
}
