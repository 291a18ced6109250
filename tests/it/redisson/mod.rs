//! Real Redisson clients together with the daemon: every important version, in and out, alone and in competition.

mod both_ways;
mod bounded;
mod compatibility;
mod ghosts;
mod kills;
mod mixed;
mod objects;
mod overflow;
mod racing;
mod restored;

use std::time::Duration;

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use serde_json::Value;

use harness::daemon::{ConfigFile, cli};
use harness::java::JavaQueue;
use harness::oracle::read_stream;
use harness::redisson::redis_now_ms;
use harness::{Delivery, RedisServer, RedissonQueue, eventually};

/// Time-out on a machine that runs other tests as well.
const PATIENCE: Duration = Duration::from_secs(120);

/// A delay longer than any test.
const LATER: Duration = Duration::from_secs(3600);

/// A queue `q` into the stream `out`; `queue` has further keys of the queue.
///
/// With long time-outs, so that a machine that stalls for seconds does not look like a defect.
fn yaml(server: &RedisServer, queue: &str) -> String {
    format!(
        "redis: {{ url: {}, connect_timeout: 30s, command_timeout: 14s }}\n\
         sinks: {{ out: {{ redis: {{ stream: out, timeout: 20s }} }} }}\n\
         queues: {{ q: {{ source: {{ redisson: {{ name: q }} }}, {queue} to: [{{ sink: out }}] }} }}\n",
        server.url()
    )
}

/// The same for commands with or without a daemon.
fn config(server: &RedisServer) -> ConfigFile {
    ConfigFile::new(&format!("http: none\n{}", yaml(server, "")))
}

/// Runs a command that must succeed, and parses its JSON.
#[track_caller]
fn ask(config: &ConfigFile, arguments: &[&str]) -> Value {
    let output = cli(config, &[arguments, &["--output", "json"]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{arguments:?}: {e}"))
}

/// The elements in Redis, with their due times.
async fn scheduled(redis: &mut MultiplexedConnection, queue: &RedissonQueue) -> Vec<(Vec<u8>, i64)> {
    redis.zrange_withscores(&queue.timeouts, 0, -1).await.expect("read the sorted set")
}

/// Makes everything due now, so that no test waits for a due time that a stall could overtake.
///
/// Transfer tasks of live clients do not notice, and continue to wait for the time that they know.
async fn make_due(redis: &mut MultiplexedConnection, queue: &RedissonQueue) {
    let now = redis_now_ms(redis).await;
    for (member, _) in scheduled(redis, queue).await {
        let there = redis::SortedSetAddOptions::update_only(None);
        let _: () = redis.zadd_options(&queue.timeouts, member, now, &there).await.expect("bring forward");
    }
    let _: () = redis.publish(&queue.channel, now).await.expect("announce the head");
}

async fn arrived(redis: &mut MultiplexedConnection, count: usize) -> Vec<Delivery> {
    eventually("the deliveries", PATIENCE, async || match redis.xlen::<_, usize>("out").await {
        Ok(length) if length >= count => Ok(()),
        other => Err(format!("{other:?} of {count}")),
    })
    .await;
    read_stream(redis, "out").await
}

/// The element that a Java consumer takes from the ready list after Redisson's own transfer.
///
/// The due time is announced repeatedly: in versions before 3.45.1 a timer of Redisson can get lost.
async fn taken(redis: &mut MultiplexedConnection, queue: &RedissonQueue, seen: &JavaQueue<'_>) -> Value {
    eventually("Java to take the element", PATIENCE, async || {
        let now = redis_now_ms(redis).await;
        let _: () = redis.publish(&queue.channel, now).await.map_err(|e| e.to_string())?;
        seen.take(Duration::from_millis(500)).await.ok_or_else(|| "nothing".to_owned())
    })
    .await
}
