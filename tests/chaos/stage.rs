//! Everything that runs: two Redis, daemons on links of their own, and what was seen of them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio_util::sync::CancellationToken;

use crate::evidence::{Lived, Struck};
use crate::life::Seat;
use crate::offers::now_ms;
use crate::plan::{Plan, Side};
use crate::produce::connect;
use crate::redis_server::{RedisServer, ServerOptions};

/// Pause between two looks at the daemons.
const LOOK: Duration = Duration::from_millis(250);
/// This process looks at the clock so often.
const TICK: Duration = Duration::from_millis(20);
/// A tick that comes later than this was a stall of the machine.
const STALL_MS: i64 = 250;

/// The servers and daemons of a run.
pub struct Stage {
    servers: [tokio::sync::Mutex<RedisServer>; 2],
    urls: [String; 2],
    /// The daemons.
    pub seats: Vec<Seat>,
    /// In the last ms of a lease nothing is sent any more, and what was not sent is left where it is: a fifth of it.
    pub margin_ms: i64,
    lives: AtomicUsize,
    seen: Mutex<Seen>,
}

/// What was seen while it ran.
#[derive(Default)]
struct Seen {
    lives: Vec<Lived>,
    struck: Vec<Struck>,
    stalls: Vec<(i64, i64)>,
}

impl Stage {
    /// Starts everything, and waits until it is ready.
    pub async fn start(plan: &Plan, lie: Option<&str>) -> Arc<Stage> {
        let source = RedisServer::start_with(ServerOptions::default().append_only()).await;
        let target = RedisServer::start_with(ServerOptions::default().append_only()).await;
        let (urls, ports) = ([source.url(), target.url()], (source.port(), target.port()));
        let mut seats = Vec::new();
        for _ in 0..plan.settings.daemons {
            seats.push(Seat::new(plan, ports.0, ports.1, lie.map(str::to_owned)).await);
        }
        let servers = [source, target].map(tokio::sync::Mutex::new);
        let margin_ms = i64::try_from(plan.settings.lease.as_millis() / 5).expect("a lease of seconds");
        let stage = Stage { servers, urls, seats, margin_ms, lives: AtomicUsize::new(0), seen: Mutex::default() };
        for seat in 0..stage.seats.len() {
            stage.start_daemon(seat).await;
        }
        for seat in &stage.seats {
            assert!(seat.ready(Duration::from_secs(30)).await, "a daemon is not ready: {:#?}", seat.log().await);
        }
        Arc::new(stage)
    }

    /// A server; held while something is wrong with it.
    pub fn server(&self, side: Side) -> &tokio::sync::Mutex<RedisServer> {
        &self.servers[usize::from(side == Side::Target)]
    }

    /// Its address, past all proxies.
    pub fn url(&self, side: Side) -> &str {
        &self.urls[usize::from(side == Side::Target)]
    }

    /// A connection to a server that is well.
    pub async fn client(&self, side: Side) -> MultiplexedConnection {
        connect(self.url(side)).await.unwrap_or_else(|e| panic!("connect to the {side:?} Redis: {e}"))
    }

    /// The same as soon as it is well.
    pub async fn client_when_well(&self, side: Side) -> MultiplexedConnection {
        loop {
            match connect(self.url(side)).await {
                Ok(redis) => return redis,
                Err(_) => tokio::time::sleep(LOOK).await,
            }
        }
    }

    /// Starts a process of this daemon, unless there is one.
    pub async fn start_daemon(&self, seat: usize) {
        let number = self.lives.fetch_add(1, Ordering::Relaxed) + 1;
        self.seats[seat].start(number).await;
    }

    /// Notes a process that has ended.
    pub fn ended(&self, life: Option<Lived>) {
        self.seen().lives.extend(life);
    }

    /// Notes a fault that is over.
    pub fn struck(&self, struck: Struck) {
        self.seen().struck.push(struck);
    }

    /// Takes out what was seen.
    pub fn take_seen(&self) -> (Vec<Lived>, Vec<Struck>, Vec<(i64, i64)>) {
        let mut seen = self.seen();
        let Seen { lives, struck, stalls } = &mut *seen;
        (std::mem::take(lives), std::mem::take(struck), std::mem::take(stalls))
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Scrapes the daemons until told to end, and starts again whoever ended by itself.
    pub async fn watch(self: Arc<Self>, end: CancellationToken) {
        while !end.is_cancelled() {
            for (place, seat) in self.seats.iter().enumerate() {
                seat.scrape().await;
                if let Some(ended) = seat.ended() {
                    self.ended(Some(ended));
                    self.start_daemon(place).await;
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Notes when this process did not get its turn: neither did the daemons.
    pub async fn watch_the_clock(self: Arc<Self>, end: CancellationToken) {
        let mut last = now_ms();
        while !end.is_cancelled() {
            tokio::time::sleep(TICK).await;
            let now = now_ms();
            if now - last > STALL_MS {
                self.seen().stalls.push((last, now));
            }
            last = now;
        }
    }
}
