//! The daemon and a real broker of AMQP 1.0: deliveries, outages, a full address, and what `check --live` finds.

use std::time::Duration;

use brokers::{Artemis, ArtemisOptions};

use crate::faults::rig::{PATIENCE, assert_complete, elements, metric, pass, patient, settled, tolerate_stalls};
use harness::amqp1::{read_queue, take_from_queue};
use harness::daemon::{ConfigFile, cli};
use harness::redisson::{Element, redis_now_ms};
use harness::{Daemon, Delivery, Oracle, RedisServer, RedissonQueue, eventually};

/// Runs blocking code without blocking the other tasks of the test.
#[allow(clippy::disallowed_methods, reason = "the tests of this folder run on a runtime of several threads")]
fn blocking<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(work)
}

fn start(queues: &[&str]) -> Artemis {
    let queues = queues.iter().map(|&queue| queue.to_owned()).collect();
    let options = ArtemisOptions { queues, acceptor: "amqpCredits=100;amqpLowCredits=30".to_owned(), times: false };
    blocking(|| Artemis::start_with(&options).unwrap_or_else(|e| panic!("start Artemis: {e}")))
}

/// A queue `q` to the address.
fn yaml(server: &RedisServer, artemis: &Artemis, address: &str, queue: &str) -> String {
    format!(
        "redis: {{ url: '{}' }}\n\
         retry: {{ strict: {{ max_attempts: 3, initial_interval: 10ms, max_interval: 100ms }} }}\n\
         sinks: {{ out: {{ amqp1: {{ url: 'amqp://127.0.0.1:{}', address: '{address}', heartbeat: 1s, timeout: 5s }} }} }}\n\
         queues: {{ q: {{ source: {{ redisson: {{ name: q }} }}, retry: strict, lease: 10s, {queue}, to: [{{ sink: out }}] }} }}\n",
        server.url(),
        artemis.port()
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

/// Waits until everything is in these queues, and nothing is left in Redis.
async fn arrived(server: &RedisServer, artemis: &Artemis, queues: &[&str], oracle: &Oracle) -> Vec<Delivery> {
    let read = || -> Result<Vec<Delivery>, String> {
        let found = queues.iter().map(|queue| blocking(|| read_queue(artemis, queue))).collect::<Result<Vec<_>, _>>();
        Ok(found?.into_iter().flatten().collect())
    };
    eventually("every element to arrive in the queues", 2 * PATIENCE, async || {
        oracle.judge(&read()?).complete().map(drop)
    })
    .await;
    settled(&mut server.client().await, &RedissonQueue::new("q")).await;
    read().expect("the broker is there")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_carries_what_is_known_of_the_element_to_the_address_of_its_payload() {
    let queues = ["orders.eu", "orders.us", "orders.asia"];
    let server = RedisServer::start().await;
    let artemis = start(&queues);
    let yaml = yaml(&server, &artemis, "orders.${payload.region}", "codec: json")
        .replace("sink: out }", "sink: out, headers: { tenant: '${payload.tenant:-none}' } }");
    let mut daemon = Daemon::start(&patient(&yaml)).await;
    tolerate_stalls(&mut daemon);
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("q");
    let now = redis_now_ms(&mut redis).await;
    let offered: Vec<Element> = (0..300)
        .map(|n| Element::new(queue.layout, now, format!(r#"{{"n":{n},"region":"{}"}}"#, &queues[n % 3][7..])))
        .collect();
    let mut oracle = Oracle::new();
    oracle.offered(&offered);
    queue.offer_bulk(&mut redis, &offered).await;
    let found = arrived(&server, &artemis, &queues, &oracle).await;
    for delivery in &found {
        assert_eq!((delivery.queue.as_deref(), delivery.attempt, delivery.due_ms), (Some("q"), Some(1), Some(now)));
        assert_eq!(delivery.headers.get("tenant").map(Vec::as_slice), Some(&b"none"[..]));
        let payload: serde_json::Value = serde_json::from_slice(&delivery.payload).expect("JSON");
        let address = format!("orders.{}", payload["region"].as_str().expect("a region"));
        assert_eq!(delivery.key.as_deref(), Some(address.as_bytes()));
    }
    assert_complete(&oracle.judge(&found), &[&daemon]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_frozen_and_killed_loses_nothing() {
    let server = RedisServer::start().await;
    let artemis = start(&["orders"]);
    let mut daemon = Daemon::start(&yaml(&server, &artemis, "orders", "max_in_flight: 500")).await;
    tolerate_stalls(&mut daemon);
    daemon.expect_log("sink blocked");
    let mut oracle = Oracle::new();
    offer(&server, &mut oracle, "frozen", 2_000, Duration::from_secs(6)).await;
    pass(Duration::from_secs(1)).await;
    blocking(|| artemis.freeze());
    metric(&daemon, "delaybridge_sink_up", |up| up == 0.0).await;
    pass(Duration::from_secs(5)).await;
    blocking(|| artemis.thaw());
    arrived(&server, &artemis, &["orders"], &oracle).await;
    offer(&server, &mut oracle, "killed", 2_000, Duration::from_secs(4)).await;
    pass(Duration::from_secs(1)).await;
    blocking(|| artemis.restart()).expect("restart Artemis");
    let found = arrived(&server, &artemis, &["orders"], &oracle).await;
    let announced = assert_complete(&oracle.judge(&found), &[&daemon]).await;
    println!("{announced} announced as possible duplicates");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_address_keeps_elements_in_redis_and_makes_no_dead_letters() {
    let server = RedisServer::start().await;
    let artemis = start(&["full.block"]);
    let mut daemon = Daemon::start(&yaml(&server, &artemis, "full.block", "max_in_flight: 200")).await;
    tolerate_stalls(&mut daemon);
    daemon.expect_log("sink blocked");
    let mut oracle = Oracle::new();
    offer(&server, &mut oracle, "full", 600, Duration::from_millis(500)).await;
    let refused = "delaybridge_sink_errors_total{sink=\"out\",class=\"backpressure\",code=\"amqp1_no_credit\"}";
    metric(&daemon, refused, |refused| refused > 0.0).await;
    let mut found = Vec::new();
    eventually("every element to arrive in turns", 2 * PATIENCE, async || {
        found.extend(blocking(|| take_from_queue(&artemis, "full.block"))?);
        oracle.judge(&found).complete().map(drop)
    })
    .await;
    assert_complete(&oracle.judge(&found), &[&daemon]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_is_missing_holds_the_queue_until_it_is_there() {
    let server = RedisServer::start().await;
    let artemis = start(&[]);
    let mut daemon = Daemon::start(&yaml(&server, &artemis, "letters", "max_in_flight: 100")).await;
    tolerate_stalls(&mut daemon);
    daemon.expect_log("queue on hold");
    let mut oracle = Oracle::new();
    offer(&server, &mut oracle, "held", 50, Duration::from_millis(100)).await;
    metric(&daemon, "delaybridge_queue_held{queue=\"q\"}", |held| held == 1.0).await;
    blocking(|| artemis.create("letters")).expect("create the queue");
    arrived(&server, &artemis, &["letters"], &oracle).await;
    assert_eq!(daemon.metric("delaybridge_dead_lettered_messages_total").await, 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_finds_the_address_and_what_is_missing() {
    let server = RedisServer::start().await;
    let artemis = start(&["orders", "denied.x"]);
    let live = |address: &str| {
        let config = ConfigFile::new(&yaml(&server, &artemis, address, "max_in_flight: 100"));
        let output = blocking(|| cli(&config, &["check", "--live"]));
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    };
    let text = live("orders");
    assert!(text.contains("found address orders"), "{text}");
    let text = live("nobody");
    assert!(text.contains("look up address nobody") && text.contains("amqp:not-found"), "{text}");
    let text = live("denied.x");
    assert!(text.contains("amqp:unauthorized-access"), "{text}");
}
