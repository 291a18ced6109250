//! The job queue under faults: producers and consumers that speak HTTP with the daemons, what they saw, and the rules for it.

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

/// Consumers, all of all topics.
const CONSUMERS: u64 = 6;
/// Times that a job is handed out.
pub const TRIES: u32 = 5;

/// What a consumer says of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// It is done.
    Finish,
    /// It is given back for so many ms; whether the attempt counts.
    Release(i64, bool),
    /// It can never be done.
    Bury,
}

/// What a consumer said, and what came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// What it said.
    pub way: Way,
    /// When it said so for the first time.
    pub sent_ms: i64,
    /// When it had an answer, or gave up.
    pub answered_ms: i64,
    /// `No` if the job was not its own any more.
    pub answer: Answer,
}

/// A job as a consumer got it.
#[derive(Debug, Clone, PartialEq)]
pub struct Handed {
    /// Place of its topic in [`QUEUES`].
    pub topic: usize,
    /// The number in its body.
    pub n: Option<u64>,
    /// Its id, with its topic.
    pub id: String,
    /// The proof of the reservation; jobs that were reserved together share it.
    pub token: String,
    /// How often it was handed out.
    pub attempt: u32,
    /// When it was reserved, by Redis's clock.
    pub reserved_ms: i64,
    /// Until when, by Redis's clock.
    pub deadline_ms: i64,
    /// When the consumer had it.
    pub got_ms: i64,
    /// Whether every byte is as it was offered.
    pub whole: bool,
    /// What the consumer said; nothing if it was killed, or forgot the job.
    pub verdict: Option<Verdict>,
}

/// Everything that consumers got.
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

    /// All of them, in the order in which they were read.
    pub fn all(&self) -> Vec<Handed> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Handed>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Producers and consumers of a run.
pub struct Crowd {
    notes: Arc<Notes>,
    /// True: no more tricks, everything is finished.
    calm: watch::Sender<bool>,
    consumers: JoinSet<()>,
    producers: JoinSet<()>,
}

impl Crowd {
    /// Producers that add until then, and consumers.
    pub fn start(stage: &Arc<Stage>, plan: &Plan, book: &Arc<Book>, end: Instant) -> Crowd {
        let (notes, calm) = (Arc::<Notes>::default(), watch::Sender::new(false));
        let (mut producers, mut consumers) = (JoinSet::new(), JoinSet::new());
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

    /// One job of each of these sizes and each topic, now that everything is well. From now on consumers finish all that they get.
    pub async fn probe(&self, stage: &Arc<Stage>, plan: &Plan, book: &Arc<Book>, sizes: &[usize]) {
        self.calm.send_replace(true);
        for topic in 0..QUEUES.len() {
            produce::Producer::new(stage, plan.seed, topic, book).probe(sizes).await;
        }
    }

    /// Ends the consumers in whatever they do; what they have seen.
    pub async fn end(mut self) -> Vec<Handed> {
        self.consumers.shutdown().await;
        self.notes.all()
    }
}

/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(4);
