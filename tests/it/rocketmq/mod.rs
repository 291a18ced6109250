//! The daemon and a real cluster of RocketMQ: deliveries, outages, a topic that is missing, and what `check --live` finds.

use std::collections::BTreeMap;
use std::time::Duration;

use brokers::RocketMq;

use crate::faults::rig::{PATIENCE, assert_complete, elements, metric, pass, patient, settled, tolerate_stalls};
use harness::daemon::{ConfigFile, cli};
use harness::redisson::{Element, redis_now_ms};
use harness::rocketmq::delivery;
use harness::{Daemon, Delivery, Oracle, RedisServer, RedissonQueue, eventually};

/// Runs blocking code without blocking the other tasks of the test.
#[allow(clippy::disallowed_methods, reason = "the tests of this folder run on a runtime of several threads")]
fn blocking<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(work)
}

/// A cluster with the topic `orders`.
fn start() -> RocketMq {
    blocking(|| RocketMq::start().unwrap_or_else(|e| panic!("start RocketMQ: {e}")))
}

/// Expects the lines of a busy machine: the broker refuses what has waited for 200 ms.
fn tolerate_busy(daemon: &mut Daemon) {
    tolerate_stalls(daemon);
    daemon.expect_log("sink blocked");
}

/// A queue `q` to the topic.
fn yaml(server: &RedisServer, cluster: &RocketMq, topic: &str, queue: &str) -> String {
    format!(
        "redis: {{ url: '{}' }}\n\
         retry: {{ strict: {{ max_attempts: 3, initial_interval: 10ms, max_interval: 100ms }} }}\n\
         sinks: {{ out: {{ rocketmq: {{ name_servers: ['{}'], topic: '{topic}', heartbeat: 1s, timeout: 5s }} }} }}\n\
         queues: {{ q: {{ source: {{ redisson: {{ name: q }} }}, retry: strict, lease: 10s, {queue}, to: [{{ sink: out }}] }} }}\n",
        server.url(),
        cluster.name_server()
    )
}

fn read(cluster: &RocketMq, topic: &str) -> Result<Vec<Delivery>, String> {
    let messages = blocking(|| cluster.messages(topic)).map_err(|e| e.to_string())?;
    Ok(messages.into_iter().map(delivery).collect())
}

async fn offer(server: &RedisServer, oracle: &mut Oracle, name: &str, count: usize, spread: Duration) {
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("q");
    let now = redis_now_ms(&mut redis).await;
    let offered = elements(&queue, name, count, now, i64::try_from(spread.as_millis()).expect("a short time"));
    oracle.offered(&offered);
    queue.offer_bulk(&mut redis, &offered).await;
}

/// Waits until everything is in the topic, and nothing is left in Redis.
async fn arrived(server: &RedisServer, cluster: &RocketMq, topic: &str, oracle: &Oracle) -> Vec<Delivery> {
    eventually("every element to arrive in the topic", 2 * PATIENCE, async || {
        oracle.judge(&read(cluster, topic)?).complete().map(drop)
    })
    .await;
    settled(&mut server.client().await, &RedissonQueue::new("q")).await;
    read(cluster, topic).expect("the cluster is there")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_carries_what_is_known_of_the_element_to_the_queue_of_its_key() {
    let server = RedisServer::start().await;
    let cluster = start();
    let route = "sink: out, sharding_key: '${payload.customer}', tags: '${payload.kind}', headers: { tenant: none } }";
    let yaml = yaml(&server, &cluster, "orders", "codec: json, order: key").replace("sink: out }", route);
    let mut daemon = Daemon::start(&patient(&yaml)).await;
    tolerate_busy(&mut daemon);
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("q");
    let now = redis_now_ms(&mut redis).await;
    let offered: Vec<Element> = (0..300)
        .map(|n| Element::new(queue.layout, now, format!(r#"{{"n":{n},"customer":"c-{}","kind":"paid"}}"#, n % 7)))
        .collect();
    let mut oracle = Oracle::new();
    oracle.offered(&offered);
    queue.offer_bulk(&mut redis, &offered).await;
    let found = arrived(&server, &cluster, "orders", &oracle).await;
    let mut queues = BTreeMap::new();
    for delivery in &found {
        assert_eq!((delivery.queue.as_deref(), delivery.attempt, delivery.due_ms), (Some("q"), Some(1), Some(now)));
        let header = |name: &str| delivery.headers.get(name).map(|value| String::from_utf8_lossy(value).into_owned());
        assert_eq!((header("tenant").as_deref(), header("TAGS").as_deref()), (Some("none"), Some("paid")));
        assert_eq!(header("KEYS"), delivery.id);
        let payload: serde_json::Value = serde_json::from_slice(&delivery.payload).expect("JSON");
        assert_eq!(delivery.key.as_deref(), payload["customer"].as_str().map(str::as_bytes));
        let known = queues.entry(delivery.key.clone()).or_insert(delivery.partition);
        assert_eq!(*known, delivery.partition, "a key has one queue");
    }
    assert_eq!(queues.len(), 7);
    assert_complete(&oracle.judge(&found), &[&daemon]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_frozen_and_killed_loses_nothing() {
    let server = RedisServer::start().await;
    let cluster = start();
    let mut daemon = Daemon::start(&yaml(&server, &cluster, "orders", "max_in_flight: 500")).await;
    tolerate_busy(&mut daemon);
    let mut oracle = Oracle::new();
    offer(&server, &mut oracle, "frozen", 2_000, Duration::from_secs(6)).await;
    pass(Duration::from_secs(1)).await;
    blocking(|| cluster.freeze(0));
    metric(&daemon, "delaybridge_sink_up", |up| up == 0.0).await;
    blocking(|| cluster.thaw(0));
    arrived(&server, &cluster, "orders", &oracle).await;
    offer(&server, &mut oracle, "killed", 2_000, Duration::from_secs(4)).await;
    for _ in 0..2 {
        pass(Duration::from_secs(1)).await;
        blocking(|| cluster.restart(0)).expect("restart the broker");
    }
    let found = arrived(&server, &cluster, "orders", &oracle).await;
    assert_complete(&oracle.judge(&found), &[&daemon]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_topic_holds_the_queue_until_it_is_there() {
    let server = RedisServer::start().await;
    let cluster = start();
    let yaml = yaml(&server, &cluster, "letters", "max_in_flight: 100");
    let live = || {
        let output = blocking(|| cli(&ConfigFile::new(&yaml), &["check", "--live"]));
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    };
    let text = live();
    assert!(text.contains("rocketmq_no_topic") || text.contains("No topic route info"), "{text}");
    let mut daemon = Daemon::start(&yaml).await;
    tolerate_busy(&mut daemon);
    daemon.expect_log("queue on hold");
    let mut oracle = Oracle::new();
    offer(&server, &mut oracle, "held", 50, Duration::from_millis(100)).await;
    metric(&daemon, "delaybridge_queue_held{queue=\"q\"}", |held| held == 1.0).await;
    blocking(|| cluster.create("letters", 4)).expect("make the topic");
    arrived(&server, &cluster, "letters", &oracle).await;
    assert_eq!(daemon.metric("delaybridge_dead_lettered_messages_total").await, 0.0);
    let text = live();
    assert!(text.contains("found topic letters"), "{text}");
}
