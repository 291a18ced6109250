//! The tools of the fault tests: a configuration, a stream of elements, and the wait until all of them have arrived.

use std::time::Duration;

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use harness::metrics::Metrics;
use harness::oracle::{Report, read_list, read_stream};
use harness::redisson::{Element, redis_now_ms};
use harness::{Daemon, Delivery, Oracle, RedisServer, RedissonQueue, eventually};

/// Time-out on a machine that runs other tests as well.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Expects the log lines that a machine stalled for seconds causes, because it looks like an outage to the daemon.
pub fn tolerate_stalls(daemon: &mut Daemon) {
    daemon.expect_log("cannot reach Redis").expect_log("sink down").expect_log("elements dropped here");
}

/// The configuration with time-outs that no busy machine reaches, for tests in which each element has one attempt.
pub fn patient(yaml: &str) -> String {
    yaml.replace("timeout: 5s", "timeout: 1m").replace("lease: 10s", "lease: 3m").replace("lease: 20s", "lease: 3m")
}

/// Fails unless everything arrived, nothing else, and at most as many duplicates as the daemons announced: none without
/// faults. Returns the announced number.
pub async fn assert_complete(report: &Report, daemons: &[&Daemon]) -> f64 {
    assert_complete_beside_dead(report, daemons, 0).await
}

/// As [`assert_complete`], if the daemons have stored this many dead letters.
pub async fn assert_complete_beside_dead(report: &Report, daemons: &[&Daemon], dead: usize) -> f64 {
    let mut announced = 0.0;
    let mut stored = 0.0;
    for daemon in daemons {
        let metrics = daemon.metrics().await;
        announced += metrics.sum("delaybridge_possible_duplicates_total");
        stored += metrics.sum("delaybridge_dead_lettered_messages_total");
    }
    assert_eq!(stored, dead as f64, "dead letters");
    report.assert_complete(announced as usize);
    announced
}

/// `n` elements due at random times from `from_ms` on, within `spread_ms`; all payloads differ.
pub fn elements(queue: &RedissonQueue, name: &str, n: usize, from_ms: i64, spread_ms: i64) -> Vec<Element> {
    (0..n)
        .map(|i| {
            let due_ms = from_ms + fastrand::i64(0..spread_ms.max(1));
            Element::new(queue.layout, due_ms, format!("{name}-{i}-{:08x}", fastrand::u32(..)))
        })
        .collect()
}

/// A feed of elements during a fault: a few every tick, delayed ones and ones on the ready list.
pub struct Feed {
    pub queue: RedissonQueue,
    pub oracle: Oracle,
    redis: MultiplexedConnection,
    ticks: tokio::time::Interval,
    round: usize,
}

impl Feed {
    /// A feed into this queue, which offers nothing before [`tick`](Feed::tick).
    pub async fn new(server: &RedisServer, queue: RedissonQueue) -> Self {
        let ticks = tokio::time::interval(Duration::from_millis(100));
        Feed { queue, oracle: Oracle::new(), redis: server.client().await, ticks, round: 0 }
    }

    /// Waits for the next tick, and offers `delayed` elements, due within the next 400 ms, and `ready` payloads.
    pub async fn tick(&mut self, delayed: usize, ready: usize) {
        self.ticks.tick().await;
        self.round += 1;
        let now = redis_now_ms(&mut self.redis).await;
        let name = format!("d{}", self.round);
        let delayed = elements(&self.queue, &name, delayed, now, 400);
        let ready: Vec<Vec<u8>> =
            (0..ready).map(|i| format!("r{}-{i}-{:08x}", self.round, fastrand::u32(..)).into_bytes()).collect();
        // Recorded first: an element may arrive before the offer returns.
        self.oracle.offered(&delayed);
        self.oracle.pushed_ready(&ready);
        self.queue.offer_bulk(&mut self.redis, &delayed).await;
        self.queue.push_ready(&mut self.redis, &ready).await;
    }

    /// Runs `CLIENT KILL TYPE kind` on the feed's own connection, which is spared; returns the number of killed
    /// connections.
    pub async fn kill_others(&mut self, kind: &str) -> usize {
        let mut kill = redis::cmd("CLIENT");
        kill.arg("KILL").arg("TYPE").arg(kind).arg("SKIPME").arg("yes");
        kill.query_async(&mut self.redis).await.expect("kill connections")
    }
}

/// Waits until everything has arrived in the stream, and reads it.
pub async fn all_in_stream(redis: &mut MultiplexedConnection, key: &str, oracle: &Oracle) -> Vec<Delivery> {
    eventually("every element to arrive in the stream", PATIENCE, async || {
        let length: usize = redis.xlen(key).await.map_err(|e| e.to_string())?;
        if length < oracle.count() {
            return Err(format!("{length} of {}", oracle.count()));
        }
        let deliveries = read_stream(redis, key).await;
        oracle.judge(&deliveries).complete().map(|_| deliveries)
    })
    .await
}

/// Waits until everything has arrived in the list, and reads it.
pub async fn all_in_list(redis: &mut MultiplexedConnection, key: &str, oracle: &Oracle) -> Vec<Delivery> {
    eventually("every element to arrive in the list", PATIENCE, async || {
        let length: usize = redis.llen(key).await.map_err(|e| e.to_string())?;
        if length < oracle.count() {
            return Err(format!("{length} of {}", oracle.count()));
        }
        let deliveries = read_list(redis, key).await;
        oracle.judge_payloads(&deliveries).complete().map(|_| deliveries)
    })
    .await
}

/// Waits until nothing is in flight or waits for a retry; fails if there is a dead letter.
pub async fn settled(redis: &mut MultiplexedConnection, queue: &RedissonQueue) {
    let redis = &mut redis.clone();
    eventually("everything to be settled", PATIENCE, async || {
        let in_flight: usize = queue.in_flight(redis).await.map_err(|e| e.to_string())?;
        let retry: usize = redis.zcard(queue.bridge_key("retry")).await.map_err(|e| e.to_string())?;
        if in_flight + retry == 0 { Ok(()) } else { Err(format!("{in_flight} in flight, {retry} to be retried")) }
    })
    .await;
    let dead: usize = redis.xlen(queue.bridge_key("dead")).await.expect("count the dead letters");
    assert_eq!(dead, 0, "dead letters of {}", queue.name);
}

/// Waits while a fault lasts, or while the daemon could do something wrong: only the time counts.
pub async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Waits until a metric satisfies the condition.
pub async fn metric(daemon: &Daemon, selector: &str, condition: impl Fn(f64) -> bool) -> f64 {
    eventually(selector, PATIENCE, async || {
        // `Daemon::metric` would fail if the daemon does not listen yet.
        let value = Metrics::parse(&daemon.get("/metrics").await?.body).sum(selector);
        if condition(value) { Ok(value) } else { Err(value.to_string()) }
    })
    .await
}

/// Waits until `/readyz` responds with this status and a body that contains the text.
pub async fn readyz(daemon: &Daemon, status: u16, text: &str) -> String {
    eventually(&format!("/readyz to answer {status} with {text:?}"), PATIENCE, async || {
        let answer = daemon.get("/readyz").await?;
        if answer.status == status && answer.body.contains(text) {
            Ok(answer.body)
        } else {
            Err(format!("{} {}", answer.status, answer.body))
        }
    })
    .await
}

/// The lateness of all deliveries with known times, in ms, sorted.
pub fn lateness(deliveries: &[Delivery]) -> Vec<i64> {
    let mut late: Vec<i64> = deliveries.iter().filter_map(|d| Some(d.arrived_ms? - d.due_ms?)).collect();
    late.sort_unstable();
    late
}

/// Formats `p50 1 ms, p99 2 ms, max 3 ms` for sorted numbers.
pub fn summary(sorted: &[i64]) -> String {
    let at = |share: usize| sorted.get((sorted.len().saturating_sub(1)) * share / 100).copied().unwrap_or(0);
    format!("p50 {} ms, p99 {} ms, max {} ms", at(50), at(99), at(100))
}
