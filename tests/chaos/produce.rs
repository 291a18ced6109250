//! The producers: they bypass all proxies, and write like Redisson's clients, and like programs with sorted sets and
//! job pools.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ErrorKind, RedisError, RedisResult};
use tokio::time::{Instant, sleep_until, timeout};

use crate::offers::{Answer, Book, Kind, QUEUES, now_ms};
use crate::payload::{payload, undecodable};
use crate::source::Guide;
use harness::redisson::{Layout, OFFER, REMOVE, RedissonQueue};

/// Time-out for an answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Minimum time between the withdrawal of an element and its due time, in ms.
const IN_TIME_MS: i64 = 300;

/// The first multiple of `grain` that is not before `ms`.
fn next_multiple(ms: i64, grain: i64) -> i64 {
    ms + (-ms).rem_euclid(grain)
}

/// A producer of one queue.
pub struct Producer {
    guide: Guide,
    seed: u64,
    queue: usize,
    book: Arc<Book>,
    random: Rng,
    redis: Option<MultiplexedConnection>,
    /// The granularity of due times, in ms.
    grain_ms: i64,
    /// The elements to withdraw, with the data for that.
    doomed: Vec<(u64, i64, Layout, Vec<u8>)>,
}

struct Written {
    layout: Layout,
    id: [u8; 8],
    body: Vec<u8>,
    due_ms: i64,
}

impl Producer {
    pub fn new(guide: &Guide, seed: u64, queue: usize, book: Arc<Book>) -> Self {
        let random = Rng::with_seed(seed.wrapping_mul(97).wrapping_add(queue as u64));
        Producer { guide: guide.clone(), seed, queue, book, random, redis: None, grain_ms: 1, doomed: Vec::new() }
    }

    /// Rounds the due times to whole seconds, so that a claim has many elements.
    pub fn in_bursts(self) -> Self {
        Producer { grain_ms: 1_000, ..self }
    }

    /// Offers `rate` elements per second until `end`.
    pub async fn run(mut self, rate: u32, end: Instant) {
        let pause = Duration::from_secs(1) / rate.max(1);
        let mut next = Instant::now();
        while next < end {
            self.offer(None).await;
            self.withdraw().await;
            // Offers delayed by a fault are made up for at once afterwards, but not all of them.
            next = (next + pause).max(Instant::now().checked_sub(Duration::from_secs(1)).unwrap_or(next));
            sleep_until(next).await;
        }
    }

    /// Offers one good element of each size, due now; for the end, after all faults.
    pub async fn probe(mut self, sizes: &[usize]) {
        // With other ids than the first offers.
        self.random = Rng::with_seed(!self.seed.wrapping_add(self.queue as u64));
        for size in sizes {
            self.offer(Some(*size)).await;
        }
    }

    async fn offer(&mut self, probe: Option<usize>) {
        let random = &mut self.random;
        let size = match random.u32(..1000) {
            0..800 => random.usize(40..400),
            800..980 => random.usize(4_200..9_000),
            980..998 => random.usize(40_000..120_000),
            _ => 1_000_000,
        };
        let kind = if random.u32(..200) == 0 { Kind::Undecodable } else { Kind::Good };
        let doomed = random.u32(..40) == 0;
        let delay_ms = if doomed { 2_500 } else { random.i64(-200..2_500) };
        let layout = if random.bool() { Layout::New } else { Layout::Old };
        let id: [u8; 8] = match layout {
            Layout::New => random.u64(..).to_le_bytes(),
            #[allow(clippy::cast_precision_loss, reason = "the loss is what Redisson's conversion does")]
            Layout::Old => (random.i64(..) as f64).to_le_bytes(),
        };
        let (size, kind, doomed, delay_ms) = match probe {
            Some(size) => (size, Kind::Good, false, 0),
            None => (size, kind, doomed, delay_ms),
        };
        let due_ms = next_multiple(now_ms() + delay_ms, self.grain_ms);
        let text = |n: u64| if self.queue == 0 { hex::encode(id) } else { n.to_string() };
        let n = self.book.note(self.queue, size, due_ms, kind, text);
        let body = match kind {
            Kind::Good => payload(self.seed, n, size),
            _ => undecodable(self.seed, n, size),
        };
        let written = Written { layout, id, body, due_ms };
        let answer = self.send(n, &written).await;
        self.book.taken(n, answer);
        if doomed && kind == Kind::Good && answer == Answer::Yes {
            self.doomed.push((n, due_ms, layout, written.body));
        }
    }

    async fn send(&mut self, n: u64, element: &Written) -> Answer {
        let queue = RedissonQueue::new(QUEUES[0]);
        let Written { layout, id, body, due_ms } = element;
        let sent = match self.queue {
            0 => {
                let queue = queue.with_layout(*layout);
                let script = queue.script(OFFER);
                let mut call = script.prepare_invoke();
                call.key(&queue.timeouts).key(&queue.list).key(&queue.channel).arg(due_ms);
                match layout {
                    Layout::New => call.arg(&id[..]),
                    Layout::Old => call.arg(format!("{:?}", f64::from_le_bytes(*id))),
                };
                call.arg(&body[..]);
                self.ask(async move |mut redis| call.invoke_async::<redis::Value>(&mut redis).await).await
            }
            1 => {
                let command = redis::cmd("ZADD").arg(QUEUES[1]).arg(due_ms).arg(&body[..]).to_owned();
                self.ask(async move |mut redis| command.query_async::<redis::Value>(&mut redis).await).await
            }
            _ => {
                let mut pipe = redis::pipe();
                pipe.atomic().set(format!("{{pool}}:job:{n}"), &body[..]).zadd("{pool}:due", n, due_ms);
                self.ask(async move |mut redis| pipe.query_async::<redis::Value>(&mut redis).await).await
            }
        };
        match sent {
            Ok(_) => self.sure(Answer::Yes).await,
            Err(error) => self.failed(&error),
        }
    }

    /// The answer, or unknown if a failover may revert it.
    async fn sure(&mut self, answer: Answer) -> Answer {
        let guide = self.guide.clone();
        match self.ask(async move |mut redis| Ok(guide.is_sure(&mut redis).await)).await {
            Ok(true) => answer,
            // It may be a former master; reconnect, as clients that follow the servers do.
            _ => {
                self.redis = None;
                Answer::Unknown
            }
        }
    }

    fn failed(&mut self, error: &RedisError) -> Answer {
        if error.code().is_none_or(|code| code != "OOM") {
            self.redis = None;
        }
        if refused(error) { Answer::No } else { Answer::Unknown }
    }

    /// Withdraws the next element that is to be withdrawn and will be due soon.
    async fn withdraw(&mut self) {
        let soon = now_ms() + 1_500;
        let Some(at) = self.doomed.iter().position(|(_, due_ms, ..)| *due_ms < soon) else { return };
        let (n, due_ms, layout, body) = self.doomed.swap_remove(at);
        // Recorded first, as unknown.
        self.book.withdrawn(n, Answer::Unknown);
        let removed = match self.queue {
            0 => {
                let queue = RedissonQueue::new(QUEUES[0]).with_layout(layout);
                // The script of a client of one layout fails at an element of the other one, as Redisson's does.
                let script =
                    queue.script(&REMOVE.replace("local _, payload = struct.unpack('FORMAT', element)", UNPACK));
                let mut call = script.prepare_invoke();
                call.key(&queue.list).key(&queue.timeouts).arg(&body[..]);
                self.ask(async move |mut redis| call.invoke_async::<i64>(&mut redis).await).await
            }
            1 => {
                let command = redis::cmd("ZREM").arg(QUEUES[1]).arg(&body[..]).to_owned();
                self.ask(async move |mut redis| command.query_async::<i64>(&mut redis).await).await
            }
            _ => {
                let mut pipe = redis::pipe();
                pipe.atomic().zrem("{pool}:due", n).del(format!("{{pool}}:job:{n}")).ignore();
                self.ask(async move |mut redis| pipe.query_async::<Vec<i64>>(&mut redis).await.map(|all| all[0])).await
            }
        };
        let answer = match removed {
            // A later success proves nothing: Redisson's script also removes claimed elements.
            Ok(_) if now_ms() > due_ms - IN_TIME_MS => Answer::Unknown,
            Ok(0) => Answer::No,
            Ok(_) => self.sure(Answer::Yes).await,
            Err(error) => self.failed(&error),
        };
        self.book.withdrawn(n, answer);
    }

    async fn ask<T>(&mut self, send: impl AsyncFnOnce(MultiplexedConnection) -> RedisResult<T>) -> RedisResult<T> {
        let late = || RedisError::from((ErrorKind::Io, "no answer in time"));
        if self.redis.is_none() {
            self.redis = Some(timeout(PATIENCE, self.guide.connect(self.queue)).await.map_err(|_| late())??);
        }
        let Some(redis) = self.redis.clone() else { return Err(late()) };
        timeout(PATIENCE, send(redis)).await.map_err(|_| late())?
    }
}

/// Reads the payload of an element of either layout, and skips others.
const UNPACK: &str = "local payload = nil
  for _, format in ipairs({'Bc0Lc0', 'dLc0'}) do
    local ok, _, found = pcall(struct.unpack, format, element)
    if ok and found == ARGV[1] then payload = found end
  end";

/// Connects as a patient client.
pub async fn connect(url: &str) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(Duration::from_secs(10)))
        .set_response_timeout(Some(Duration::from_secs(30)));
    redis::Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await
}

/// Whether the server answered, and did nothing.
fn refused(error: &RedisError) -> bool {
    error.code().is_some_and(|code| {
        matches!(
            code,
            "OOM"
                | "MISCONF"
                | "LOADING"
                | "BUSY"
                | "MASTERDOWN"
                | "READONLY"
                | "EXECABORT"
                | "MOVED"
                | "ASK"
                | "TRYAGAIN"
                | "CLUSTERDOWN"
        )
    }) || ["OOM", "MISCONF"].iter().any(|code| error.to_string().contains(code))
}
