//! The end of a process: sinks may answer until 70 % of the time, verdicts are written until 90 %.

use super::*;
use delaybridge_testing::memory::{Fault, Op};

const TIMEOUT: Duration = Duration::from_secs(30);
const SHUTDOWN: &str = "delaybridge_released_messages_total{queue=\"q\",reason=\"shutdown\"}";

fn slow_sink() -> Arc<FakeSink> {
    Arc::new(FakeSink::new(40 * SECOND))
}

/// Delivers what is left; every element arrives once.
async fn finished_by_another(world: &World, ids: std::ops::Range<u64>) -> Bridge {
    let sink = sink();
    let next = world.bridge(2, &[("s", sink.clone())]);
    world.until_empty().await;
    assert_eq!(arrived(&sink), ids.collect::<Vec<_>>());
    next
}

#[tokio::test(start_paused = true)]
async fn what_a_sink_confirms_during_the_drain_is_settled_and_the_drain_ends() {
    let world = World::new();
    let sink = slow_sink();
    sink.otherwise(|_| Step::ConfirmAfter(10 * SECOND));
    let bridge = world.bridge(1, &[("s", sink.clone())]);
    bridge.offer(0..10);
    eventually("the sink to be asked", || sink.attempts().len() == 10).await;
    world.offer(10..20);
    let started = Instant::now();
    let events = bridge.process.events.clone();
    assert!(bridge.stop(TIMEOUT).await, "something is left");
    assert!((9 * SECOND..11 * SECOND).contains(&started.elapsed()), "{:?}", started.elapsed());
    assert_eq!(arrived(&sink), (0..10).collect::<Vec<_>>());
    assert!(world.store.in_flight().is_empty() && world.store.waiting().is_empty());
    assert!(!events.metrics().render().unwrap().contains(SHUTDOWN), "nothing had to be released");
    let next = finished_by_another(&world, 10..20).await;
    assert_eq!(next.metric(DUPLICATES), 0.0);
}

#[tokio::test(start_paused = true)]
async fn what_a_sink_has_not_answered_after_70_percent_is_released_and_announced() {
    let world = World::new();
    let sink = slow_sink();
    sink.stall(true);
    let bridge = world.bridge(1, &[("s", sink.clone())]);
    bridge.offer(0..10);
    eventually("the sink to be asked", || sink.attempts().len() == 10).await;
    let started = Instant::now();
    let events = bridge.process.events.clone();
    assert!(bridge.stop(TIMEOUT).await, "something is left");
    assert!((21 * SECOND..22 * SECOND).contains(&started.elapsed()), "{:?}", started.elapsed());
    let released = world.store.waiting();
    assert_eq!(released.len(), 10);
    assert!(released.iter().all(|(_, entry)| entry.attempts() == 0));
    let metrics = events.metrics().render().unwrap();
    assert!(metrics.contains(&format!("{SHUTDOWN} 10")) && metrics.contains(&format!("{DUPLICATES} 10")), "{metrics}");
    finished_by_another(&world, 0..10).await;
}

#[tokio::test(start_paused = true)]
async fn verdicts_that_cannot_be_written_are_given_up_after_90_percent_and_come_back_with_their_leases() {
    let world = World::new();
    let sink = slow_sink();
    sink.stall(true);
    let bridge = world.bridge(1, &[("s", sink.clone())]);
    bridge.offer(0..10);
    eventually("the sink to be asked", || sink.attempts().len() == 10).await;
    world.server.set_up(false);
    sink.stall(false);
    let started = Instant::now();
    assert!(!bridge.stop(TIMEOUT).await, "ten elements are left");
    assert!((27 * SECOND..28 * SECOND).contains(&started.elapsed()), "{:?}", started.elapsed());
    world.server.set_up(true);
    assert_eq!(world.store.in_flight().len(), 10);
    let next = finished_by_another(&world, 0..10).await;
    assert_eq!(next.metric(DUPLICATES), 10.0, "the first has delivered them");
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_lost_when_the_stop_comes_is_found_and_released_unsent() {
    let world = World::new();
    let sink = slow_sink();
    world.server.fail(Op::Claim, [Fault::ReplyLost]);
    world.offer(0..10);
    let bridge = world.bridge(1, &[("s", sink.clone())]);
    eventually("the claim", || world.store.in_flight().len() == 10).await;
    let started = Instant::now();
    assert!(bridge.stop(TIMEOUT).await, "something is left");
    assert!(started.elapsed() < SECOND, "{:?}", started.elapsed());
    assert!(sink.attempts().is_empty(), "nothing new is delivered after the stop");
    assert_eq!((world.store.in_flight().len(), world.store.waiting().len()), (0, 10));
    let next = finished_by_another(&world, 0..10).await;
    assert_eq!(next.metric(DUPLICATES), 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_lost_claim_that_cannot_be_looked_for_is_reported_as_left_over() {
    let world = World::new();
    let sink = slow_sink();
    world.server.fail(Op::Claim, [Fault::ReplyLost]);
    world.offer(0..10);
    let bridge = world.bridge(1, &[("s", sink.clone())]);
    eventually("the claim", || world.store.in_flight().len() == 10).await;
    world.server.set_up(false);
    let started = Instant::now();
    let process = bridge.process.clone();
    assert!(!bridge.stop(TIMEOUT).await, "the lost claim took something");
    assert_eq!(process.not_found.load(std::sync::atomic::Ordering::Relaxed), 1);
    assert!((21 * SECOND..22 * SECOND).contains(&started.elapsed()), "{:?}", started.elapsed());
    world.server.set_up(true);
    finished_by_another(&world, 0..10).await;
}
