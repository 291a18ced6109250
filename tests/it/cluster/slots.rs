//! Slots on the move: nothing is lost, and no attempt is counted.

use std::time::Instant;

use super::{PATIENCE, World, assert_first_attempts, long};
use harness::eventually;

#[tokio::test]
async fn a_queue_waits_while_its_slot_moves_and_counts_no_attempt() {
    let mut world = World::start(2).await;
    // Queue 1 shows that the others continue.
    world.offer(0, 300, 0, 20).await;
    world.offer(1, 300, 0, 20).await;
    let mut daemon = world.daemon().await;
    let key = world.queues[0].timeouts.clone();
    let from = world.cluster.owner(&key).await;
    let to = (from + 1) % 3;

    let moving = world.cluster.begin_move(&key, to).await.expect("both are masters");
    eventually("the queue to wait", PATIENCE, async || {
        let answer = daemon.get("/readyz").await?;
        let held = daemon.metric("delaybridge_slot_migrations_total{queue=\"queue-0\"}").await;
        if held >= 1.0 && answer.body.contains("the cluster moves the queue's slot") {
            Ok(())
        } else {
            Err(answer.body)
        }
    })
    .await;
    world.deliveries_go_on(&[1], 20).await;
    assert!(world.cluster.move_keys(&moving).await, "the slot has another master");
    world.cluster.end_move(&moving).await;
    daemon.wait_ready().await;
    // There and back.
    world.cluster.move_slot(&key, from).await;

    assert_eq!(world.complete().await.duplicates, 0);
    let delivered = world.delivered().await;
    assert_first_attempts(&delivered);
    daemon.wait_ready().await;
    let count = |text: &str| daemon.log().all().iter().filter(|line| line.contains(text)).count();
    // A queue that is ready may not have logged that yet.
    eventually("a line at the end of each wait", PATIENCE, async || {
        let begun = count("slot_migrating");
        let ended = count("queue resumed");
        let paired = (1..=4).contains(&begun) && begun == ended;
        if paired { Ok(()) } else { Err(format!("{begun} begun, {ended} ended")) }
    })
    .await;
    assert_eq!(daemon.metric("delaybridge_dead_lettered_messages_total").await, 0.0);
    assert_eq!(daemon.metric("delaybridge_queue_held{queue=\"queue-1\"}").await, 0.0);
    world.emptied(0).await;
}

/// The slot of a large queue is moved there and back while the queue is drained; ten times with 100,000 elements with
/// `DELAYBRIDGE_LONG=1`.
#[tokio::test]
async fn a_large_slot_moves_there_and_back_while_it_is_drained() {
    let (elements, times) = if long() { (100_000, 10) } else { (5_000, 1) };
    let mut world = World::start(1).await;
    // Some elements are due now, the rest fall due while the slot moves.
    let apart_ms = if long() { 1 } else { 2 };
    world.offer(0, elements, -1_000, apart_ms).await;
    let daemon = world.daemon().await;
    let key = world.queues[0].timeouts.clone();
    let home = world.cluster.owner(&key).await;
    let mut took = Vec::new();
    for _ in 0..times {
        for to in [(home + 1) % 3, home] {
            let started = Instant::now();
            world.cluster.move_slot(&key, to).await;
            took.push(started.elapsed());
        }
    }
    took.sort_unstable();
    println!("{} moves of the slot: p50 {:?}, max {:?}", took.len(), took[took.len() / 2], took[took.len() - 1]);
    let report = world.complete().await;
    println!("{report}");
    let announced = daemon.metric("delaybridge_possible_duplicates_total").await;
    assert!(report.duplicates as f64 <= announced, "{report}, announced {announced}");
    assert_first_attempts(&world.delivered().await);
}

/// With `DELAYBRIDGE_LONG=1`, half of all slots are moved.
#[tokio::test]
async fn a_node_is_added_gets_slots_and_is_removed_again() {
    let mut world = World::start(6).await;
    // The removed node ends before the slot map without it is read: its loss is no outage.
    let daemon = world.daemon().await;
    for queue in 0..6 {
        world.offer(queue, 300, 0, if long() { 200 } else { 15 }).await;
    }
    let added = world.cluster.add_master().await;
    let mut homes = Vec::new();
    for queue in 0..6 {
        let key = world.queues[queue].timeouts.clone();
        homes.push((key.clone(), world.cluster.owner(&key).await));
        world.cluster.move_slot(&key, added).await;
    }
    let started = Instant::now();
    let slots = if long() { 8_192 } else { 50 };
    world.cluster.reshard(slots, 0).await;
    println!("{slots} slots resharded in {:?}", started.elapsed());
    for (key, home) in &homes {
        if world.cluster.owner(key).await == added {
            world.cluster.move_slot(key, *home).await;
        }
    }
    world.cluster.remove_last().await;
    let report = world.complete().await;
    println!("{report}");
    let announced = daemon.metric("delaybridge_possible_duplicates_total").await;
    assert!(report.duplicates as f64 <= announced, "{report}, announced {announced}");
    assert_first_attempts(&world.delivered().await);
    assert_eq!(daemon.metric("delaybridge_dead_lettered_messages_total").await, 0.0);
}
