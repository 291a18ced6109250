//! Deliveries: every layout and codec, every sink, limits, log-ins, fairness. The daemon is the built binary, Redis is
//! a real server.

mod audit;
mod codecs;
mod conditions;
mod connection;
mod fanout;
mod junk;
mod large;
mod limits;
mod neighbours;
mod ready_list;
mod recorded;

use std::time::Duration;

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use harness::daemon::Daemon;
use harness::redisson::{Element, Layout, RedissonQueue};
use harness::{RedisServer, eventually};

/// Time-out on a machine that runs all other tests at the same time.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A configuration with long time-outs on this server: on a machine that stalls for seconds, a login or a delivery
/// would otherwise time out and look like a defect of the daemon. (Twice 14 s is within a lease.)
fn on(server: &RedisServer, rest: &str) -> String {
    let redis = format!("redis: {{ url: {}, connect_timeout: 30s, command_timeout: 14s }}", server.url());
    format!("{redis}\n{}", rest.replace("redis: {}", "redis: { timeout: 20s }"))
}

/// Elements with these payloads, due a little before `now_ms`, one after the other.
fn overdue(now_ms: i64, payloads: impl IntoIterator<Item = impl Into<Vec<u8>>>) -> Vec<Element> {
    let payloads: Vec<Vec<u8>> = payloads.into_iter().map(Into::into).collect();
    let first = now_ms - 1_000 - payloads.len() as i64;
    payloads.into_iter().zip(first..).map(|(payload, due)| Element::new(Layout::New, due, payload)).collect()
}

/// Waits until a stream has this many entries.
async fn stream_of(redis: &mut MultiplexedConnection, key: &str, entries: usize) {
    eventually(&format!("{entries} entries in the stream {key}"), PATIENCE, async || {
        match redis.clone().xlen::<_, usize>(key).await.map_err(|e| e.to_string())? {
            length if length >= entries => Ok(()),
            length => Err(format!("{length} entries")),
        }
    })
    .await;
}

/// Waits until a list has this many entries.
async fn list_of(redis: &mut MultiplexedConnection, key: &str, entries: usize) {
    eventually(&format!("{entries} entries in the list {key}"), PATIENCE, async || {
        match redis.clone().llen::<_, usize>(key).await.map_err(|e| e.to_string())? {
            length if length >= entries => Ok(()),
            length => Err(format!("{length} entries")),
        }
    })
    .await;
}

/// Waits until nothing of the queue is left except dead letters: nothing scheduled, ready, in flight or waiting, and no
/// ghost.
async fn emptied(redis: &mut MultiplexedConnection, queue: &RedissonQueue) {
    eventually(&format!("queue {} to be empty", queue.name), PATIENCE, async || {
        let left: (usize, usize, usize, usize, usize) = redis::pipe()
            .zcard(&queue.timeouts)
            .llen(&queue.list)
            .llen(&queue.name)
            .add_command(queue.count_in_flight())
            .zcard(queue.bridge_key("retry"))
            .query_async(&mut redis.clone())
            .await
            .map_err(|e| e.to_string())?;
        if left == (0, 0, 0, 0, 0) {
            Ok(())
        } else {
            Err(format!("scheduled, listed, ready, in flight, retry: {left:?}"))
        }
    })
    .await;
}

/// Like [`emptied`], except that Redisson's list may keep entries that an interrupted claim left there.
async fn settled(redis: &mut MultiplexedConnection, queue: &RedissonQueue) {
    let unlisted = RedissonQueue { list: String::new(), ..queue.clone() };
    emptied(redis, &unlisted).await;
}

/// Waits until `/readyz` reports unready with this text.
async fn unready(daemon: &Daemon, text: &str) {
    eventually(&format!("readiness to say {text:?}"), PATIENCE, async || match daemon.get("/readyz").await {
        Ok(answer) if answer.status == 503 && answer.body.contains(text) => Ok(()),
        Ok(answer) => Err(format!("{} {}", answer.status, answer.body)),
        Err(e) => Err(e),
    })
    .await;
}

/// The dead letters with their fields.
async fn dead_letters(
    redis: &mut MultiplexedConnection,
    queue: &RedissonQueue,
) -> Vec<std::collections::HashMap<String, Vec<u8>>> {
    let range: redis::streams::StreamRangeReply =
        redis.xrange_all(queue.bridge_key("dead")).await.expect("read the dead letters");
    range
        .ids
        .into_iter()
        .map(|entry| {
            let fields = entry.map.into_iter();
            fields.map(|(name, value)| (name, redis::from_redis_value(value).expect("a field of bytes"))).collect()
        })
        .collect()
}

/// The median, a high percentile and the maximum, as text.
fn spread(mut values: Vec<i64>) -> String {
    values.sort_unstable();
    let at = |share: f64| values.get(((values.len() as f64 - 1.0) * share) as usize).copied().unwrap_or(0);
    format!("p50 {} ms, p99 {} ms, max {} ms", at(0.5), at(0.99), at(1.0))
}
