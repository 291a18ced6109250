//! The job queue under faults: producers and consumers that use the daemons' HTTP interface, their observations, and
//! the rules.

mod client;
mod consume;
pub mod judge;
pub mod look;
mod produce;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::offers::{Answer, Book, QUEUES};
use crate::plan::Plan;
use crate::stage::Stage;

/// Number of consumers; each serves all topics.
const CONSUMERS: u64 = 6;
/// Maximum number of times that a job is handed out.
pub const TRIES: u32 = 5;

/// A consumer's verdict about a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Finished.
    Finish,
    /// Released for this many ms; whether the attempt counts.
    Release(i64, bool),
    /// Buried, because it can never be done.
    Bury,
}

/// A verdict and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// The verdict.
    pub way: Way,
    /// The time at which it was sent first, in ms.
    pub sent_ms: i64,
    /// The time of the answer, or of giving up, in ms.
    pub answered_ms: i64,
    /// The answer; `No` if the job was not the consumer's any more.
    pub answer: Answer,
}

/// A job as a consumer received it.
#[derive(Debug, Clone, PartialEq)]
pub struct Handed {
    /// The index of the topic in [`QUEUES`].
    pub topic: usize,
    /// The number in the body.
    pub n: Option<u64>,
    /// The id, with the topic.
    pub id: String,
    /// The token of the reservation; jobs that were reserved together share it.
    pub token: String,
    /// Number of times that it was handed out.
    pub attempt: u32,
    /// The time of the reservation, by Redis's clock, in ms.
    pub reserved_ms: i64,
    /// The end of the reservation, by Redis's clock, in ms.
    pub deadline_ms: i64,
    /// The time at which the consumer received it, in ms.
    pub got_ms: i64,
    /// Whether every byte is as offered.
    pub whole: bool,
    /// The verdict; `None` if the consumer was killed, or forgot the job.
    pub verdict: Option<Verdict>,
}

/// All jobs that consumers received.
#[derive(Debug, Default)]
pub struct Notes(Mutex<Vec<Handed>>);

impl Notes {
    fn add(&self, handed: Handed) -> usize {
        let mut all = self.lock();
        all.push(handed);
        all.len() - 1
    }

    fn change(&self, place: usize, change: impl FnOnce(&mut Handed)) {
        change(&mut self.lock()[place]);
    }

    /// All jobs, in the order of receipt.
    pub fn all(&self) -> Vec<Handed> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Handed>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The producers and consumers of a run.
pub struct Crowd {
    notes: Arc<Notes>,
    /// Whether consumers only finish their jobs.
    calm: watch::Sender<bool>,
    consumers: JoinSet<()>,
    producers: JoinSet<()>,
}

impl Crowd {
    /// Starts producers that add jobs until `end`, and consumers.
    pub fn start(stage: &Arc<Stage>, plan: &Plan, book: &Arc<Book>, end: Instant) -> Crowd {
        let notes = Arc::<Notes>::default();
        let calm = watch::Sender::new(false);
        let mut producers = JoinSet::new();
        let mut consumers = JoinSet::new();
        for topic in 0..QUEUES.len() {
            let producer = produce::Producer::new(stage, plan.seed, topic, book);
            // Each job costs several requests.
            producers.spawn(producer.run((plan.settings.rate / 2).max(4), end));
        }
        for number in 0..CONSUMERS {
            let consumer = consume::Consumer::new(stage, plan, number, &notes, book);
            consumers.spawn(consumer.run(calm.subscribe()));
        }
        Crowd { notes, calm, consumers, producers }
    }

    /// Waits until the producers have ended.
    pub async fn added(&mut self) {
        while let Some(done) = self.producers.join_next().await {
            done.expect("producers go on to their end");
        }
    }

    /// Adds one job of each size and topic after all faults. From now on consumers finish all of their jobs.
    pub async fn probe(&self, stage: &Arc<Stage>, plan: &Plan, book: &Arc<Book>, sizes: &[usize]) {
        self.calm.send_replace(true);
        for topic in 0..QUEUES.len() {
            produce::Producer::new(stage, plan.seed, topic, book).probe(sizes).await;
        }
    }

    /// Stops the consumers abruptly; returns what they received.
    pub async fn end(mut self) -> Vec<Handed> {
        self.consumers.shutdown().await;
        self.notes.all()
    }
}

/// A client's time-out.
const PATIENCE: Duration = Duration::from_secs(4);
