//! Problems that a person has to fix: the queue is on hold, reports why, probes with one element, and resumes by
//! itself.

use super::*;
use crate::faults::rig::{Feed, metric, readyz, tolerate_stalls};
use brokers::kafka::{Operation, Resource};

/// Checks that the queue is held for this reason, and delivers only probes.
async fn is_held(daemon: &Daemon, reason: &str) {
    metric(daemon, "delaybridge_queue_held{queue=\"q\"}", |held| held == 1.0).await;
    let body = readyz(daemon, 503, reason).await;
    println!("held: {body}");
}

/// Checks that the queue resumes without a restart, and has lost nothing.
async fn goes_on(what: &str, daemon: &Daemon, server: &RedisServer, kafka: &Kafka, oracle: &Oracle) {
    metric(daemon, "delaybridge_queue_held{queue=\"q\"}", |held| held == 0.0).await;
    judge(what, daemon, server, &kafka.bootstrap(), oracle).await;
    readyz(daemon, 200, "").await;
}

async fn attempts(daemon: &Daemon) -> f64 {
    daemon.metric("delaybridge_delivery_attempts_total").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_is_missing_and_later_deleted_holds_the_queue_until_it_is_there() {
    let server = RedisServer::start().await;
    let kafka = start(KafkaOptions::default());
    let sink = format!("brokers: ['{}'], timeout: 5s, topic: arrived", kafka.bootstrap());
    let mut daemon = Daemon::start(&yaml(&server, &sink, "lease: 20s")).await;
    tolerate_stalls(&mut daemon);
    daemon.expect_log("queue on hold");
    let mut feed = Feed::new(&server, RedissonQueue::new("q")).await;
    for _ in 0..5 {
        feed.tick(20, 0).await;
    }
    is_held(&daemon, "UNKNOWN_TOPIC_OR_PARTITION").await;
    blocking(|| kafka.create_topic("arrived", 4, &[])).expect("create the topic");
    goes_on("topic created", &daemon, &server, &kafka, &feed.oracle).await;

    blocking(|| kafka.delete_topic("arrived")).expect("delete the topic");
    // The records of the deleted topic are lost; only later ones are judged.
    let mut feed = Feed::new(&server, RedissonQueue::new("q")).await;
    for _ in 0..10 {
        feed.tick(20, 0).await;
    }
    is_held(&daemon, "UNKNOWN_TOPIC_OR_PARTITION").await;
    // Elements in flight at the deletion have their answers.
    eventually("nothing to be in flight", PATIENCE, async || {
        match RedissonQueue::new("q").in_flight(&server.client().await).await.map_err(|e| e.to_string())? {
            0 => Ok(()),
            count => Err(format!("{count} in flight")),
        }
    })
    .await;
    let before = attempts(&daemon).await;
    let held = if long() { Duration::from_secs(600) } else { Duration::from_secs(10) };
    pass(held).await;
    let tried = attempts(&daemon).await - before;
    println!("held for {held:?}: {tried} elements were tried");
    assert!(tried <= 25.0, "{tried} elements were tried during the hold");
    let lines = daemon.log().all().iter().filter(|line| line.contains("queue on hold")).count();
    // One for each hold; a partition that disappears a moment later than another can cause one more.
    assert!((2..=4).contains(&lines), "{lines} lines for two holds");
    blocking(|| kafka.create_topic("arrived", 4, &[])).expect("create the topic");
    goes_on("topic made again", &daemon, &server, &kafka, &feed.oracle).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_right_holds_the_queue_until_it_is_granted_again() {
    let server = RedisServer::start().await;
    let kafka = start(KafkaOptions { sasl: true, acl: true, ..KafkaOptions::default() });
    let write = || kafka.add_acl("alice", Resource::Topic("arrived"), &[Operation::Write, Operation::Describe]);
    blocking(|| {
        kafka.create_topic("arrived", 4, &[])?;
        write()
    })
    .expect("create the topic");
    let sink = format!(
        "brokers: ['{}'], timeout: 5s, topic: arrived, \
         sasl: {{ mechanism: SCRAM-SHA-256, username: alice, password: '{}' }}",
        kafka.bootstrap_sasl(),
        Kafka::password("alice"),
    );
    let mut daemon = Daemon::start(&yaml(&server, &sink, "lease: 20s")).await;
    tolerate_stalls(&mut daemon);
    daemon.expect_log("queue on hold").expect_log("sink down");
    let mut feed = Feed::new(&server, RedissonQueue::new("q")).await;
    for _ in 0..5 {
        feed.tick(20, 0).await;
    }
    all_in_topic(&kafka.bootstrap(), "arrived", &feed.oracle).await;
    blocking(|| kafka.remove_acl("alice", Resource::Topic("arrived"), &[Operation::Write])).expect("revoke the right");
    for _ in 0..10 {
        feed.tick(20, 0).await;
    }
    is_held(&daemon, "AUTHORIZATION_FAILED").await;
    blocking(write).expect("give the right back");
    goes_on("right granted again", &daemon, &server, &kafka, &feed.oracle).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_holds_the_queue_until_the_file_has_the_right_one() {
    let server = RedisServer::start().await;
    let kafka = start(KafkaOptions { sasl: true, ..KafkaOptions::default() });
    blocking(|| kafka.create_topic("arrived", 4, &[])).expect("create the topic");
    let directory = tempfile::tempdir().expect("make a directory");
    let password = directory.path().join("password");
    harness::write_secret(&password, "not-it\n");
    let sink = format!(
        "brokers: ['{}'], timeout: 5s, topic: arrived, \
         sasl: {{ mechanism: PLAIN, username: alice, password_file: '{}' }}",
        kafka.bootstrap_sasl(),
        password.display(),
    );
    let mut daemon = Daemon::start_with_sinks_down(&yaml(&server, &sink, "lease: 20s")).await;
    tolerate_stalls(&mut daemon);
    daemon.expect_log("queue on hold").expect_log("sink down");
    let mut feed = Feed::new(&server, RedissonQueue::new("q")).await;
    for _ in 0..5 {
        feed.tick(20, 0).await;
    }
    is_held(&daemon, "SASL_AUTHENTICATION_FAILED").await;
    assert!(daemon.log().all().iter().all(|line| !line.contains("not-it")), "the password is in the log");
    harness::write_secret(&password, Kafka::password("alice"));
    goes_on("password fixed", &daemon, &server, &kafka, &feed.oracle).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn too_few_replicas_are_an_outage_that_ends_with_them() {
    let server = RedisServer::start().await;
    let kafka = start(KafkaOptions { nodes: 2, ..KafkaOptions::default() });
    blocking(|| kafka.create_topic("arrived", 1, &[("min.insync.replicas", "2")])).expect("create the topic");
    let sink = format!("brokers: ['{}'], timeout: 5s, topic: arrived", kafka.bootstrap());
    let mut daemon = Daemon::start(&yaml(&server, &sink, "lease: 20s")).await;
    tolerate_stalls(&mut daemon);
    daemon.expect_log("sink down");
    let mut feed = Feed::new(&server, RedissonQueue::new("q")).await;
    for _ in 0..5 {
        feed.tick(20, 0).await;
    }
    all_in_topic(&kafka.bootstrap(), "arrived", &feed.oracle).await;
    blocking(|| kafka.kill(2));
    for _ in 0..30 {
        feed.tick(20, 0).await;
    }
    metric(&daemon, "delaybridge_sink_up", |up| up == 0.0).await;
    println!("down: {}", readyz(&daemon, 503, "\"down\"").await);
    blocking(|| kafka.restart(2)).expect("restart the second node");
    metric(&daemon, "delaybridge_sink_up", |up| up == 1.0).await;
    judge("replica lost and back", &daemon, &server, &kafka.bootstrap(), &feed.oracle).await;
}
