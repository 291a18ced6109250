//! Claims that have to be on a replica, and a replica that is behind.

use super::*;

const NOT_DURABLE: &str = "delaybridge_released_messages_total{queue=\"q\",reason=\"not_durable\"}";

#[tokio::test(start_paused = true)]
async fn what_a_replica_does_not_have_goes_back_uncounted() {
    let world = World::new();
    let sink = sink();
    world.server.await_replica();
    world.server.cut_replica();
    let bridge = world.bridge(1, &[("s", sink.clone())]);
    bridge.offer(0..10);
    tokio::time::sleep(MINUTE).await;
    assert_eq!((sink.attempts().len(), world.store.in_flight().len()), (0, 0));
    assert!(bridge.metric(NOT_DURABLE) >= 10.0, "{}", bridge.metric(NOT_DURABLE));
    world.server.reach_replica();
    world.until_empty().await;
    assert_eq!((arrived(&sink), bridge.metric(DUPLICATES)), ((0..10).collect(), 0.0));
    assert!(sink.attempts().iter().all(|message| message.attempt == 1), "attempts were counted");
}

/// The elements of a dead process may have been delivered. If no replica has their takeover, they go back, and come again as
/// retries, which no other counter announces.
#[tokio::test(start_paused = true)]
async fn what_is_taken_over_and_goes_back_is_counted() {
    let world = World::new();
    let sink = sink();
    world.server.await_replica();
    sink.stall(true);
    let dead = world.bridge(1, &[("s", sink.clone())]);
    dead.offer(0..10);
    eventually("all at the sink", || sink.attempts().len() == 10).await;
    drop(dead);
    sink.stall(false);
    world.server.cut_replica();
    let bridge = world.bridge(2, &[("s", sink.clone())]);
    within(2 * LEASE, "a takeover to go back", || bridge.metric(NOT_DURABLE) >= 10.0).await;
    world.server.reach_replica();
    world.until_empty().await;
    assert!(bridge.metric(DUPLICATES) >= 10.0, "{} counted", bridge.metric(DUPLICATES));
    assert!(sink.attempts()[10..].iter().all(|message| message.attempt > 1));
}

/// The server is gone when a claim that no replica has is to go back.
#[tokio::test(start_paused = true)]
async fn what_could_not_go_back_is_found_again_before_its_lease_is_over() {
    let world = World::new();
    let sink = sink();
    world.server.await_replica();
    world.server.cut_replica();
    let bridge = world.bridge(1, &[("s", sink.clone())]);
    bridge.offer(0..10);
    eventually("a claim", || world.store.in_flight().len() == 10).await;
    world.server.set_up(false);
    tokio::time::sleep(5 * SECOND).await;
    assert_eq!(world.store.in_flight().len(), 10);
    world.server.reach_replica();
    world.server.set_up(true);
    let started = Instant::now();
    bridge.metric_is(DELIVERED, 10.0).await;
    assert!(started.elapsed() < LEASE / 4, "it waited for its lease: {:?}", started.elapsed());
    world.until_empty().await;
    assert_eq!((arrived(&sink), bridge.metric(DUPLICATES)), ((0..10).collect(), 0.0));
}
