//! The daemon and a webhook: the requests, refusals and outages, and the continuation afterwards.

mod order;
mod outages;
pub mod receiver;
mod refusals;
mod requests;

use std::time::Duration;

use crate::faults::rig::{PATIENCE, assert_complete, elements, settled};
use harness::redisson::redis_now_ms;
use harness::{Daemon, Oracle, RedisServer, RedissonQueue, eventually};
use receiver::Receiver;

/// A queue `q` to the path `/orders` of the receiver; `http` has further keys of the sink, `queue` of the queue.
fn yaml(server: &RedisServer, receiver: &Receiver, http: &str, queue: &str) -> String {
    format!(
        "redis: {{ url: '{}' }}\n\
         retry: {{ strict: {{ max_attempts: 3, initial_interval: 10ms, max_interval: 100ms }} }}\n\
         sinks: {{ out: {{ http: {{ url: 'https://localhost:{}/orders', tls: {{ ca_file: '{}' }}, timeout: 5s{http} }} }} }}\n\
         queues: {{ q: {{ source: {{ redisson: {{ name: q }} }}, retry: strict, lease: 20s, max_in_flight: 500{queue}, \
         to: [{{ sink: out }}] }} }}\n",
        server.url(),
        receiver.port,
        receiver.pki.ca.display(),
    )
}

/// Offers `count` elements that fall due within `spread`, and records them.
async fn offer(server: &RedisServer, oracle: &mut Oracle, name: &str, count: usize, spread: Duration) {
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("q");
    let now = redis_now_ms(&mut redis).await;
    let offered = elements(&queue, name, count, now, i64::try_from(spread.as_millis()).expect("a short time"));
    oracle.offered(&offered);
    queue.offer_bulk(&mut redis, &offered).await;
}

/// Waits until every element has been confirmed.
async fn all(receiver: &Receiver, oracle: &Oracle) {
    eventually("every element to arrive at the webhook", PATIENCE, async || {
        oracle.judge(&receiver.deliveries()).complete().map(drop)
    })
    .await;
}

/// Checks that everything has arrived, with nothing left in Redis, no dead letter, and no unannounced duplicate.
async fn judge(what: &str, daemon: &Daemon, server: &RedisServer, receiver: &Receiver, oracle: &Oracle) {
    all(receiver, oracle).await;
    settled(&mut server.client().await, &RedissonQueue::new("q")).await;
    let report = oracle.judge(&receiver.deliveries());
    let announced = assert_complete(&report, &[daemon]).await;
    println!("{what}: {report}, {announced} announced");
}
