//! Producers: they add jobs with ids of their own through whichever daemon answers, and delete some before they are
//! due.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use redis::aio::MultiplexedConnection;
use tokio::time::{Instant, sleep, sleep_until};

use super::PATIENCE;
use super::client::{Outcome, Reply, ask};
use crate::offers::{Answer, Book, Kind, QUEUES, now_ms};
use crate::payload::payload;
use crate::stage::Stage;
use crate::what::Side;

/// Number of times that a job is sent without an answer.
const TIMES: usize = 3;
/// The pause between these.
const AGAIN: Duration = Duration::from_millis(200);
/// Minimum time between the deletion of a job and its due time, in ms.
const IN_TIME_MS: i64 = 300;

/// A producer of one topic.
pub struct Producer {
    stage: Arc<Stage>,
    seed: u64,
    topic: usize,
    book: Arc<Book>,
    random: Rng,
    /// A connection to the master of the topic, if there are replicas.
    redis: Option<MultiplexedConnection>,
    /// The jobs to delete, with their due times.
    doomed: Vec<(u64, i64)>,
}

impl Producer {
    pub fn new(stage: &Arc<Stage>, seed: u64, topic: usize, book: &Arc<Book>) -> Self {
        let random = Rng::with_seed(seed.wrapping_mul(89).wrapping_add(topic as u64));
        let stage = Arc::clone(stage);
        let book = Arc::clone(book);
        Producer { stage, seed, topic, book, random, redis: None, doomed: Vec::new() }
    }

    /// Adds `rate` jobs a second until `end`.
    pub async fn run(mut self, rate: u32, end: Instant) {
        let pause = Duration::from_secs(1) / rate.max(1);
        let mut next = Instant::now();
        while next < end {
            let random = &mut self.random;
            let size = match random.u32(..1000) {
                0..900 => random.usize(40..400),
                900..990 => random.usize(4_200..9_000),
                _ => random.usize(40_000..120_000),
            };
            let doomed = random.u32(..40) == 0;
            let delay_ms = if doomed { 2_500 } else { random.i64(-200..2_500) };
            self.add(size, delay_ms, doomed).await;
            self.delete().await;
            next = (next + pause).max(Instant::now().checked_sub(Duration::from_secs(1)).unwrap_or(next));
            sleep_until(next).await;
        }
    }

    /// Adds one job of each size, due now.
    pub async fn probe(mut self, sizes: &[usize]) {
        for size in sizes {
            self.add(*size, 0, false).await;
        }
    }

    async fn add(&mut self, size: usize, delay_ms: i64, doomed: bool) {
        let due_ms = now_ms() + delay_ms;
        let topic = QUEUES[self.topic];
        let n = self.book.note(self.topic, size, due_ms, Kind::Good, |n| format!("{topic}~j{n}"));
        let body = payload(self.seed, n, size);
        let path = format!("/v1/topics/{topic}/jobs?id=j{n}&due_ms={due_ms}");
        let mut known = Answer::No;
        self.look_up_the_master().await;
        for time in 0..TIMES {
            match self.ask("POST", &path, &body).await {
                Outcome::Reply(Reply { status: 200 | 201, .. }) => {
                    // An earlier request may still be under way: after the deletion, it would add the job again.
                    if doomed && time == 0 {
                        self.doomed.push((n, due_ms));
                    }
                    known = self.is_sure().await;
                    break;
                }
                Outcome::NotSent => {}
                Outcome::Reply(reply) if says_that_nothing_was_done(&reply) => {}
                Outcome::Reply(reply) if reply.problem() != "outcome-unknown" => {
                    panic!("add a job: {} {}", reply.status, String::from_utf8_lossy(&reply.body));
                }
                _ => known = Answer::Unknown,
            }
            sleep(AGAIN).await;
        }
        self.book.taken(n, known);
    }

    /// Deletes the next job that is to be deleted and will be due soon.
    async fn delete(&mut self) {
        let soon = now_ms() + 1_500;
        let Some(at) = self.doomed.iter().position(|(_, due_ms)| *due_ms < soon) else { return };
        let (n, due_ms) = self.doomed.swap_remove(at);
        // Recorded first, as unknown.
        self.book.withdrawn(n, Answer::Unknown);
        let path = format!("/v1/jobs/{}~j{n}", QUEUES[self.topic]);
        self.look_up_the_master().await;
        let answer = match self.ask("DELETE", &path, b"").await {
            // A later success proves nothing: a consumer may have the job.
            Outcome::Reply(Reply { status: 204, .. }) if now_ms() < due_ms - IN_TIME_MS => self.is_sure().await,
            Outcome::NotSent => Answer::No,
            Outcome::Reply(reply) if says_that_nothing_was_done(&reply) => Answer::No,
            _ => Answer::Unknown,
        };
        self.book.withdrawn(n, answer);
    }

    /// Connects to the master of the topic, unless there is a connection.
    async fn look_up_the_master(&mut self) {
        if self.redis.is_none() && self.stage.guide.replicas() > 0 {
            self.redis = self.stage.guide.connect(self.topic).await.ok();
        }
    }

    /// Whether what was answered since [`look_up_the_master`](Self::look_up_the_master) survives the loss of the master:
    /// all replicas have it. They follow the server that was the master before, so no other one gave the answer.
    async fn is_sure(&mut self) -> Answer {
        if self.stage.guide.replicas() == 0 {
            return Answer::Yes;
        }
        let Some(mut redis) = self.redis.take() else { return Answer::Unknown };
        // A write of this connection: everything before it is in front of it in the stream of the replicas.
        let wrote = redis::cmd("PUBLISH").arg("chaos").arg("sure").exec_async(&mut redis).await;
        if wrote.is_err() || !self.stage.guide.is_sure(&mut redis).await {
            return Answer::Unknown;
        }
        self.redis = Some(redis);
        Answer::Yes
    }

    async fn ask(&mut self, method: &str, path: &str, body: &[u8]) -> Outcome {
        let seat = &self.stage.seats[self.random.usize(..self.stage.seats.len())];
        ask(seat.link(Side::Target).port(), method, path, body, PATIENCE).await
    }
}

/// Whether a problem says that nothing was done.
pub fn says_that_nothing_was_done(reply: &Reply) -> bool {
    matches!(&*reply.problem(), "unavailable" | "refused" | "too-many" | "stopping" | "too-slow")
}
