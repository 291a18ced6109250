//! A sink with scripted answers, for tests of the pipeline.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, TryFutureExt};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use delaybridge_core::clock::Instant;
use delaybridge_core::message::{Class, Failure, MessageId, Outcome};
use delaybridge_sink::{Answers, DeliveryMark, Destination, Lookup, Outbound, RunSink, Sink, behind};

/// A reaction of the sink to one delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Confirms.
    Confirm,
    /// Confirms after a while.
    ConfirmAfter(Duration),
    /// Takes the element, but answers with this failure.
    FailAfterTaking(Failure),
    /// Answers with this failure.
    Fail(Failure),
    /// Answers with this failure after a while.
    FailAfter(Duration, Failure),
    /// Takes the element and does not answer before the time-out.
    Hang,
    /// Panics.
    Panic,
}

/// Decides about deliveries that the script says nothing about.
type Decision = Box<dyn FnMut(&Outbound) -> Step + Send>;

/// A scripted sink. Steps of an id come first, then those of the next call, then the outage, then what
/// [`otherwise`](FakeSink::otherwise) decides, then confirmation.
#[derive(Debug)]
pub struct FakeSink {
    timeout: Duration,
    in_runs: bool,
    of_keys: bool,
    script: Mutex<FakeScript>,
    stalled: watch::Sender<bool>,
}

#[derive(Default)]
struct FakeScript {
    by_id: HashMap<MessageId, VecDeque<Step>>,
    by_call: VecDeque<Step>,
    outage: Option<Failure>,
    otherwise: Option<Decision>,
    attempts: Vec<Outbound>,
    taken: Vec<Outbound>,
    /// Deliveries under way, and the most of them at a time.
    outstanding: usize,
    most_at_once: usize,
    /// Whether runs were announced.
    prepared: bool,
    /// The lengths of the runs.
    runs: Vec<usize>,
    /// The bytes of their bodies, and the most of these at a time.
    bytes: usize,
    most_bytes: usize,
    probes: usize,
    closed: bool,
    /// Whether it looks for what has arrived.
    looks: bool,
    /// The failure of every look.
    blind: Option<Failure>,
    /// The number of elements that it was asked to look for.
    looked: usize,
    /// The marks of these elements, in order.
    marks: Vec<DeliveryMark>,
}

impl std::fmt::Debug for FakeScript {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Script({} attempts, {} taken)", self.attempts.len(), self.taken.len())
    }
}

/// A delivery is under way while this lives.
struct FakeDelivery<'a>(&'a FakeSink, usize);

impl Drop for FakeDelivery<'_> {
    fn drop(&mut self) {
        let mut script = self.0.script();
        script.outstanding -= 1;
        script.bytes -= self.1;
    }
}

impl FakeSink {
    /// A sink that confirms everything at once.
    pub fn new(timeout: Duration) -> FakeSink {
        FakeSink {
            timeout,
            in_runs: false,
            of_keys: false,
            script: Mutex::default(),
            stalled: watch::Sender::new(false),
        }
    }

    /// The same sink, where all elements are on one line.
    pub fn in_runs(self) -> FakeSink {
        FakeSink { in_runs: true, ..self }
    }

    /// The same sink, where the keys of a run would wait for each other.
    pub fn of_keys(self) -> FakeSink {
        FakeSink { in_runs: true, of_keys: true, ..self }
    }

    /// Sets the reactions to the next deliveries of this element.
    pub fn on_id(&self, id: MessageId, steps: impl IntoIterator<Item = Step>) {
        self.script().by_id.entry(id).or_default().extend(steps);
    }

    /// Sets the reactions to the next deliveries of any element.
    pub fn on_call(&self, steps: impl IntoIterator<Item = Step>) {
        self.script().by_call.extend(steps);
    }

    /// Fails every delivery and check with this until it is taken back by `None`.
    pub fn outage(&self, failure: Option<Failure>) {
        self.script().outage = failure;
    }

    /// Decides about every delivery that the script says nothing about.
    pub fn otherwise(&self, decide: impl FnMut(&Outbound) -> Step + Send + 'static) {
        self.script().otherwise = Some(Box::new(decide));
    }

    /// From here on it looks for what has arrived, or fails to.
    pub fn look(&self, blind: Option<Failure>) {
        let mut script = self.script();
        (script.looks, script.blind) = (true, blind);
    }

    /// The number of elements that it was asked to look for.
    pub fn looked(&self) -> usize {
        self.script().looked
    }

    /// The marks of the elements that it was asked to look for, in order.
    pub fn marks(&self) -> Vec<DeliveryMark> {
        self.script().marks.clone()
    }

    /// While stalled, a delivery waits before it looks at its step.
    pub fn stall(&self, stalled: bool) {
        self.stalled.send_replace(stalled);
    }

    /// Every delivery that was begun, in order.
    pub fn attempts(&self) -> Vec<Outbound> {
        self.script().attempts.clone()
    }

    /// Every element that has arrived, in order; one with an ambiguous outcome may be among them.
    pub fn taken(&self) -> Vec<Outbound> {
        self.script().taken.clone()
    }

    /// The most deliveries that were under way at a time since this was last asked.
    pub fn most_at_once(&self) -> usize {
        let mut script = self.script();
        let outstanding = script.outstanding;
        std::mem::replace(&mut script.most_at_once, outstanding)
    }

    /// The lengths of all runs, in order.
    pub fn run_lengths(&self) -> Vec<usize> {
        self.script().runs.clone()
    }

    /// The most bytes of bodies that were under way at a time.
    pub fn most_bytes(&self) -> usize {
        self.script().most_bytes
    }

    /// The number of probes.
    pub fn probes(&self) -> usize {
        self.script().probes
    }

    /// Whether it was said that runs will come.
    pub fn is_prepared(&self) -> bool {
        self.script().prepared
    }

    /// Whether `close` was called.
    pub fn is_closed(&self) -> bool {
        self.script().closed
    }

    fn script(&self) -> MutexGuard<'_, FakeScript> {
        self.script.lock()
    }

    fn begin(&self, message: &Outbound) -> FakeDelivery<'_> {
        let mut script = self.script();
        script.attempts.push(message.clone());
        script.outstanding += 1;
        script.most_at_once = script.most_at_once.max(script.outstanding);
        script.bytes += message.body.len();
        script.most_bytes = script.most_bytes.max(script.bytes);
        FakeDelivery(self, message.body.len())
    }

    fn step(&self, message: &Outbound) -> Step {
        let mut script = self.script();
        let of_id = script.by_id.get_mut(&message.id.id).and_then(VecDeque::pop_front);
        let step = of_id.or_else(|| script.by_call.pop_front());
        let step = step.or_else(|| script.outage.clone().map(Step::Fail));
        step.or_else(|| script.otherwise.as_mut().map(|decide| decide(message))).unwrap_or(Step::Confirm)
    }

    /// Delivers one after the other, until one fails. Behind one that was taken without an answer, others may have been taken too.
    async fn deliver_in_turn(&self, run: Vec<Outbound>, answers: &Answers) {
        let mut run = run.into_iter().enumerate();
        let mut failure = None;
        for (place, message) in run.by_ref() {
            let id = message.id.id;
            if let Err(failed) = self.deliver_one(message).await {
                let taken = self.script().taken.last().is_some_and(|last| last.id.id == id);
                failure = (taken && failed.class == Class::Ambiguous).then(|| failed.clone());
                answers.put(place, Err(failed));
                break;
            }
            answers.put(place, Ok(()));
        }
        for (place, message) in run {
            let goes_on = matches!(self.step(&message), Step::Confirm | Step::ConfirmAfter(_));
            failure = failure.filter(|_| goes_on);
            answers.put(place, Err(failure.clone().unwrap_or_else(|| behind(&message.destination))));
            if failure.is_some() {
                self.begin(&message);
                self.script().taken.push(message);
            }
        }
    }

    fn late(&self) -> Failure {
        Failure::new(Class::Ambiguous, "timeout", format!("no confirmation within {:?}", self.timeout))
    }

    async fn deliver_one(&self, message: Outbound) -> Outcome {
        // A stalled delivery has begun.
        if Instant::now() >= message.send_before {
            return Err(Failure::stale());
        }
        let _outstanding = self.begin(&message);
        let mut stalled = self.stalled.subscribe();
        // The sender lives as long as this sink.
        let _ = stalled.wait_for(|stalled| !stalled).await;
        match self.step(&message) {
            Step::Confirm => {
                self.script().taken.push(message);
                Ok(())
            }
            Step::ConfirmAfter(wait) => {
                tokio::time::sleep(wait).await;
                self.script().taken.push(message);
                Ok(())
            }
            Step::FailAfterTaking(failure) => {
                self.script().taken.push(message);
                Err(failure)
            }
            Step::Fail(failure) => Err(failure),
            Step::FailAfter(wait, failure) => {
                tokio::time::sleep(wait).await;
                Err(failure)
            }
            Step::Hang => {
                self.script().taken.push(message);
                std::future::pending().await
            }
            // The point of this step: the pipeline has to survive it.
            Step::Panic => panic!("the script of the fake sink asks for a panic"),
        }
    }
}

impl Sink for FakeSink {
    fn kind(&self) -> &'static str {
        "fake"
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn deliver(&self, message: Outbound) -> BoxFuture<'_, Outcome> {
        async move {
            tokio::time::timeout(self.timeout, self.deliver_one(message)).await.unwrap_or_else(|_| Err(self.late()))
        }
        .boxed()
    }

    fn runs(&self) -> Option<&dyn RunSink> {
        self.in_runs.then_some(self)
    }

    fn lookup(&self) -> Option<&dyn Lookup> {
        self.script().looks.then_some(self)
    }

    fn check<'a>(&'a self, _: &'a [Destination]) -> BoxFuture<'a, Result<Vec<String>, Failure>> {
        let outage = self.script().outage.clone();
        std::future::ready(outage.map_or(Ok(Vec::new()), Err)).boxed()
    }

    fn probe(&self) -> Option<BoxFuture<'_, Result<(), Failure>>> {
        self.script().probes += 1;
        Some(Sink::check(self, &[]).map_ok(drop).boxed())
    }

    fn ended(&self) -> BoxFuture<'_, ()> {
        std::future::pending().boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.script().closed = true;
        std::future::ready(()).boxed()
    }
}

impl RunSink for FakeSink {
    fn line(&self, _: &Destination) -> Option<u32> {
        Some(0)
    }

    fn prepare(&self) {
        self.script().prepared = true;
    }

    fn joins_keys(&self) -> bool {
        !self.of_keys
    }

    fn deliver_run<'a>(&'a self, run: Vec<Outbound>, answers: &'a Answers) -> BoxFuture<'a, ()> {
        async move {
            self.script().runs.push(run.len());
            if tokio::time::timeout(self.timeout, self.deliver_in_turn(run, answers)).await.is_err() {
                answers.open().into_iter().for_each(|place| answers.put(place, Err(self.late())));
            }
        }
        .boxed()
    }
}

impl Lookup for FakeSink {
    fn look<'a>(&'a self, suspects: &'a [Outbound]) -> BoxFuture<'a, Vec<Result<bool, Failure>>> {
        let mut script = self.script();
        script.looked += suspects.len();
        script.marks.extend(suspects.iter().filter_map(|message| message.mark.as_deref().cloned()));
        let is_there = |message: &Outbound| {
            let mark = message.mark.as_ref()?;
            let mut left = script.taken.iter().filter(|taken| taken.destination == message.destination);
            left.find(|taken| taken.mark.as_ref().is_some_and(|left| mark.is_copy(&left.to_string())))
        };
        let look = |message| script.blind.clone().map_or_else(|| Ok(is_there(message).is_some()), Err);
        std::future::ready(suspects.iter().map(look).collect()).boxed()
    }

    fn check<'a>(&'a self, _destinations: &'a [Destination]) -> BoxFuture<'a, Result<(), Failure>> {
        std::future::ready(self.script().blind.clone().map_or(Ok(()), Err)).boxed()
    }
}

#[cfg(test)]
mod tests;
