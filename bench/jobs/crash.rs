//! A server that is killed and started again while jobs are added, taken and finished: what was lost, and what came twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::client::{Client, TTR_SECONDS};
use super::servers::{Peer, Server};
use super::{CONSUMERS, Kept, PRODUCERS};

/// The number of kills, and the time between them.
const KILLS: usize = 5;
const BETWEEN: Duration = Duration::from_secs(2);
/// The maximum number of jobs.
const ROOM: usize = 1_000_000;
/// The time after the last kill in which every job must have come: its time to run, and faktory's look for jobs whose time is over,
/// every 15 s.
const COME_BACK: Duration = Duration::from_secs(TTR_SECONDS + 15 + 10);
/// The pause of a client before it connects again.
const AGAIN: Duration = Duration::from_millis(20);

/// The server confirmed the add.
const ADDED: u8 = 1;
/// A consumer had it.
const TAKEN: u8 = 2;
/// Its finish was sent, so that it may be gone.
const SENT: u8 = 4;
/// Its finish was confirmed.
const FINISHED: u8 = 8;

struct Jobs {
    states: Vec<AtomicU8>,
    next: AtomicUsize,
    /// Handed out after their finish was confirmed.
    after_finish: AtomicUsize,
    /// Handed out a second time, not finished.
    again: AtomicUsize,
    produce: AtomicBool,
    consume: AtomicBool,
}

impl Jobs {
    fn set(&self, number: usize, bit: u8) -> u8 {
        self.states[number].fetch_or(bit, Ordering::Relaxed)
    }

    fn count(&self, is: impl Fn(u8) -> bool) -> usize {
        let used = self.next.load(Ordering::Relaxed).min(ROOM);
        self.states[..used].iter().filter(|state| is(state.load(Ordering::Relaxed))).count()
    }
}

/// What became of the jobs.
pub(super) struct Fate {
    pub(super) added: usize,
    pub(super) lost: usize,
    pub(super) after_finish: usize,
    pub(super) again: usize,
    /// The seconds from the last kill until every job had been finished.
    pub(super) seconds: f64,
}

impl Fate {
    pub(super) const KILLS: usize = KILLS;
}

/// Kills the program that answers clients while they work without a pause.
pub(super) async fn run(peer: Peer) -> Result<Fate> {
    let mut server = Server::start(peer, Kept::Log).await?;
    let port = server.port;
    let jobs = Arc::new(Jobs {
        states: (0..ROOM).map(|_| AtomicU8::new(0)).collect(),
        next: AtomicUsize::new(0),
        after_finish: AtomicUsize::new(0),
        again: AtomicUsize::new(0),
        produce: AtomicBool::new(true),
        consume: AtomicBool::new(true),
    });
    let producers: Vec<_> = (0..PRODUCERS).map(|_| tokio::spawn(produce(peer, port, jobs.clone()))).collect();
    let consumers: Vec<_> = (0..CONSUMERS).map(|_| tokio::spawn(consume(peer, port, jobs.clone()))).collect();
    let mut killed = Instant::now();
    for _ in 0..KILLS {
        tokio::time::sleep(BETWEEN).await;
        killed = Instant::now();
        server.kill_and_restart().await?;
    }
    tokio::time::sleep(BETWEEN).await;
    jobs.produce.store(false, Ordering::Relaxed);
    for producer in producers {
        producer.await.context("a producer")?;
    }
    ensure!(jobs.next.load(Ordering::Relaxed) < ROOM, "more than {ROOM} jobs");
    let missing = |state: u8| state & ADDED > 0 && state & SENT == 0;
    let mut seconds = killed.elapsed();
    let mut left = usize::MAX;
    while killed.elapsed() < COME_BACK || jobs.count(missing) < left {
        let now = jobs.count(missing);
        if now < left {
            (left, seconds) = (now, killed.elapsed());
        }
        if left == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    jobs.consume.store(false, Ordering::Relaxed);
    for consumer in consumers {
        consumer.await.context("a consumer")?;
    }
    Ok(Fate {
        added: jobs.count(|state| state & ADDED > 0),
        lost: jobs.count(missing),
        after_finish: jobs.after_finish.load(Ordering::Relaxed),
        again: jobs.again.load(Ordering::Relaxed),
        seconds: seconds.as_secs_f64(),
    })
}

/// Adds jobs. Only those that are confirmed count.
async fn produce(peer: Peer, port: u16, jobs: Arc<Jobs>) {
    let mut connection = None;
    while jobs.produce.load(Ordering::Relaxed) {
        let Some(mut client) = connect(&mut connection, peer, port).await else { continue };
        let number = jobs.next.fetch_add(1, Ordering::Relaxed);
        if number >= ROOM {
            return;
        }
        if client.add(number, 0).await.is_ok() {
            jobs.set(number, ADDED);
            connection = Some(client);
        }
    }
}

/// Takes and finishes jobs.
async fn consume(peer: Peer, port: u16, jobs: Arc<Jobs>) {
    let mut connection = None;
    while jobs.consume.load(Ordering::Relaxed) {
        let Some(mut client) = connect(&mut connection, peer, port).await else { continue };
        let Ok(taken) = client.take().await else { continue };
        if let Some(job) = taken {
            let state = jobs.set(job.number, TAKEN);
            if state & FINISHED > 0 {
                jobs.after_finish.fetch_add(1, Ordering::Relaxed);
            } else if state & TAKEN > 0 {
                jobs.again.fetch_add(1, Ordering::Relaxed);
            }
            jobs.set(job.number, SENT);
            match client.finish(&job).await {
                Ok(true) => _ = jobs.set(job.number, FINISHED),
                Ok(false) => {}
                Err(_) => continue,
            }
        }
        connection = Some(client);
    }
}

/// The connection of before, or a new one.
async fn connect(last: &mut Option<Client>, peer: Peer, port: u16) -> Option<Client> {
    if last.is_none() {
        match Client::connect(peer, port).await {
            Ok(client) => *last = Some(client),
            Err(_) => tokio::time::sleep(AGAIN).await,
        }
    }
    last.take()
}
