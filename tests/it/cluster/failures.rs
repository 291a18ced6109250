//! Failovers, killed and frozen masters: the queues on the others are not affected.

use std::time::Duration;

use super::{QUEUES, World, long, show_lateness};
use crate::faults::rig::pass;
use harness::failovers::{Failover, Guide, Producer, judge, many, now_ms, show};

/// Lateness that a busy machine can cause, in ms. A queue that waited for a silent node would be later by its
/// time-outs.
const NOT_LATE_MS: i64 = 2_000;

/// Failovers of one master while a client offers to a queue on it, and others deliver meanwhile: ten by command and ten
/// by SIGKILL with `DELAYBRIDGE_LONG=1`.
#[tokio::test]
async fn deliveries_go_on_at_the_new_master_and_lose_only_what_replication_loses() {
    let (ways, per_second) = if long() { (many(), 2_000) } else { (vec![Failover::Command], 400) };
    let mut world = World::start(2).await;
    let mut daemon = world.daemon().await;
    for words in ["cannot reach Redis", "queue on hold", "elements dropped here", "sink down"] {
        daemon.expect_log(words);
    }
    let queue = world.queues[0].clone();
    let ports = world.cluster.ports();
    let slot = world.cluster.slot(&queue.timeouts).await;
    let producer = Producer::start(Guide::Cluster(ports, slot), 1, queue.clone(), per_second);
    let done = world.fail_over(&queue, &ways, per_second).await;
    let offered = producer.stop().await;
    world.emptied(0).await;
    let announced = daemon.metric("delaybridge_possible_duplicates_total").await as usize;
    let judged = judge(&offered, &world.delivered().await, &done, announced);
    println!(
        "{} failovers: {} offered, {} acknowledged, {} on the replica; {} lost by replication, {} duplicates, {announced} announced",
        done.len(),
        offered.oracle.count(),
        offered.acknowledged.len(),
        offered.sure.len(),
        judged.lost,
        judged.duplicates,
    );
    show(&done, &ways, &judged.pauses);
    for (pause, _) in judged.pauses.iter().zip(&ways) {
        assert!(pause.over_from_switch <= NOT_LATE_MS, "deliveries went on too late after the switch: {pause:?}");
    }
    // Only a claim that the replica did not have is delivered again without an announcement.
    assert!(judged.unannounced == 0 || ways.contains(&Failover::Kill), "{} were not announced", judged.unannounced);
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
    world.deliveries_go_on(&(0..QUEUES).collect::<Vec<_>>(), 10).await;
    world.cluster.kill(master).await;
    // Redis loses writes that the replica did not have yet: a settled element may also come back.
    let report = world.complete().await;
    println!("{report}");
    show_lateness("of the master that was killed", world.lateness(&at, ..).await);
    let late = world.lateness(&elsewhere, ..).await;
    let latest = late.iter().max().copied().unwrap_or(0);
    show_lateness("of the others", late);
    assert!(latest < NOT_LATE_MS, "{latest} ms late");
    daemon.wait_ready().await;
}

#[tokio::test]
async fn queues_of_other_masters_are_not_late_while_one_is_frozen() {
    others_are_not_late_while_one_is_frozen(true).await;
}

#[tokio::test]
async fn queues_of_other_masters_are_not_late_while_one_is_frozen_and_not_replaced() {
    others_are_not_late_while_one_is_frozen(false).await;
}

/// With `DELAYBRIDGE_LONG=1`, 60 s and twenty queues.
async fn others_are_not_late_while_one_is_frozen(replaced: bool) {
    // A queue that waited for the silent node would be later than `NOT_LATE_MS`, so the fault lasts twice as long.
    let (queues, before, frozen) = if long() {
        (20, Duration::from_secs(20), Duration::from_secs(60))
    } else {
        (QUEUES, Duration::ZERO, Duration::from_millis(2 * NOT_LATE_MS.unsigned_abs()))
    };
    let mut world = World::start(queues).await;
    let mut daemon = world.daemon().await;
    for words in ["cannot reach Redis", "is over", "verdicts", "queue on hold", "elements dropped here"] {
        daemon.expect_log(words);
    }
    let elements = i64::try_from((before + frozen).as_millis() / 50 + 60).expect("a few thousand");
    for queue in 0..queues {
        world.offer(queue, elements, 500, 50).await;
    }
    let master = world.cluster.owner(&world.queues[0].timeouts).await;
    let (at, elsewhere) = world.queues_at(master).await;
    let replica = world.cluster.replica_of(master).await;
    if !replaced {
        world.cluster.never_takes_over(replica).await;
    }
    world.deliveries_go_on(&(0..queues).collect::<Vec<_>>(), 10).await;
    // The measurement before the fault.
    pass(before).await;
    world.cluster.nodes[master].pause();
    let from_ms = now_ms();
    if replaced {
        world.cluster.is_master(replica).await;
    }
    pass(frozen).await;
    // A replaced master comes back as a replica, and takes nothing.
    world.cluster.nodes[master].resume();
    let till_ms = now_ms();
    let report = world.complete().await;
    println!("{report}");
    show_lateness("of the frozen master, before", world.lateness(&at, ..from_ms).await);
    show_lateness("of the frozen master", world.lateness(&at, from_ms..till_ms).await);
    show_lateness("of the others, before", world.lateness(&elsewhere, ..from_ms).await);
    let late = world.lateness(&elsewhere, from_ms..till_ms).await;
    let latest = late.iter().max().copied().unwrap_or(0);
    show_lateness("of the others", late);
    assert!(latest < NOT_LATE_MS, "{latest} ms late");
    daemon.wait_ready().await;
}
