//! The daemon and ElasticMQ in place of SQS: standard and FIFO queues, order, outages, and what `check --live` finds.

use std::collections::BTreeMap;
use std::time::Duration;

use brokers::ElasticMq;
use tempfile::NamedTempFile;

use crate::faults::rig::{PATIENCE, assert_complete, elements, metric, pass, patient, settled, tolerate_stalls};
use harness::daemon::{ConfigFile, cli};
use harness::redisson::{Element, redis_now_ms};
use harness::sqs::{TakenMessages, credentials, make_queue, take};
use harness::{Daemon, Delivery, Oracle, RedisServer, RedissonQueue, eventually};

/// Runs blocking code without blocking the other tasks of the test.
#[allow(clippy::disallowed_methods, reason = "the tests of this folder run on a runtime of several threads")]
fn blocking<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(work)
}

/// A server with a queue, and the queue's name.
struct Sqs {
    server: ElasticMq,
    credentials: NamedTempFile,
    queue: &'static str,
    taken: TakenMessages,
}

impl Sqs {
    /// A server that forgets its messages when it is killed.
    fn start(queue: &'static str) -> Sqs {
        Sqs::with(ElasticMq::start_in_memory, queue)
    }

    /// A server that has its messages again after it was killed. It stores 300 of them in more than 20 s on a busy machine, and
    /// answers 500 then.
    fn start_with_disk(queue: &'static str) -> Sqs {
        Sqs::with(ElasticMq::start, queue)
    }

    fn with(start: fn() -> brokers::Result<ElasticMq>, queue: &'static str) -> Sqs {
        let server = blocking(|| start().unwrap_or_else(|e| panic!("start ElasticMQ: {e}")));
        blocking(|| make_queue(&server, queue));
        Sqs { server, credentials: credentials(), queue, taken: TakenMessages::default() }
    }

    /// A queue `q` to this queue.
    fn yaml(&self, redis: &RedisServer, sink: &str, queue: &str) -> String {
        format!(
            "redis: {{ url: '{}' }}\n\
             retry: {{ strict: {{ max_attempts: 3, initial_interval: 10ms, max_interval: 100ms }} }}\n\
             sinks: {{ out: {{ sqs: {{ queue_url: '{}', region: eu-west-1, credentials_file: '{}', timeout: 5s{sink} }} }} }}\n\
             queues: {{ q: {{ source: {{ redisson: {{ name: q }} }}, retry: strict, lease: 10s, {queue}, to: [{{ sink: out }}] }} }}\n",
            redis.url(),
            self.server.queue_url(self.queue),
            self.credentials.path().display(),
        )
    }

    /// Waits until everything has come, and nothing is left in Redis.
    async fn arrived(&mut self, redis: &RedisServer, oracle: &Oracle) -> &[Delivery] {
        eventually("every element to arrive in the queue", 2 * PATIENCE, async || {
            blocking(|| take(&self.server, self.queue, &mut self.taken))?;
            oracle.judge(&self.taken.deliveries).complete().map(drop)
        })
        .await;
        settled(&mut redis.client().await, &RedissonQueue::new("q")).await;
        blocking(|| take(&self.server, self.queue, &mut self.taken)).expect("the server is there");
        &self.taken.deliveries
    }
}

async fn offer(server: &RedisServer, oracle: &mut Oracle, name: &str, count: usize, spread: Duration) {
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("q");
    let now = redis_now_ms(&mut redis).await;
    let offered = elements(&queue, name, count, now, i64::try_from(spread.as_millis()).expect("a short time"));
    oracle.offered(&offered);
    queue.offer_bulk(&mut redis, &offered).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_carries_what_is_known_of_the_element() {
    let server = RedisServer::start().await;
    let mut sqs = Sqs::start("orders");
    let yaml = sqs.yaml(&server, "", "codec: json").replace(
        "sink: out }",
        "sink: out, headers: { tenant: '${payload.tenant:-none}', 'x y': '1', a: '1', b: '2', c: '3', d: '4', e: '5' } }",
    );
    let mut daemon = Daemon::start(&patient(&yaml)).await;
    tolerate_stalls(&mut daemon);
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("q");
    let now = redis_now_ms(&mut redis).await;
    let offered: Vec<Element> = (0..300).map(|n| Element::new(queue.layout, now, format!(r#"{{"n":{n}}}"#))).collect();
    let mut oracle = Oracle::new();
    oracle.offered(&offered);
    queue.offer_bulk(&mut redis, &offered).await;
    let found = sqs.arrived(&server, &oracle).await;
    for delivery in found {
        assert_eq!((delivery.queue.as_deref(), delivery.attempt, delivery.due_ms), (Some("q"), Some(1), Some(now)));
        let header = |name: &str| delivery.headers.get(name).map(|value| String::from_utf8_lossy(value).into_owned());
        assert_eq!(["tenant", "x y", "e"].map(header), ["none", "1", "5"].map(|text| Some(text.to_owned())));
    }
    assert_complete(&oracle.judge(found), &[&daemon]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_frozen_and_killed_loses_nothing() {
    let server = RedisServer::start().await;
    let mut sqs = Sqs::start_with_disk("orders");
    let mut daemon = Daemon::start(&sqs.yaml(&server, "", "max_in_flight: 200")).await;
    tolerate_stalls(&mut daemon);
    let mut oracle = Oracle::new();
    offer(&server, &mut oracle, "frozen", 1_000, Duration::from_secs(5)).await;
    pass(Duration::from_secs(1)).await;
    blocking(|| sqs.server.freeze());
    pass(Duration::from_secs(7)).await;
    blocking(|| sqs.server.thaw());
    sqs.arrived(&server, &oracle).await;
    offer(&server, &mut oracle, "killed", 1_000, Duration::from_secs(4)).await;
    for _ in 0..2 {
        pass(Duration::from_secs(1)).await;
        blocking(|| sqs.server.restart()).expect("restart ElasticMQ");
    }
    sqs.arrived(&server, &oracle).await;
    let report = oracle.judge(&sqs.taken.deliveries);
    let announced = assert_complete(&report, &[&daemon]).await;
    println!("{} deliveries of 2000, {announced:?} announced", sqs.taken.deliveries.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fifo_queue_keeps_the_order_of_a_key_and_has_nothing_twice_after_a_freeze() {
    let server = RedisServer::start().await;
    let mut sqs = Sqs::start("orders.fifo");
    let yaml = sqs.yaml(&server, ", group_id: '${payload.customer}'", "codec: json, order: key, max_in_flight: 200");
    let mut daemon = Daemon::start(&yaml).await;
    tolerate_stalls(&mut daemon);
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("q");
    let now = redis_now_ms(&mut redis).await;
    let offered: Vec<Element> = (0..600)
        .map(|n| Element::new(queue.layout, now + 5 * n, format!(r#"{{"n":{n},"customer":"c{}"}}"#, n % 20)))
        .collect();
    let mut oracle = Oracle::new();
    oracle.offered(&offered);
    queue.offer_bulk(&mut redis, &offered).await;
    pass(Duration::from_secs(1)).await;
    blocking(|| sqs.server.freeze());
    pass(Duration::from_secs(7)).await;
    blocking(|| sqs.server.thaw());
    let found = sqs.arrived(&server, &oracle).await;
    let mut of_groups: BTreeMap<Vec<u8>, Vec<i64>> = BTreeMap::new();
    for delivery in found {
        let payload: serde_json::Value = serde_json::from_slice(&delivery.payload).expect("JSON");
        let group = delivery.key.clone().expect("a group");
        assert_eq!(payload["customer"].as_str().map(str::as_bytes), Some(&*group));
        of_groups.entry(group).or_default().push(payload["n"].as_i64().expect("a number"));
    }
    assert_eq!(of_groups.len(), 20);
    assert!(of_groups.values().all(|numbers| numbers.is_sorted()), "{of_groups:?}");
    // What was sent again within five minutes is not there twice, whatever was announced.
    oracle.judge(found).assert_complete(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_is_missing_holds_until_there_is_one() {
    let server = RedisServer::start().await;
    let mut sqs = Sqs::start("other");
    sqs.queue = "letters";
    let mut daemon = Daemon::start(&sqs.yaml(&server, "", "max_in_flight: 100")).await;
    tolerate_stalls(&mut daemon);
    daemon.expect_log("queue on hold");
    let mut oracle = Oracle::new();
    offer(&server, &mut oracle, "held", 50, Duration::from_millis(100)).await;
    metric(&daemon, "delaybridge_queue_held{queue=\"q\"}", |held| held == 1.0).await;
    blocking(|| make_queue(&sqs.server, "letters"));
    sqs.arrived(&server, &oracle).await;
    assert_eq!(daemon.metric("delaybridge_dead_lettered_messages_total").await, 0.0);
    let live = |queue: &'static str| {
        let yaml = sqs.yaml(&server, "", "max_in_flight: 100").replace("/letters", &format!("/{queue}"));
        let output = blocking(|| cli(&ConfigFile::new(&yaml), &["check", "--live"]));
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    };
    let text = live("letters");
    assert!(text.contains("found queue http://"), "{text}");
    let text = live("nobody");
    assert!(text.contains("QueueDoesNotExist") && text.contains("create it"), "{text}");
}
