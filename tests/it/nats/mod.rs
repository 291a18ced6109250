//! The daemon and a real NATS server: deliveries, repeats, outages, and what `check --live` finds.

use std::time::Duration;

use brokers::Nats;
use serde_json::json;

use crate::faults::rig::{PATIENCE, assert_complete, elements, metric, pass, patient, settled, tolerate_stalls};
use harness::daemon::{ConfigFile, cli};
use harness::nats::{make_stream, read_stream};
use harness::redisson::{Element, redis_now_ms};
use harness::{Daemon, Delivery, Oracle, RedisServer, RedissonQueue, eventually};

/// Runs blocking code without blocking the other tasks of the test.
#[allow(clippy::disallowed_methods, reason = "the tests of this folder run on a runtime of several threads")]
fn blocking<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(work)
}

/// A server with the stream `ORDERS` for `orders.>`.
fn start() -> Nats {
    blocking(|| {
        let nats = Nats::start().unwrap_or_else(|e| panic!("start NATS: {e}"));
        make_stream(&nats, "ORDERS", "orders.>", &json!({}));
        nats
    })
}

/// A queue `q` to the subject.
fn yaml(server: &RedisServer, nats: &Nats, subject: &str, queue: &str) -> String {
    format!(
        "redis: {{ url: '{}' }}\n\
         retry: {{ strict: {{ max_attempts: 3, initial_interval: 10ms, max_interval: 100ms }} }}\n\
         sinks: {{ out: {{ nats: {{ servers: ['127.0.0.1:{}'], subject: '{subject}', ping_interval: 1s, timeout: 5s }} }} }}\n\
         queues: {{ q: {{ source: {{ redisson: {{ name: q }} }}, retry: strict, lease: 10s, {queue}, to: [{{ sink: out }}] }} }}\n",
        server.url(),
        nats.port()
    )
}

async fn offer(server: &RedisServer, oracle: &mut Oracle, name: &str, count: usize, spread: Duration) {
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("q");
    let now = redis_now_ms(&mut redis).await;
    let offered = elements(&queue, name, count, now, i64::try_from(spread.as_millis()).expect("a short time"));
    oracle.offered(&offered);
    queue.offer_bulk(&mut redis, &offered).await;
}

/// Waits until everything is in the stream, and nothing is left in Redis.
async fn arrived(server: &RedisServer, nats: &Nats, oracle: &Oracle) -> Vec<Delivery> {
    eventually("every element to arrive in the stream", 2 * PATIENCE, async || {
        let found = blocking(|| read_stream(nats, "ORDERS"))?;
        oracle.judge(&found).complete().map(drop)
    })
    .await;
    settled(&mut server.client().await, &RedissonQueue::new("q")).await;
    blocking(|| read_stream(nats, "ORDERS")).expect("the server is there")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_carries_what_is_known_of_the_element_to_the_subject_of_its_payload() {
    let server = RedisServer::start().await;
    let nats = start();
    let yaml = yaml(&server, &nats, "orders.${payload.region}", "codec: json")
        .replace("sink: out }", "sink: out, headers: { tenant: '${payload.tenant:-none}' } }");
    let mut daemon = Daemon::start(&patient(&yaml)).await;
    tolerate_stalls(&mut daemon);
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("q");
    let now = redis_now_ms(&mut redis).await;
    let regions = ["eu", "us", "asia.east"];
    let offered: Vec<Element> = (0..300)
        .map(|n| Element::new(queue.layout, now, format!(r#"{{"n":{n},"region":"{}"}}"#, regions[n % 3])))
        .collect();
    let mut oracle = Oracle::new();
    oracle.offered(&offered);
    queue.offer_bulk(&mut redis, &offered).await;
    let found = arrived(&server, &nats, &oracle).await;
    for delivery in &found {
        assert_eq!((delivery.queue.as_deref(), delivery.attempt, delivery.due_ms), (Some("q"), Some(1), Some(now)));
        assert_eq!(delivery.headers.get("tenant").map(Vec::as_slice), Some(&b"none"[..]));
        let payload: serde_json::Value = serde_json::from_slice(&delivery.payload).expect("JSON");
        let subject = format!("orders.{}", payload["region"].as_str().expect("a region"));
        assert_eq!(delivery.key.as_deref(), Some(subject.as_bytes()));
    }
    assert_complete(&oracle.judge(&found), &[&daemon]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_frozen_and_killed_loses_nothing_and_has_nothing_twice() {
    let server = RedisServer::start().await;
    let nats = start();
    let mut daemon = Daemon::start(&yaml(&server, &nats, "orders.eu", "max_in_flight: 500")).await;
    tolerate_stalls(&mut daemon);
    let mut oracle = Oracle::new();
    offer(&server, &mut oracle, "frozen", 2_000, Duration::from_secs(6)).await;
    pass(Duration::from_secs(1)).await;
    blocking(|| nats.freeze());
    metric(&daemon, "delaybridge_sink_up", |up| up == 0.0).await;
    pass(Duration::from_secs(5)).await;
    blocking(|| nats.thaw());
    arrived(&server, &nats, &oracle).await;
    offer(&server, &mut oracle, "killed", 2_000, Duration::from_secs(4)).await;
    for _ in 0..3 {
        pass(Duration::from_secs(1)).await;
        blocking(|| nats.restart()).expect("restart NATS");
    }
    let found = arrived(&server, &nats, &oracle).await;
    let announced = daemon.metric("delaybridge_possible_duplicates_total").await;
    let avoided = daemon.metric("delaybridge_duplicates_avoided_total").await;
    println!("{} announced as possible duplicates, {avoided} recognised by the stream", announced);
    // Within the window there is none, whatever was announced.
    oracle.judge(&found).assert_complete(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_daemon_had_sent_is_not_there_twice() {
    let server = RedisServer::start().await;
    let nats = start();
    let text = yaml(&server, &nats, "orders.eu", "max_in_flight: 500");
    let mut oracle = Oracle::new();
    for round in 0..3 {
        let mut daemon = Daemon::start(&text).await;
        tolerate_stalls(&mut daemon);
        offer(&server, &mut oracle, &format!("r{round}"), 1_000, Duration::from_millis(600)).await;
        pass(Duration::from_millis(300)).await;
        // It sends, and is not answered before its end.
        blocking(|| nats.freeze());
        pass(Duration::from_millis(200)).await;
        daemon.kill();
        blocking(|| nats.thaw());
    }
    let mut daemon = Daemon::start(&text).await;
    tolerate_stalls(&mut daemon);
    let found = arrived(&server, &nats, &oracle).await;
    let avoided = daemon.metric("delaybridge_duplicates_avoided_total{sink=\"out\"}").await;
    println!("{} elements, {avoided} recognised by the stream", found.len());
    assert!(avoided > 0.0, "nothing was sent twice: the test shows nothing");
    oracle.judge(&found).assert_complete(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subject_without_a_stream_holds_the_queue_until_there_is_one() {
    let server = RedisServer::start().await;
    let nats = start();
    let mut daemon = Daemon::start(&yaml(&server, &nats, "letters", "max_in_flight: 100")).await;
    tolerate_stalls(&mut daemon);
    daemon.expect_log("queue on hold");
    let mut oracle = Oracle::new();
    offer(&server, &mut oracle, "held", 50, Duration::from_millis(100)).await;
    metric(&daemon, "delaybridge_queue_held{queue=\"q\"}", |held| held == 1.0).await;
    blocking(|| make_stream(&nats, "LETTERS", "letters", &json!({})));
    eventually("every element to arrive in the stream", PATIENCE, async || {
        let found = blocking(|| read_stream(&nats, "LETTERS"))?;
        oracle.judge(&found).complete().map(drop)
    })
    .await;
    assert_eq!(daemon.metric("delaybridge_dead_lettered_messages_total").await, 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_finds_the_stream_its_drawbacks_and_what_is_missing() {
    let server = RedisServer::start().await;
    let nats = start();
    let live = |subject: &str| {
        let config = ConfigFile::new(&yaml(&server, &nats, subject, "max_in_flight: 100"));
        let output = blocking(|| cli(&config, &["check", "--live"]));
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    };
    let text = live("orders.eu");
    assert!(text.contains("found subject orders.eu"), "{text}");
    let text = live("nobody");
    assert!(text.contains("no stream takes the subject"), "{text}");
    let old = json!({ "discard": "old", "max_msgs": 1000 });
    blocking(|| make_stream(&nats, "OLD", "old", &old));
    let text = live("old");
    assert!(text.contains("stream OLD drops its oldest messages at max_msgs"), "{text}");
}
