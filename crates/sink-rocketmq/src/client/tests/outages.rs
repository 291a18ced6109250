//! Brokers and name servers that are killed, frozen or full, under load: nothing is lost.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use brokers::{RocketMqOptions, RocketMqVersion};

use super::cluster::Cluster;
use super::{keyed, patient_sink, topic};
use crate::{RocketMqSink, RocketMqSpec};
use delaybridge_core::clock::Instant;
use delaybridge_core::message::Class;
use delaybridge_sink::Sink;
use delaybridge_testing::sink::load::deliver_during;
use delaybridge_testing::sink::outbound;

fn sink(spec: RocketMqSpec) -> Arc<RocketMqSink> {
    let spec = RocketMqSpec { heartbeat: Duration::from_secs(2), ..spec };
    Arc::new(RocketMqSink::new(Arc::new(spec), Duration::from_secs(5)))
}

/// Everything is in the topic; what is there more than once was announced.
async fn assert_complete(cluster: &Cluster, (sent, doubts): (u64, u64), what: &str) {
    let mut counts: HashMap<u64, u64> = HashMap::new();
    for body in cluster.bodies("orders").await {
        *counts.entry(String::from_utf8(body).unwrap().parse().unwrap()).or_default() += 1;
    }
    let twice = counts.values().map(|count| count - 1).sum::<u64>();
    println!("{what}: {sent} elements, {doubts} answers in doubt, {twice} more than once");
    let missing: Vec<_> = (0..sent).filter(|number| !counts.contains_key(number)).collect();
    assert!(missing.is_empty(), "lost: {missing:?}");
    assert!(twice <= doubts, "{twice} more than once, {doubts} announced");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_is_killed_loses_nothing() {
    for version in [RocketMqVersion::Five, RocketMqVersion::Four] {
        let cluster = Cluster::start(RocketMqOptions { version, ..RocketMqOptions::default() }).await;
        let trouble = async {
            for _ in 0..2 {
                cluster.does(|cluster| cluster.restart(0).unwrap()).await;
                tokio::time::sleep(Duration::from_millis(1000)).await;
            }
        };
        let told = deliver_during(sink(cluster.spec()), topic("orders"), trouble).await;
        assert_complete(&cluster, told, &format!("{version:?} killed twice")).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_is_frozen_loses_nothing() {
    let cluster = Cluster::start(RocketMqOptions::default()).await;
    let trouble = async {
        cluster.does(|cluster| cluster.freeze(0)).await;
        tokio::time::sleep(Duration::from_secs(9)).await;
        cluster.does(|cluster| cluster.thaw(0)).await;
    };
    let told = deliver_during(sink(cluster.spec()), topic("orders"), trouble).await;
    assert!(told.1 > 0, "what was under way is in doubt");
    assert_complete(&cluster, told, "frozen for 9 s").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_two_masters_takes_what_has_no_key_and_in_the_end_all() {
    let brokers = ["a", "b"].map(|name| (name.to_owned(), String::new())).to_vec();
    let cluster = Cluster::start(RocketMqOptions { brokers, ..RocketMqOptions::default() }).await;
    let sink = sink(cluster.spec());
    // Routes of both, and connections to both.
    for number in 0..16 {
        sink.deliver(outbound(number, topic("warm"), "x")).await.unwrap();
    }
    cluster.does(|cluster| cluster.kill(1)).await;
    for number in 0..50 {
        let outcome = sink.deliver(outbound(number, topic("orders"), number.to_string())).await;
        assert_eq!(outcome, Ok(()), "the other takes it");
    }
    // The route leaves the broker out, so that each key finds a queue.
    let until = Instant::now().after(Duration::from_secs(60));
    for number in 50..80 {
        let message = outbound(number, keyed("orders", &number.to_string()), number.to_string());
        while let Err(failure) = sink.deliver(message.clone()).await {
            assert!(Instant::now() < until, "still not delivered: {failure}");
            assert_eq!(failure.class, Class::Transient, "{failure}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    cluster.does(|cluster| cluster.restart(1).unwrap()).await;
    assert_complete(&cluster, (80, 0), "one of two masters gone").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_name_server_known_topics_go_on_and_others_wait_for_it() {
    let cluster = Cluster::start(RocketMqOptions::default()).await;
    let sink = sink(cluster.spec());
    sink.deliver(outbound(0, topic("orders"), "0")).await.unwrap();
    cluster.does(|cluster| cluster.kill_name_server()).await;
    for number in 1..100 {
        sink.deliver(outbound(number, topic("orders"), number.to_string())).await.unwrap();
    }
    let failure = sink.deliver(outbound(0, topic("warm"), "x")).await.unwrap_err();
    assert_eq!(failure.class, Class::Transient, "{failure}");
    assert!(sink.check(&[topic("orders")]).await.is_err());
    assert!(sink.probe().unwrap().await.is_err());
    cluster.does(|cluster| cluster.restart_name_server().unwrap()).await;
    // The brokers have not registered yet: that does not mean that the topic is gone.
    let until = Instant::now().after(Duration::from_secs(60));
    while let Err(failure) = sink.deliver(outbound(100, topic("warm"), "x")).await {
        assert!(Instant::now() < until, "still not delivered: {failure}");
        assert_eq!(failure.class, Class::Transient, "{failure}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_complete(&cluster, (100, 0), "name server gone").await;
}

/// A broker looks at its disk a minute after its start at the latest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_backpressure() {
    let options = RocketMqOptions {
        version: RocketMqVersion::Four,
        java: vec!["-Drocketmq.broker.diskSpaceWarningLevelRatio=0.001".to_owned()],
        ..RocketMqOptions::default()
    };
    let cluster = Cluster::start_cold(options).await;
    let sink = patient_sink(cluster.spec());
    let until = Instant::now().after(Duration::from_secs(150));
    let mut number = 0;
    let failure = loop {
        match sink.deliver(outbound(number, topic("orders"), number.to_string())).await {
            Ok(()) => number += 1,
            Err(failure) => break failure,
        }
        assert!(Instant::now() < until, "the broker still takes messages");
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    assert_eq!((failure.class, failure.code), (Class::Backpressure, "rocketmq_not_writable"), "{failure}");
    assert!(failure.message.contains("disk is full"), "{failure}");
    assert_complete(&cluster, (number, 0), "disk full").await;
}
