//! Problems that a person has to fix: the queue is on hold, reports why, probes with one element, and resumes by
//! itself.

use super::*;
use crate::faults::rig::{metric, readyz, tolerate_stalls};
use harness::redisson::Element;

async fn is_held(daemon: &Daemon, reason: &str) {
    metric(daemon, "delaybridge_queue_held{queue=\"q\"}", |held| held == 1.0).await;
    println!("held: {}", readyz(daemon, 503, reason).await);
}

async fn goes_on(what: &str, daemon: &Daemon, server: &RedisServer, arrived: &mut Arrived, oracle: &Oracle) {
    metric(daemon, "delaybridge_queue_held{queue=\"q\"}", |held| held == 0.0).await;
    judge(what, daemon, server, arrived, oracle).await;
    readyz(daemon, 200, "").await;
}

/// Declares the exchange `orders`, and with `bind` the queue `arrived` on it.
async fn declare(rabbit: &Broker, bind: bool) {
    let rabbits = Rabbits::connect(&url(rabbit)).await.expect("connect");
    rabbits.declare("orders", bind.then_some("arrived"), "due").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_that_is_missing_unbound_or_deleted_holds_the_queue_until_it_is_there() {
    let server = RedisServer::start().await;
    let rabbit = shared();
    let mut daemon = Daemon::start(&yaml(&server, &rabbit, "", "max_in_flight: 500")).await;
    tolerate_stalls(&mut daemon);
    daemon.expect_log("queue on hold").expect_log("sink down");
    let mut oracle = Oracle::new();
    let mut arrived = Arrived::at(&rabbit);
    offer(&server, &mut oracle, "no exchange", 300, Duration::from_secs(1)).await;
    is_held(&daemon, "NOT_FOUND").await;
    declare(&rabbit, false).await;
    // Now there is an exchange without a queue: no element may count as delivered.
    readyz(&daemon, 503, "NO_ROUTE").await;
    assert_eq!(daemon.metric("delaybridge_delivered_messages_total").await, 0.0);
    declare(&rabbit, true).await;
    goes_on("exchange made and bound", &daemon, &server, &mut arrived, &oracle).await;

    let rabbits = Rabbits::connect(&url(&rabbit)).await.expect("connect");
    rabbits.delete_exchange("orders").await;
    offer(&server, &mut oracle, "deleted", 2_000, Duration::from_secs(2)).await;
    is_held(&daemon, "NOT_FOUND").await;
    let before = daemon.metric("delaybridge_delivery_attempts_total").await;
    let held = if long() { Duration::from_secs(600) } else { Duration::from_secs(8) };
    crate::faults::rig::pass(held).await;
    let tried = daemon.metric("delaybridge_delivery_attempts_total").await - before;
    println!("held for {held:?}: {tried} elements were tried");
    assert!(tried <= 25.0, "{tried} elements were tried during the hold");
    declare(&rabbit, true).await;
    goes_on("exchange made again", &daemon, &server, &mut arrived, &oracle).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_exchange_is_no_elements_fault_though_the_payload_chooses_the_routing_key() {
    let server = RedisServer::start().await;
    let rabbit = shared();
    let yaml = yaml(&server, &rabbit, "", "codec: json, max_in_flight: 500")
        .replace("sink: out }]", "sink: out, routing_key: '${payload.to}' }]");
    let mut daemon = Daemon::start(&yaml).await;
    tolerate_stalls(&mut daemon);
    daemon.expect_log("queue on hold").expect_log("sink down");
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("q");
    let now = redis_now_ms(&mut redis).await;
    let offered: Vec<Element> =
        (0..300).map(|n| Element::new(queue.layout, now, format!(r#"{{"to":"due","n":{n}}}"#))).collect();
    let mut oracle = Oracle::new();
    let mut arrived = Arrived::at(&rabbit);
    oracle.offered(&offered);
    queue.offer_bulk(&mut redis, &offered).await;
    is_held(&daemon, "NOT_FOUND").await;
    declare(&rabbit, true).await;
    goes_on("exchange made", &daemon, &server, &mut arrived, &oracle).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_holds_the_queue_until_the_file_has_the_right_one() {
    let server = RedisServer::start().await;
    let rabbit = shared();
    let directory = tempfile::tempdir().expect("make a directory");
    let password = directory.path().join("password");
    harness::write_secret(&password, "not-it\n");
    let login = format!("username: guest, password_file: '{}', {DECLARE}", password.display());
    let mut daemon = Daemon::start_with_sinks_down(&yaml(&server, &rabbit, &login, "max_in_flight: 500")).await;
    tolerate_stalls(&mut daemon);
    daemon.expect_log("queue on hold").expect_log("sink down");
    let mut oracle = Oracle::new();
    let mut arrived = Arrived::at(&rabbit);
    offer(&server, &mut oracle, "locked out", 300, Duration::from_secs(1)).await;
    is_held(&daemon, "ACCESS_REFUSED").await;
    assert!(daemon.log().all().iter().all(|line| !line.contains("not-it")), "the password is in the log");
    harness::write_secret(&password, "guest");
    goes_on("password fixed", &daemon, &server, &mut arrived, &oracle).await;
}
