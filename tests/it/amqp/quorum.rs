//! A quorum queue without a majority confirms nothing: its elements wait as long as that lasts, those of other queues
//! arrive in time, and no attempt is counted.
//!
//! On one node, a queue whose process does not answer looks the same to publishers: the channel waits for it, and then
//! the connection does. The cluster of three nodes, two of which are killed, takes a minute: `DELAYBRIDGE_LONG=1`.

use lapin::types::{AMQPValue, FieldTable};

use super::parts::{DELIVERED, offer_payloads, to};
use super::*;
use crate::faults::rig::{metric, pass, tolerate_stalls};

/// The number of elements in time, with a margin for a busy machine. An element that waited for the other queue would
/// be late by more than the time-out of the sink, which is 5 s.
const IN_TIME: &str = "delaybridge_delivery_lateness_seconds_bucket{queue=\"q\",sink=\"out\",le=\"5\"}";

/// Declares quorum queues on `orders`, bound by their own names.
async fn declare(rabbit: &Broker, names: &[&str]) {
    let rabbits = Rabbits::connect(&url(rabbit)).await.expect("connect");
    rabbits.declare("orders", Some("arrived"), "due").await;
    for name in names {
        let mut quorum = FieldTable::default();
        quorum.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
        rabbits.declare_queue(name, quorum).await;
        rabbits.bind("orders", name, name).await;
    }
}

async fn daemon(server: &RedisServer, rabbit: &Broker) -> Daemon {
    let yaml =
        yaml(server, rabbit, "", "codec: json").replace("sink: out }]", "sink: out, routing_key: '${payload.to}' }]");
    let mut daemon = Daemon::start(&yaml).await;
    tolerate_stalls(&mut daemon);
    daemon.expect_log("destination in trouble");
    daemon
}

/// Offers 50 elements to `arrived` every tenth of a second, and waits for all of them; returns the share that was
/// delivered in time.
async fn beside(server: &RedisServer, daemon: &Daemon, oracle: &mut Oracle, from: usize, ticks: usize) -> f64 {
    let before = (daemon.metric(IN_TIME).await, daemon.metric(DELIVERED).await);
    for tick in 0..ticks {
        let first = from + tick * 50;
        offer_payloads(server, oracle, to("due", first..first + 50)).await;
        pass(Duration::from_millis(100)).await;
    }
    let count = (ticks * 50) as f64;
    metric(daemon, DELIVERED, |all| all - before.1 >= count).await;
    (daemon.metric(IN_TIME).await - before.0) / count
}

/// Checks that everything has arrived at its queue without a counted attempt, and twice only if that was announced.
/// Elements that may have arrived before have attempt 2.
async fn all_arrived(server: &RedisServer, daemon: &Daemon, rabbit: &Broker, queues: &[(&str, &Oracle)]) {
    for (queue, oracle) in queues {
        let mut arrived = Arrived::at(rabbit);
        arrived.all(queue, oracle).await;
        settled(&mut server.client().await, &RedissonQueue::new("q")).await;
        let announced = daemon.metrics().await.sum("delaybridge_possible_duplicates_total");
        let deliveries = arrived.all(queue, oracle).await;
        let counted = deliveries.iter().filter(|delivery| delivery.attempt > Some(2)).count();
        let report = oracle.judge(deliveries);
        println!("{queue}: {report}, {announced} announced, {counted} after a counted attempt");
        report.assert_complete(announced as usize);
        assert_eq!(counted, 0, "{queue}: attempts were counted");
    }
    assert_eq!(daemon.metrics().await.sum("delaybridge_dead_lettered_messages_total"), 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quorum_queue_that_takes_nothing_delays_no_other_and_makes_no_dead_letters() {
    let server = RedisServer::start().await;
    let rabbit = start();
    declare(&rabbit, &["safe", "late"]).await;
    let daemon = daemon(&server, &rabbit).await;
    let mut of_safe = Oracle::new();
    let mut of_late = Oracle::new();
    let mut of_due = Oracle::new();
    offer_payloads(&server, &mut of_safe, to("safe", 0..50)).await;
    offer_payloads(&server, &mut of_due, to("due", 0..50)).await;
    metric(&daemon, DELIVERED, |all| all == 100.0).await;

    blocking(|| ["safe", "late"].iter().try_for_each(|queue| rabbit.suspend_quorum_queue(queue, true)))
        .expect("suspend");
    // First as many as the channel takes without a pause, then as many beside them as the connection does not take.
    offer_payloads(&server, &mut of_safe, to("safe", 100..140)).await;
    let known = beside(&server, &daemon, &mut of_due, 1_000, 40).await;
    // The channel waits for a queue that it meets for the first time.
    offer_payloads(&server, &mut of_late, to("late", 0..5)).await;
    let new = beside(&server, &daemon, &mut of_due, 10_000, 60).await;
    println!("in time beside a queue that was known: {known:.3}, beside a new one: {new:.3}");
    // Messages sent after the first one for the new queue wait for a second and a half.
    assert!(known >= 0.9 && new >= 0.9, "in time: {known:.3}, {new:.3}");

    blocking(|| ["safe", "late"].iter().try_for_each(|queue| rabbit.suspend_quorum_queue(queue, false)))
        .expect("resume");
    all_arrived(&server, &daemon, &rabbit, &[("safe", &of_safe), ("late", &of_late), ("arrived", &of_due)]).await;
    metric(&daemon, "delaybridge_sink_destinations_in_trouble", |count| count == 0.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quorum_queue_without_its_majority_delays_no_other_and_makes_no_dead_letters() {
    if !long() {
        return;
    }
    let server = RedisServer::start().await;
    let nodes = blocking(|| Rabbit::start_cluster(3)).unwrap_or_else(|error| panic!("start three nodes: {error}"));
    let nodes: Vec<Broker> = nodes.into_iter().map(Broker::own).collect();
    declare(&nodes[0], &["safe"]).await;
    let daemon = daemon(&server, &nodes[0]).await;
    let mut of_safe = Oracle::new();
    let mut of_due = Oracle::new();
    offer_payloads(&server, &mut of_safe, to("safe", 0..50)).await;
    offer_payloads(&server, &mut of_due, to("due", 0..50)).await;
    metric(&daemon, DELIVERED, |all| all == 100.0).await;

    blocking(|| nodes[1..].iter().for_each(|node| node.kill()));
    offer_payloads(&server, &mut of_safe, to("safe", 100..140)).await;
    let watch = Stopwatch::start();
    let in_time = beside(&server, &daemon, &mut of_due, 1_000, 1_200).await;
    println!("in time beside it for two minutes: {in_time:.3}");
    assert!(in_time >= watch.share_in_time(0.9), "{in_time:.3} in time");

    blocking(|| nodes[1..].iter().try_for_each(|node| node.restart())).expect("restart the nodes");
    all_arrived(&server, &daemon, &nodes[0], &[("safe", &of_safe), ("arrived", &of_due)]).await;
}
