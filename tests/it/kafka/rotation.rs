//! A password that is rotated node by node, as operators do: the daemon reads the new one from its file, without a
//! restart.

use std::fs;

use brokers::kafka::NewTopic;

use super::*;
use crate::faults::rig::{metric, tolerate_stalls};
use harness::redisson::{Element, redis_now_ms};

const NEW: &str = "alices-new-secret";

/// Sets a new password of `alice` on a node; the old one becomes invalid.
fn rotate(kafka: &Kafka, node: usize) {
    let file = kafka.folder().join(format!("node{node}")).join("server.properties");
    let settings = fs::read_to_string(&file).expect("read the node's settings");
    let old = format!("user_alice=\"{}\"", Kafka::password("alice"));
    let new = format!("user_alice=\"{NEW}\"");
    assert!(settings.contains(&old), "the password is in {}", file.display());
    fs::write(&file, settings.replace(&old, &new)).expect("write the node's settings");
    kafka.restart(node).expect("restart the node");
}

async fn offer(server: &RedisServer, topic: &str, oracle: &mut Oracle) {
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("q");
    let now = redis_now_ms(&mut redis).await;
    let element = |_| Element::new(queue.layout, now, format!("{{\"topic\":\"{topic}\",\"n\":{}}}", fastrand::u64(..)));
    let offered: Vec<Element> = (0..100).map(element).collect();
    oracle.offered(&offered);
    queue.offer_bulk(&mut redis, &offered).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_one_broker_of_two_has_changed_is_taken_from_the_file() {
    let server = RedisServer::start().await;
    let kafka = start(KafkaOptions { nodes: 2, sasl: true, ..KafkaOptions::default() });
    let names: Vec<String> = (0..parts::NAMES).map(|n| format!("t{n}")).collect();
    let new = |name| NewTopic { name, partitions: 1, replication: 1, configs: &[] };
    let topics: Vec<NewTopic<'_>> = names.iter().map(|name| new(name.as_str())).collect();
    blocking(|| kafka.create_topics(&topics)).expect("create the topics");
    let (first, second) = blocking(|| (parts::led_by(&kafka, 1), parts::led_by(&kafka, 2)));
    let directory = tempfile::tempdir().expect("make a directory");
    let password = directory.path().join("password");
    harness::write_secret(&password, Kafka::password("alice"));
    let sink = format!(
        "brokers: ['{}'], timeout: 4s, sasl: {{ mechanism: PLAIN, username: alice, password_file: '{}' }}",
        kafka.bootstrap_sasl(),
        password.display(),
    );
    let yaml = yaml(&server, &sink, "codec: json, lease: 20s").replace("topic: arrived", "topic: '${payload.topic}'");
    let mut daemon = Daemon::start(&yaml).await;
    tolerate_stalls(&mut daemon);
    daemon.expect_log("destination in trouble").expect_log("queue on hold");
    let mut of_first = Oracle::new();
    let mut of_second = Oracle::new();
    offer(&server, &first, &mut of_first).await;
    offer(&server, &second, &mut of_second).await;
    all_in_topic(&kafka.bootstrap(), &first, &of_first).await;
    all_in_topic(&kafka.bootstrap(), &second, &of_second).await;

    blocking(|| rotate(&kafka, 2));
    offer(&server, &second, &mut of_second).await;
    offer(&server, &first, &mut of_first).await;
    // The other broker still accepts the old one.
    all_in_topic(&kafka.bootstrap(), &first, &of_first).await;
    metric(&daemon, "delaybridge_sink_destinations_in_trouble", |count| count >= 1.0).await;
    assert_eq!(count_topic(&kafka.bootstrap(), &second).await, Ok(100), "it lets nobody in with the old password");
    harness::write_secret(&password, NEW);
    all_in_topic(&kafka.bootstrap(), &second, &of_second).await;

    blocking(|| rotate(&kafka, 1));
    offer(&server, &first, &mut of_first).await;
    let deliveries = all_in_topic(&kafka.bootstrap(), &first, &of_first).await;
    settled(&mut server.client().await, &RedissonQueue::new("q")).await;
    let report = of_first.judge(&deliveries);
    println!("rotated: {report}");
    assert_complete(&report, &[&daemon]).await;
    let log = daemon.log().all();
    assert!(log.iter().all(|line| !line.contains(NEW) && !line.contains(Kafka::password("alice"))), "in the log");
}
