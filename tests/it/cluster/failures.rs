//! Failovers, killed and frozen masters: the others' queues do not notice.

use std::time::Duration;

use super::{QUEUES, World, long, show};

/// Lateness that a busy machine explains, in ms. A queue that waited for a silent node would be later by its time-outs.
const NOT_LATE_MS: i64 = 2_000;

#[tokio::test]
async fn a_failover_under_load_loses_nothing() {
    let mut world = World::start(3).await;
    for queue in 0..3 {
        world.offer(queue, 400, 0, 10).await;
    }
    let daemon = world.daemon().await;
    let rounds = if long() { 20 } else { 1 };
    for round in 0..rounds {
        let key = world.queues[round % 3].timeouts.clone();
        let master = world.cluster.owner(&key).await;
        let replica = world.cluster.fail_over(master).await;
        assert_eq!(world.cluster.owner(&key).await, replica);
        for queue in 0..3 {
            world.offer(queue, 200, 0, 10).await;
        }
    }
    let report = world.complete().await;
    let announced = daemon.metric("delaybridge_possible_duplicates_total").await;
    println!("{rounds} failovers: {report}, announced {announced}");
    assert!(report.duplicates as f64 <= announced, "{report}, announced {announced}");
}

#[tokio::test]
async fn queues_of_other_masters_are_not_late_while_one_is_killed() {
    let mut world = World::start(QUEUES).await;
    let mut daemon = world.daemon().await;
    daemon.expect_log("cannot reach Redis");
    for queue in 0..QUEUES {
        world.offer(queue, 160, 500, 50).await;
    }
    let master = world.cluster.owner(&world.queues[0].timeouts).await;
    let (at, elsewhere) = world.queues_at(master).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.cluster.kill(master).await;
    // What the replica did not have yet is Redis's loss: an element may also come again that was settled.
    let report = world.complete().await;
    println!("{report}");
    show("of the master that was killed", world.lateness(&at).await);
    let late = world.lateness(&elsewhere).await;
    let latest = late.iter().max().copied().unwrap_or(0);
    show("of the others", late);
    assert!(latest < NOT_LATE_MS, "{latest} ms late");
    daemon.wait_ready().await;
}

#[tokio::test]
async fn queues_of_other_masters_are_not_late_while_one_is_frozen() {
    let mut world = World::start(QUEUES).await;
    let mut daemon = world.daemon().await;
    daemon.expect_log("cannot reach Redis").expect_log("is over").expect_log("verdicts");
    for queue in 0..QUEUES {
        world.offer(queue, 240, 500, 50).await;
    }
    let master = world.cluster.owner(&world.queues[0].timeouts).await;
    let (at, elsewhere) = world.queues_at(master).await;
    let replica = world.cluster.replica_of(master).await;
    world.cluster.nodes[master].pause();
    world.cluster.is_master(replica).await;
    tokio::time::sleep(Duration::from_secs(8)).await;
    // It comes back as a replica, and takes nothing.
    world.cluster.nodes[master].resume();
    let report = world.complete().await;
    println!("{report}");
    show("of the master that was frozen", world.lateness(&at).await);
    let late = world.lateness(&elsewhere).await;
    let latest = late.iter().max().copied().unwrap_or(0);
    show("of the others", late);
    assert!(latest < NOT_LATE_MS, "{latest} ms late");
    daemon.wait_ready().await;
}
