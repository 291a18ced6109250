//! Daemons that are killed, stopped, poisoned and shut down, with elements in flight.

mod ahead;
mod kills;
mod paused;
mod poison;
mod shutdown;
mod stopped;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use harness::redisson::{Element, redis_now_ms};
use harness::{Layout, Oracle, RedisServer, RedissonQueue, eventually};

/// Time-out on a machine that runs other tests as well.
const PATIENCE: Duration = Duration::from_secs(60);

/// The stream of the deliveries, unless a test has another one.
const OUT: &str = "out";

/// A daemon for the queue `q` on this server, with the sink `out`; `sink` and `queue` are further settings of these.
///
/// Leases of these tests are at least 4 s: shorter ones, with time-outs to match, would expire while a busy machine
/// does not schedule a daemon.
fn yaml(source: &RedisServer, sink: &str, queue: &str) -> String {
    format!(
        "redis: {{ url: {}, command_timeout: 1900ms }}\n\
         sinks: {{ out: {{ redis: {{ {sink} }} }} }}\n\
         queues: {{ q: {{ source: {{ redisson: {{ name: q }} }}, to: [{{ sink: out }}], {queue} }} }}\n",
        source.url(),
    )
}

/// Offers `count` overdue elements to `q`, and records them in the oracle.
async fn offer_due(redis: &mut MultiplexedConnection, count: usize) -> (RedissonQueue, Vec<Element>, Oracle) {
    offer_due_of(redis, count, 0).await
}

/// The same with payloads of at least this size.
async fn offer_due_of(
    redis: &mut MultiplexedConnection,
    count: usize,
    size: usize,
) -> (RedissonQueue, Vec<Element>, Oracle) {
    let queue = RedissonQueue::new("q");
    let now = redis_now_ms(redis).await;
    let payload = |n| format!("{{\"order\":{n:>width$}}}", width = size.saturating_sub(10).max(1));
    let elements: Vec<Element> = (0..count).map(|n| Element::new(Layout::New, now - 1, payload(n))).collect();
    let mut oracle = Oracle::new();
    oracle.offered(&elements);
    queue.offer_bulk(redis, &elements).await;
    (queue, elements, oracle)
}

/// Number of elements in flight by owner, which is the second field of a claim's name.
async fn in_flight_by_owner(redis: &mut MultiplexedConnection, queue: &RedissonQueue) -> HashMap<String, usize> {
    let mut owners = HashMap::new();
    for (name, _, members) in queue.claims(redis).await {
        let owner = name.split('.').nth(1).expect("an owner").to_owned();
        *owners.entry(owner).or_default() += members.len();
    }
    owners
}

/// The owners seen so far, to find those of killed daemons.
#[derive(Default)]
pub(crate) struct Owners(HashSet<String>);

impl Owners {
    /// Number of entries left by daemons that were killed since the last call.
    pub(crate) async fn of_the_killed(&mut self, redis: &mut MultiplexedConnection, queue: &RedissonQueue) -> usize {
        let found = in_flight_by_owner(redis, queue).await;
        found.into_iter().filter(|(owner, _)| self.0.insert(owner.clone())).map(|(_, count)| count).sum()
    }
}

async fn wait_in_flight(redis: &mut MultiplexedConnection, queue: &RedissonQueue, count: usize) {
    let what = format!("{count} elements in flight");
    eventually(&what, PATIENCE, async || {
        let found: usize = queue.in_flight(redis).await.map_err(|e| e.to_string())?;
        if found == count { Ok(()) } else { Err(found.to_string()) }
    })
    .await;
}

/// Checks that nothing of the queue is left in Redis except this number of dead letters.
async fn assert_settled(redis: &mut MultiplexedConnection, queue: &RedissonQueue, dead: usize) {
    assert_eq!(queue.in_flight(redis).await.expect("count what is in flight"), 0);
    for key in [&queue.timeouts, &queue.bridge_key("retry")] {
        assert_eq!(redis.zcard::<_, usize>(key).await.expect("count a sorted set"), 0, "{key} is not empty");
    }
    assert_eq!(redis.xlen::<_, usize>(queue.bridge_key("dead")).await.expect("count dead letters"), dead);
}

/// Waits until nothing of the queue is scheduled, in flight or waiting for another attempt.
async fn wait_settled(redis: &mut MultiplexedConnection, queue: &RedissonQueue) {
    eventually("the queue to be empty", PATIENCE, async || {
        // Atomic: between two reads an element could move from a structure read later to one read before.
        let mut look = redis::pipe();
        look.atomic().zcard(&queue.timeouts).add_command(queue.count_in_flight()).zcard(queue.bridge_key("retry"));
        let left: [usize; 3] = look.query_async(redis).await.map_err(|e| e.to_string())?;
        if left == [0, 0, 0] { Ok(()) } else { Err(format!("scheduled, in flight, retry: {left:?}")) }
    })
    .await;
}
