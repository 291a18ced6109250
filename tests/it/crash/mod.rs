//! Daemons that are killed, stopped, poisoned and shut down, with elements in flight.

mod ahead;
mod kills;
mod poison;
mod shutdown;
mod stopped;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use crate::harness::redisson::{Element, redis_now_ms};
use crate::harness::{Layout, Oracle, RedisServer, RedissonQueue, eventually};

/// How long anything may take on a machine that runs other tests as well.
const PATIENCE: Duration = Duration::from_secs(60);

/// The stream that everything goes to, unless a test says otherwise.
const OUT: &str = "out";

/// A daemon for the queue `q` on this server, with the sink `out`; `sink` and `queue` are what these have beside.
///
/// Leases of these tests are 4 s or more: shorter ones, with time-outs to match, expire by themselves while a busy
/// machine lets a daemon wait for its turn.
fn yaml(source: &RedisServer, sink: &str, queue: &str) -> String {
    format!(
        "redis: {{ url: {}, command_timeout: 1900ms }}\n\
         sinks: {{ out: {{ redis: {{ {sink} }} }} }}\n\
         queues: {{ q: {{ source: {{ redisson: {{ name: q }} }}, to: [{{ sink: out }}], {queue} }} }}\n",
        source.url(),
    )
}

/// Offers `count` elements to `q` that are all due; the oracle knows them.
async fn offer_due(redis: &mut MultiplexedConnection, count: usize) -> (RedissonQueue, Vec<Element>, Oracle) {
    let queue = RedissonQueue::new("q");
    let now = redis_now_ms(redis).await;
    let elements: Vec<Element> =
        (0..count).map(|n| Element::new(Layout::New, now - 1, format!("{{\"order\":{n}}}"))).collect();
    let mut oracle = Oracle::new();
    oracle.offered(&elements);
    queue.offer_bulk(redis, &elements).await;
    (queue, elements, oracle)
}

/// Entries in flight, by their owner: the eight bytes after the first sixteen of an entry's header.
async fn in_flight_by_owner(redis: &mut MultiplexedConnection, queue: &RedissonQueue) -> HashMap<[u8; 8], usize> {
    let members: Vec<Vec<u8>> =
        redis.zrange(queue.bridge_key("inflight"), 0, -1).await.expect("read what is in flight");
    let mut owners = HashMap::new();
    for member in members {
        let owner = member[16..24].try_into().expect("eight bytes");
        *owners.entry(owner).or_default() += 1;
    }
    owners
}

/// The elements that a daemon had in flight when it was killed, by the owners that were not there before.
#[derive(Default)]
pub(crate) struct Owners(HashSet<[u8; 8]>);

impl Owners {
    /// How many entries a daemon has left that was killed since the last call.
    pub(crate) async fn of_the_killed(&mut self, redis: &mut MultiplexedConnection, queue: &RedissonQueue) -> usize {
        let found = in_flight_by_owner(redis, queue).await;
        found.into_iter().filter(|(owner, _)| self.0.insert(*owner)).map(|(_, count)| count).sum()
    }
}

/// Waits until this many are in flight.
async fn wait_in_flight(redis: &mut MultiplexedConnection, queue: &RedissonQueue, count: usize) {
    let what = format!("{count} elements in flight");
    eventually(&what, PATIENCE, async || {
        let found: usize = redis.zcard(queue.bridge_key("inflight")).await.map_err(|e| e.to_string())?;
        if found == count { Ok(()) } else { Err(found.to_string()) }
    })
    .await;
}

/// Nothing of the queue is left in Redis but its dead letters, of which there are this many.
async fn assert_settled(redis: &mut MultiplexedConnection, queue: &RedissonQueue, dead: usize) {
    for key in [&queue.timeouts, &queue.bridge_key("inflight"), &queue.bridge_key("retry")] {
        assert_eq!(redis.zcard::<_, usize>(key).await.expect("count a sorted set"), 0, "{key} is not empty");
    }
    assert_eq!(redis.xlen::<_, usize>(queue.bridge_key("dead")).await.expect("count dead letters"), dead);
}

/// Waits until nothing of the queue is scheduled, in flight or waiting for another attempt.
async fn wait_settled(redis: &mut MultiplexedConnection, queue: &RedissonQueue) {
    eventually("the queue to be empty", PATIENCE, async || {
        // At one moment: between two looks an element can move from what is looked at next to what was looked at.
        let mut look = redis::pipe();
        look.atomic().zcard(&queue.timeouts).zcard(queue.bridge_key("inflight")).zcard(queue.bridge_key("retry"));
        let left: [usize; 3] = look.query_async(redis).await.map_err(|e| e.to_string())?;
        if left == [0, 0, 0] { Ok(()) } else { Err(format!("scheduled, in flight, retry: {left:?}")) }
    })
    .await;
}
