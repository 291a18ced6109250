//! Inputs with `durability`: a message is acknowledged only when the replicas, or the append-only file, have its job.

use lapin::BasicProperties;
use lapin::types::AMQPValue;
use redis::AsyncCommands;

use crate::amqp::{shared, url};
use crate::faults::rig::PATIENCE;
use harness::amqp::Rabbits;
use harness::publisher::Publisher;
use harness::servers::{ALL, Version};
use harness::{Daemon, RedisServer, ServerOptions, eventually};

/// The key with the jobs of the input.
const RECORDS: &str = "delaybridge:jobs:records:{late}";

/// Waits until the replica follows.
async fn follows(master: &RedisServer) {
    eventually("the replica", PATIENCE, async || {
        let info = master.replication().await?;
        if info.contains("state=online") { Ok(()) } else { Err(info) }
    })
    .await;
}

/// An input `late` that is durable so.
fn yaml(server: &RedisServer, url: &str, durability: &str) -> String {
    format!(
        "redis: {{ url: '{}', command_timeout: 3s }}\n\
         sinks: {{ shop: {{ amqp: {{ url: '{url}' }} }} }}\n\
         inputs: {{ late: {{ amqp: {{ url: '{url}', queue: delay-in }}, topic: late, to: {{ sink: shop }}, \
         durability: {{ {durability} }} }} }}\n",
        server.url()
    )
}

async fn start_daemon(yaml: &str) -> Daemon {
    let mut daemon = Daemon::start(yaml).await;
    daemon.expect_log("input waits").expect_log("queue on hold").expect_log("input down");
    daemon
}

/// Publishes ten messages with this name and a number, due in an hour.
async fn publish(publisher: &Publisher, name: &str) {
    for n in 0..10 {
        let name = format!("{name}-{n}");
        let headers = [("x-delay", AMQPValue::LongInt(3_600_000))];
        let properties = BasicProperties::default().with_message_id(name.as_str().into());
        publisher.publish(("delayed", "orders"), properties, &headers, &name).await.expect("publish");
    }
}

/// Waits until the input has counted this many messages, scheduled and known ones.
async fn scheduled(daemon: &Daemon, count: f64) {
    eventually("scheduled and known messages", PATIENCE, async || {
        let all = daemon.metric("delaybridge_input_messages_total{input=\"late\"}").await;
        if all == count { Ok(()) } else { Err(format!("{all}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_message_is_acknowledged_before_the_replica_has_its_job() {
    let mut master = RedisServer::start().await;
    let options = ServerOptions::default().line("replicaof", &format!("127.0.0.1 {}", master.port()));
    let mut replica = RedisServer::start_with(options).await;
    follows(&master).await;
    let rabbit = shared();
    let url = url(&rabbit);
    let publisher = Publisher::connect(&url).await.expect("connect");
    publisher.declare("delay-in", &["orders"]).await;
    let yaml = yaml(&master, &url, "replicas: 1, timeout: 300ms");
    let mut daemon = start_daemon(&yaml).await;
    publish(&publisher, "a").await;
    scheduled(&daemon, 10.0).await;

    // The replica is cut off: messages are taken, and none is acknowledged.
    replica.pause();
    publish(&publisher, "b").await;
    let asked = master.calls("wait").await;
    eventually("the reason", PATIENCE, async || {
        let body = daemon.get("/readyz").await?.body;
        if body.contains("add jobs to topic late: it is not durable: 0 of 1 replicas have it") {
            Ok(())
        } else {
            Err(body)
        }
    })
    .await;
    eventually("several looks for the replica", PATIENCE, async || match master.calls("wait").await - asked {
        looks if looks >= 4 => Ok(()),
        looks => Err(format!("{looks} looks")),
    })
    .await;
    assert_eq!(daemon.metric("delaybridge_input_messages_total{input=\"late\"}").await, 10.0);
    daemon.kill();
    eventually("the messages that were not acknowledged", PATIENCE, async || {
        let back = Rabbits::connect(&url).await?.count("delay-in").await;
        if back == 10 { Ok(()) } else { Err(format!("{back} messages")) }
    })
    .await;

    // Another daemon, whose connections have written none of the jobs that the master has: they are known, and yet not on the
    // replica.
    let mut daemon = start_daemon(&yaml).await;
    eventually("its reason", PATIENCE, async || {
        let body = daemon.get("/readyz").await?.body;
        if body.contains("replicas have it") { Ok(()) } else { Err(body) }
    })
    .await;
    assert_eq!(daemon.metric("delaybridge_input_messages_total{input=\"late\"}").await, 0.0);

    // When it is back, everything is acknowledged, and what was is there after the loss of the master.
    replica.resume();
    scheduled(&daemon, 10.0).await;
    eventually("an empty queue", PATIENCE, async || {
        let left = Rabbits::connect(&url).await?.count("delay-in").await;
        if left == 0 { Ok(()) } else { Err(format!("{left} messages")) }
    })
    .await;
    daemon.stop().await;
    master.kill();
    let records: usize = replica.client().await.hlen(RECORDS).await.expect("the records of the jobs");
    assert_eq!(records, 20, "the replica has lost jobs of acknowledged messages");
}

/// Messages of a queue that wait, with those that a consumer has: asked while no consumer is there.
async fn unacknowledged(url: &str) -> Result<u32, String> {
    Ok(Rabbits::connect(url).await?.count("delay-in").await)
}

async fn with_a_file(version: Version) {
    let mut server = RedisServer::start_with(version.options().append_only()).await;
    let mut redis = server.client().await;
    let rabbit = shared();
    let url = url(&rabbit);
    let publisher = Publisher::connect(&url).await.expect("connect");
    publisher.declare("delay-in", &["orders"]).await;
    let yaml = yaml(&server, &url, "replicas: 0, aof: true, timeout: 300ms");
    let mut daemon = start_daemon(&yaml).await;
    publish(&publisher, "a").await;
    scheduled(&daemon, 10.0).await;
    assert!(server.calls("waitaof").await > 0, "nothing waited for the file");

    // Without a file the jobs are in memory, and no message is acknowledged.
    let set = async |redis: &mut redis::aio::MultiplexedConnection, value: &str| {
        redis::cmd("CONFIG").arg("SET").arg("appendonly").arg(value).exec_async(redis).await.expect("CONFIG SET");
    };
    set(&mut redis, "no").await;
    publish(&publisher, "b").await;
    eventually("the reason", PATIENCE, async || {
        let body = daemon.get("/readyz").await?.body;
        if body.contains("add jobs to topic late") && body.contains("append") { Ok(()) } else { Err(body) }
    })
    .await;
    let records: usize = redis.hlen(RECORDS).await.expect("the records of the jobs");
    assert!(records > 10, "no job is in memory: {records}");
    assert_eq!(daemon.metric("delaybridge_input_messages_total{input=\"late\"}").await, 10.0);
    daemon.kill();
    eventually("the messages that were not acknowledged", PATIENCE, async || match unacknowledged(&url).await? {
        10 => Ok(()),
        back => Err(format!("{back} messages")),
    })
    .await;

    // The file is written again: a daemon that starts then finds all jobs, waits for the file, and acknowledges.
    set(&mut redis, "yes").await;
    let mut daemon = start_daemon(&yaml).await;
    scheduled(&daemon, 10.0).await;
    eventually("an empty queue", PATIENCE, async || match unacknowledged(&url).await? {
        0 => Ok(()),
        left => Err(format!("{left} messages")),
    })
    .await;
    daemon.stop().await;
    server.kill();
    server.restart().await;
    let records: usize = server.client().await.hlen(RECORDS).await.expect("the records of the jobs");
    assert_eq!(records, 20, "{}: the file has lost jobs of acknowledged messages", version.name);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_message_is_acknowledged_before_its_job_is_in_the_append_only_file() {
    let version = ALL.into_iter().find(|version| version.name == "Redis 8.2").expect("a version with WAITAOF");
    with_a_file(version).await;
}
