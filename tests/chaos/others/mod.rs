//! The alternatives under the same faults: consumers of Redisson and asynq, compared with a daemon.
//!
//! One Redis with an append-only file that is written before each answer, one consumer that takes 20 ms for each
//! element, and, by a schedule from the seed: SIGKILL of the consumer, SIGSTOP, SIGKILL of Redis. An element counts as
//! handled when the consumer reports it, or when its entry is in the daemon's stream.

mod consumer;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use fastrand::Rng;
use tokio::time::{Instant, sleep};

use self::consumer::Consumer;
use crate::offers::{Answer, now_ms};
use harness::redis_server::{RedisServer, ServerOptions};

/// Elements per second.
const RATE: u32 = 20;
/// Time-out for the remaining elements after the last fault: asynq recovers those of a dead server within two minutes.
const PATIENCE: Duration = Duration::from_secs(240);
/// Time without any news after which missing elements are not waited for.
const QUIET: Duration = Duration::from_secs(15);

/// A kind of consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A Redisson client, one element at a time.
    Take,
    /// A Redisson client, up to a hundred elements at a time.
    DrainTo,
    /// A server of asynq.
    Asynq,
    /// A daemon instead of the Redisson client, with a stream as its destination.
    Delaybridge,
}

pub const ALL: [Kind; 4] = [Kind::Take, Kind::DrainTo, Kind::Asynq, Kind::Delaybridge];

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Take => "Redisson 4.7.0, `take()`",
            Kind::DrainTo => "Redisson 4.7.0, `drainTo`",
            Kind::Asynq => "asynq 0.24.1",
            Kind::Delaybridge => "delaybridge",
        })
    }
}

/// The results of a run.
#[derive(Debug, Default)]
pub struct Seen {
    /// Number of kills and suspensions of the consumer, and of kills of Redis.
    faults: [usize; 3],
    /// Number of acknowledged offers.
    taken: usize,
    /// Those that were neither handled, nor remain, nor are dead.
    pub lost: Vec<u64>,
    /// Number of elements handled more than once.
    twice: usize,
    /// Number of elements set aside by the consumer.
    dead: usize,
    /// Number of elements that remain.
    left: usize,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Seen { faults: [kills, stops, restarts], taken, lost, twice, dead, left } = self;
        let lost = lost.len();
        write!(f, "{kills} | {stops} | {restarts} | {taken} | {lost} | {twice} | {dead} | {left}")
    }
}

/// Runs a consumer of this kind under faults.
pub async fn play(kind: Kind, seed: u64, length: Duration) -> Seen {
    let mut redis = RedisServer::start_with(ServerOptions::default().append_only()).await;
    let mut consumer = Consumer::new(kind, &redis).await;
    consumer.start().await;
    let offering = tokio::spawn(offer(kind, redis.port(), seed, Instant::now() + length));
    let mut random = Rng::with_seed(seed);
    let began = Instant::now();
    let mut seen = Seen::default();
    while began.elapsed() < length {
        sleep(Duration::from_millis(random.u64(3_000..7_000))).await;
        match random.u32(..10) {
            0..6 => {
                consumer.kill().await;
                seen.faults[0] += 1;
            }
            6..8 => {
                consumer.freeze(Duration::from_millis(random.u64(1_000..8_000))).await;
                seen.faults[1] += 1;
            }
            _ => {
                redis.kill();
                sleep(Duration::from_millis(random.u64(300..3_000))).await;
                redis.boot().await.unwrap_or_else(|log| panic!("start a killed Redis again: {log}"));
                seen.faults[2] += 1;
            }
        }
        consumer.start().await;
    }
    let offers = offering.await.expect("the producer goes on to its end");

    let healed = Instant::now();
    let mut news = (0, Instant::now());
    let (left, dead) = loop {
        consumer.start().await;
        let handled = consumer.handled().await.len();
        if handled != news.0 {
            news = (handled, Instant::now());
        }
        let rest = consumer.rest().await;
        let quiet = rest.0 == 0 && news.1.elapsed() > QUIET;
        if quiet || healed.elapsed() > PATIENCE {
            break rest;
        }
        sleep(Duration::from_millis(500)).await;
    };
    let mut times: BTreeMap<u64, usize> = BTreeMap::new();
    consumer.handled().await.into_iter().for_each(|n| *times.entry(n).or_default() += 1);
    let taken = offers.iter().filter(|(_, answer)| *answer == Answer::Yes);
    seen.taken = taken.clone().count();
    // Dead and remaining elements were not handled; their identity does not matter here.
    seen.lost = taken.map(|(n, _)| *n).filter(|n| !times.contains_key(n)).skip(left + dead).collect();
    seen.twice = times.values().filter(|times| **times > 1).count();
    (seen.left, seen.dead) = (left, dead);
    seen
}

/// Offers elements that are due within two seconds; returns the server's answer to each.
async fn offer(kind: Kind, port: u16, seed: u64, end: Instant) -> Vec<(u64, Answer)> {
    let mut random = Rng::with_seed(!seed);
    let mut offers = Vec::new();
    let mut producer = consumer::Producer::new(kind, port);
    let pause = Duration::from_secs(1) / RATE;
    for n in 0.. {
        if Instant::now() > end {
            break;
        }
        let next = Instant::now() + pause;
        let answer = producer.offer(n, now_ms() + random.i64(0..2_000)).await;
        offers.push((n, answer));
        tokio::time::sleep_until(next).await;
    }
    offers
}
