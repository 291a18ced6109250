//! A broker that is killed or frozen under load: nothing is lost.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::super::{Amqp1Sink, address};
use super::ArtemisServer;
use crate::Amqp1Spec;
use delaybridge_testing::sink::load::deliver_during;

fn sink(spec: Amqp1Spec) -> Arc<Amqp1Sink> {
    let spec = Amqp1Spec { heartbeat: Duration::from_secs(2), ..spec };
    Arc::new(Amqp1Sink::new(Arc::new(spec), Duration::from_secs(5)))
}

/// Everything is in the queue; what is there more than once was announced.
async fn assert_complete(server: &ArtemisServer, (sent, doubts): (u64, u64), what: &str) {
    let mut counts: HashMap<u64, u64> = HashMap::new();
    for body in server.bodies("orders").await {
        *counts.entry(String::from_utf8(body).unwrap().parse().unwrap()).or_default() += 1;
    }
    let twice = counts.values().map(|count| count - 1).sum::<u64>();
    println!("{what}: {sent} elements, {doubts} answers in doubt, {twice} more than once");
    let missing: Vec<_> = (0..sent).filter(|number| !counts.contains_key(number)).collect();
    assert!(missing.is_empty(), "lost: {missing:?}");
    assert!(twice <= doubts, "{twice} more than once, {doubts} announced");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_is_killed_loses_nothing() {
    let server = ArtemisServer::start(&["orders"], "").await;
    let trouble = async {
        for _ in 0..2 {
            server.does(|artemis| artemis.restart().unwrap()).await;
            tokio::time::sleep(Duration::from_millis(1000)).await;
        }
    };
    let told = deliver_during(sink(server.spec()), address("orders"), trouble).await;
    assert_complete(&server, told, "killed twice").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_is_frozen_loses_nothing() {
    let server = ArtemisServer::start(&["orders"], "").await;
    let trouble = async {
        server.does(|server| server.freeze()).await;
        tokio::time::sleep(Duration::from_secs(9)).await;
        server.does(|server| server.thaw()).await;
    };
    let told = deliver_during(sink(server.spec()), address("orders"), trouble).await;
    assert!(told.1 > 0, "what was under way is in doubt");
    assert_complete(&server, told, "frozen for 9 s").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_is_stopped_properly_loses_nothing() {
    let server = ArtemisServer::start(&["orders"], "").await;
    let trouble = async {
        server.does(|server| server.stop()).await;
        server.does(|artemis| artemis.restart().unwrap()).await;
    };
    let told = deliver_during(sink(server.spec()), address("orders"), trouble).await;
    assert_complete(&server, told, "stopped").await;
}
