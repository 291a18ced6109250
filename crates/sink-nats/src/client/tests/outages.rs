//! Servers that are killed, frozen, or asked to stop, under load: nothing is lost, and nothing is there twice.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::server::{Server, spec_on, subject};
use crate::{NatsSink, NatsSpec};
use delaybridge_testing::sink::load;

/// The time that a test waits for anything before it fails.
const PATIENCE: Duration = Duration::from_secs(60);

fn sink(spec: NatsSpec) -> Arc<NatsSink> {
    Arc::new(NatsSink::new(Arc::new(spec), Duration::from_secs(3)))
}

/// Delivers to the stream while there is trouble.
async fn deliver_during(sink: Arc<NatsSink>, trouble: impl Future<Output = ()>) -> (u64, u64) {
    load::deliver_during(sink, subject("orders.eu"), trouble).await
}

/// Everything is in the stream, once.
async fn assert_once_each(server: &Server, (sent, doubts): (u64, u64), what: &str) {
    let mut counts: HashMap<u64, u32> = HashMap::new();
    for body in server.bodies("S").await {
        *counts.entry(String::from_utf8(body).unwrap().parse().unwrap()).or_default() += 1;
    }
    println!("{what}: {sent} elements, {doubts} answers in doubt");
    let missing: Vec<_> = (0..sent).filter(|number| !counts.contains_key(number)).collect();
    assert!(missing.is_empty(), "lost: {missing:?}");
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_loses_nothing() {
    let server = Server::start().await;
    server.stream("S", "orders.>", "").await;
    let trouble = async {
        for _ in 0..3 {
            server.does(|nats| nats.restart().unwrap()).await;
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    };
    let told = deliver_during(sink(server.spec()), trouble).await;
    assert_once_each(&server, told, "killed three times").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_frozen_loses_nothing() {
    let server = Server::start().await;
    server.stream("S", "orders.>", "").await;
    let trouble = async {
        server.does(|server| server.freeze()).await;
        tokio::time::sleep(Duration::from_secs(8)).await;
        server.does(|server| server.thaw()).await;
    };
    let told = deliver_during(sink(server.spec()), trouble).await;
    assert!(told.1 > 0, "what was under way is in doubt");
    assert_once_each(&server, told, "frozen for 8 s").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_loses_the_leader_of_the_stream_loses_nothing() {
    let cluster = Server::cluster().await;
    let begun = Instant::now();
    let ports: Vec<u16> = cluster.iter().map(Server::port).collect();
    cluster[0].stream("S", "orders.>", "\"num_replicas\": 3").await;
    // Servers that have just met may not answer at first.
    let info = loop {
        match cluster[0].ask("STREAM.INFO.S".to_owned(), json!({})).await {
            Ok(info) => break info,
            Err(error) => assert!(begun.elapsed() < PATIENCE, "{error}"),
        }
    };
    let leader = info["cluster"]["leader"].as_str().unwrap().to_owned();
    let leader = cluster.iter().find(|server| server.name() == leader).unwrap();
    let other = cluster.iter().find(|server| server.name() != leader.name()).unwrap();
    let trouble = async {
        leader.does(|server| server.kill()).await;
        tokio::time::sleep(Duration::from_secs(8)).await;
        leader.does(|nats| nats.restart().unwrap()).await;
        // Then another is asked to stop, as an upgrade does.
        tokio::time::sleep(Duration::from_secs(2)).await;
        other.does(brokers::Nats::lame_duck).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
    };
    let told = deliver_during(sink(spec_on(&ports)), trouble).await;
    assert_once_each(leader, told, "leader killed, another leaves").await;
    println!("{:?}", begun.elapsed());
}
