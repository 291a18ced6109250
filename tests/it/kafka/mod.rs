//! The daemon and a real Kafka: deliveries, refusals and outages of the broker, and the resumption.

mod held;
mod letters;
mod outages;
mod parts;
mod records;
mod rotation;
mod stopped;

use std::time::Duration;

use brokers::{Kafka, KafkaOptions};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use crate::faults::rig::{PATIENCE, assert_complete, settled};
use harness::kafka::{count_topic, read_topic};
use harness::{Daemon, Delivery, Oracle, RedisServer, RedissonQueue, eventually};

/// Runs blocking code without blocking the other tasks of the test.
#[allow(clippy::disallowed_methods, reason = "the tests of this folder run on a runtime of several threads")]
pub fn blocking<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(work)
}

pub fn start(options: KafkaOptions) -> Kafka {
    blocking(|| Kafka::start_with(options)).unwrap_or_else(|e| panic!("start Kafka: {e}"))
}

/// A queue `q` into the topic `arrived`; `kafka` has the sink's keys.
fn yaml(server: &RedisServer, kafka: &str, queue: &str) -> String {
    format!(
        "redis: {{ url: '{}' }}\n\
         retry: {{ strict: {{ max_attempts: 3, initial_interval: 10ms, max_interval: 100ms }} }}\n\
         sinks: {{ out: {{ kafka: {{ {kafka} }} }} }}\n\
         queues: {{ q: {{ source: {{ redisson: {{ name: q }} }}, retry: strict, {queue}, \
         to: [{{ sink: out, topic: arrived }}] }} }}\n",
        server.url()
    )
}

/// Waits until the topic has as many records as there are elements, and contains every element.
async fn all_in_topic(bootstrap: &str, topic: &str, oracle: &Oracle) -> Vec<Delivery> {
    eventually("every element to arrive in the topic", 2 * PATIENCE, async || {
        let count = count_topic(bootstrap, topic).await?;
        if count < oracle.count() {
            return Err(format!("{count} of {}", oracle.count()));
        }
        let deliveries = read_topic(bootstrap, topic).await?;
        oracle.judge(&deliveries).complete().map(|_| deliveries)
    })
    .await
}

/// Checks that everything is in the topic, with nothing left in Redis, no dead letter, and no unannounced duplicate.
async fn judge(what: &str, daemon: &Daemon, server: &RedisServer, bootstrap: &str, oracle: &Oracle) {
    let deliveries = all_in_topic(bootstrap, "arrived", oracle).await;
    settled(&mut server.client().await, &RedissonQueue::new("q")).await;
    let report = oracle.judge(&deliveries);
    let announced = assert_complete(&report, &[daemon]).await;
    let memory = daemon.usage().resident >> 20;
    println!("{what}: {report}, {announced} announced; {memory} MiB resident");
}

/// Number of elements that are not delivered yet.
async fn left(redis: &mut MultiplexedConnection) -> usize {
    let queue = RedissonQueue::new("q");
    let mut left: usize = redis.zcard(&queue.timeouts).await.expect("count a sorted set");
    left += redis.zcard::<_, usize>(queue.bridge_key("retry")).await.expect("count a sorted set");
    left + queue.in_flight(redis).await.expect("count what is in flight")
}

/// Whether to run longer, with `DELAYBRIDGE_LONG=1`.
fn long() -> bool {
    std::env::var_os("DELAYBRIDGE_LONG").is_some()
}

/// Waits while the fault lasts.
async fn pass(time: Duration) {
    crate::faults::rig::pass(time).await;
}
