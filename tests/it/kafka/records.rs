//! The parts of a record: value, key, headers, partition, order; and elements that no topic accepts.

use std::collections::HashMap;
use std::process::Command;

use super::*;
use crate::faults::rig::{elements, tolerate_stalls};
use harness::redisson::{Element, redis_now_ms};

#[tokio::test(flavor = "multi_thread")]
async fn a_java_consumer_and_kcat_read_records_and_keys_lie_where_java_puts_them() {
    const KEYS: usize = 1_000;
    let server = RedisServer::start().await;
    let kafka = start(KafkaOptions::default());
    blocking(|| {
        kafka.create_topic("arrived", 12, &[])?;
        kafka.create_topic("java", 12, &[])
    })
    .expect("create the topics");
    let yaml = yaml(&server, &format!("brokers: ['{}']", kafka.bootstrap()), "codec: json").replace(
        "topic: arrived",
        "topic: arrived, key: '${payload.order}', headers: { tenant: '${payload.tenant:-none}' }, envelope: cloudevents",
    );
    let mut daemon = Daemon::start(&yaml).await;
    tolerate_stalls(&mut daemon);
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("q");
    let now = redis_now_ms(&mut redis).await;
    let keys: Vec<String> = (0..KEYS).map(|n| format!("order-{n}-{:x}", fastrand::u64(..))).collect();
    let offered: Vec<Element> =
        keys.iter().map(|key| Element::new(queue.layout, now, format!(r#"{{"order":"{key}"}}"#))).collect();
    let mut oracle = Oracle::new();
    oracle.offered(&offered);
    queue.offer_bulk(&mut redis, &offered).await;
    all_in_topic(&kafka.bootstrap(), "arrived", &oracle).await.iter().for_each(|delivery| {
        assert_eq!((delivery.queue.as_deref(), delivery.attempt), (Some("q"), Some(1)));
        assert_eq!(delivery.due_ms, Some(now));
    });

    let names: Vec<&str> = keys.iter().map(String::as_str).collect();
    let (theirs, ours) = blocking(|| {
        kafka.java_produce("java", &names)?;
        let wait = Duration::from_secs(20);
        Ok::<_, brokers::Error>((kafka.java_consume("java", KEYS, wait)?, kafka.java_consume("arrived", KEYS, wait)?))
    })
    .expect("run the Java clients");
    let partitions = |records: &[brokers::kafka::Record]| -> HashMap<Vec<u8>, i32> {
        records.iter().map(|record| (record.key.clone().expect("a key"), record.partition)).collect()
    };
    assert_eq!(theirs.len(), KEYS);
    assert_eq!(partitions(&ours), partitions(&theirs), "a key is in another partition than Java's");
    for record in &ours {
        let header = |name: &str| {
            let value = record.headers.iter().find(|(header, _)| header == name).and_then(|(_, value)| value.clone());
            value.map(|value| String::from_utf8(value).expect("text"))
        };
        assert_eq!(header("delaybridge-queue").as_deref(), Some("q"));
        assert_eq!(header("tenant").as_deref(), Some("none"));
        assert_eq!(header("ce_specversion").as_deref(), Some("1.0"));
        assert_eq!(header("ce_id"), header("delaybridge-id"));
        assert_eq!(header("content-type").as_deref(), Some("application/json"));
    }

    let kcat = blocking(|| {
        Command::new("kcat")
            .args(["-C", "-q", "-e", "-b", &kafka.bootstrap(), "-t", "arrived", "-f", "%k|%h|%s\\n"])
            .output()
    })
    .expect("run kcat");
    let shown = String::from_utf8(kcat.stdout).expect("text");
    assert_eq!(shown.lines().count(), KEYS, "{}", String::from_utf8_lossy(&kcat.stderr));
    let line = shown.lines().find(|line| line.starts_with(names[0])).expect("the first key is shown");
    for part in ["delaybridge-id=", "delaybridge-queue=q", "delaybridge-attempt=1", "tenant=none", names[0]] {
        assert!(line.contains(part), "{part} is missing in {line}");
    }
    drop(daemon);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_keeps_the_order_of_the_due_times() {
    let server = RedisServer::start().await;
    let kafka = start(KafkaOptions::default());
    blocking(|| kafka.create_topic("arrived", 1, &[])).expect("create the topic");
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("q");
    let now = redis_now_ms(&mut redis).await;
    let offered: Vec<Element> =
        (0..20_000).map(|n| Element::new(queue.layout, now - 30_000 + n, format!("{n}"))).collect();
    let mut oracle = Oracle::new();
    oracle.offered(&offered);
    queue.offer_bulk(&mut redis, &offered).await;
    let mut daemon = Daemon::start(&yaml(&server, &format!("brokers: ['{}']", kafka.bootstrap()), "lease: 60s")).await;
    tolerate_stalls(&mut daemon);
    let deliveries = all_in_topic(&kafka.bootstrap(), "arrived", &oracle).await;
    oracle.judge(&deliveries).assert_complete(0);
    let due: Vec<i64> = deliveries.iter().filter_map(|delivery| delivery.due_ms).collect();
    let wrong: Vec<usize> = (1..due.len()).filter(|&at| due[at] < due[at - 1]).collect();
    assert!(
        wrong.is_empty(),
        "{} places are not in due order, the first: {:?}",
        wrong.len(),
        &wrong[..wrong.len().min(20)]
    );
    drop(daemon);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_too_large_is_a_forwarded_dead_letter_and_its_neighbours_arrive() {
    let server = RedisServer::start().await;
    let kafka = start(KafkaOptions::default());
    blocking(|| {
        kafka.create_topic("arrived", 1, &[("max.message.bytes", "20000")])?;
        kafka.create_topic("dead", 1, &[])
    })
    .expect("create the topics");
    let queue = "lease: 20s, dead_letter: { sink: out, topic: dead }";
    let mut daemon = Daemon::start(&yaml(&server, &format!("brokers: ['{}']", kafka.bootstrap()), queue)).await;
    tolerate_stalls(&mut daemon);
    daemon.expect_log("dead letter stored");
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("q");
    let now = redis_now_ms(&mut redis).await;
    let mut oracle = Oracle::new();
    let mut dead = Oracle::new();
    let mut offered = elements(&queue, "small", 500, now, 1);
    oracle.offered(&offered);
    // An empty value differs from the tombstone that would delete the key of a compacted topic.
    let empty = Element::new(queue.layout, now, "");
    oracle.offered([&empty]);
    let large: Vec<Element> = (0..3).map(|n| Element::new(queue.layout, now, vec![b'a' + n; 100_000])).collect();
    dead.offered(&large);
    offered.push(empty);
    offered.extend(large);
    fastrand::shuffle(&mut offered);
    queue.offer_bulk(&mut redis, &offered).await;
    let deliveries = all_in_topic(&kafka.bootstrap(), "arrived", &oracle).await;
    oracle.judge(&deliveries).assert_complete(0);
    let letters = all_in_topic(&kafka.bootstrap(), "dead", &dead).await;
    dead.judge(&letters).assert_complete(0);
    for letter in &letters {
        let header = |name: &str| letter.headers.get(name).map(|value| String::from_utf8_lossy(value).into_owned());
        assert_eq!(header("delaybridge-dead-reason").as_deref(), Some("message_permanent"));
        assert_eq!(header("delaybridge-dead-code").as_deref(), Some("MESSAGE_TOO_LARGE"));
        assert_eq!(header("delaybridge-dead-destination").as_deref(), Some("topic arrived"));
        assert_eq!(letter.attempt, Some(1));
    }
    eventually("the stream to be empty", PATIENCE, async || {
        match redis.xlen::<_, usize>(queue.bridge_key("dead")).await.map_err(|e| e.to_string())? {
            0 => Ok(()),
            left => Err(format!("{left} letters")),
        }
    })
    .await;
}
