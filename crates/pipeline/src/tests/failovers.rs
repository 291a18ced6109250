//! A server that has forgotten verdicts: a replica that was behind takes over, or it restarts with older data. What left a claim is
//! under its name again, while its process still waits for others of the claim.

use super::*;
use delaybridge_model::Ordered;

const RETURNED: &str = "delaybridge_returned_messages_total{queue=\"q\"}";
const MISSING: &str = "delaybridge_missing_messages_total{queue=\"q\"}";
/// How long the sink has the neighbour.
const WHILE: Duration = Duration::from_secs(5);

/// A sink that answers the first element so, and the second one after a while.
fn sink_with(first: Step) -> Arc<FakeSink> {
    let sink = sink();
    sink.on_id(id(0), [first]);
    sink.on_id(id(1), [Step::ConfirmAfter(WHILE)]);
    sink
}

/// Retries come late enough for a failover before them.
fn spec_with_late_retries(sinks: world::Sinks) -> QueueSpec {
    let mut spec = spec(sinks);
    let retry = Arc::make_mut(&mut spec.retry);
    (retry.initial_interval, retry.max_interval) = (MINUTE, MINUTE);
    spec
}

/// The attempts of an element at the sink, as the sink was told.
fn attempts_of(sink: &FakeSink, n: u64) -> Vec<u32> {
    sink.attempts().iter().filter(|message| number(message) == n).map(|message| message.attempt).collect()
}

/// Both elements in one claim, which the replica has, and nothing later.
async fn claimed(world: &World) {
    eventually("a claim of both", || world.store.in_flight().len() == 2).await;
    world.server.cut_replica();
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_comes_back_survives_the_confirmation_of_its_neighbour() {
    let world = World::new();
    let sink = sink_with(Step::FailAfter(SECOND, failure(Class::Transient, "500")));
    world.server.await_replica();
    world.offer(0..2);
    let sinks = [("s", sink.clone())];
    let bridge = world.bridge_with(1, &sinks, spec_with_late_retries(&sinks));
    claimed(&world).await;
    eventually("a retry", || world.store.waiting().len() == 1).await;
    world.server.promote_replica();
    world.until_empty().await;
    assert_eq!(arrived(&sink), [0, 1]);
    assert_eq!((attempts_of(&sink, 0), attempts_of(&sink, 1)), (vec![1, 2], vec![1]));
    assert_eq!((bridge.metric(RETURNED), bridge.metric(MISSING)), (1.0, 0.0));
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_that_is_forgotten_is_an_element_again() {
    let world = World::new();
    let sink = sink_with(Step::FailAfter(SECOND, failure(Class::MessagePermanent, "400")));
    world.server.await_replica();
    world.offer(0..2);
    let _bridge = world.bridge(1, &[("s", sink.clone())]);
    claimed(&world).await;
    eventually("a dead letter", || world.store.dead().len() == 1).await;
    world.server.promote_replica();
    world.until_empty().await;
    assert_eq!((arrived(&sink), world.store.dead().len()), (vec![0, 1], 0));
    assert_eq!(attempts_of(&sink, 0), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_restarts_with_older_data_loses_no_retry() {
    let world = World::new();
    let sink = sink_with(Step::FailAfter(SECOND, failure(Class::Transient, "500")));
    world.offer(0..2);
    let sinks = [("s", sink.clone())];
    let _bridge = world.bridge_with(1, &sinks, spec_with_late_retries(&sinks));
    eventually("a claim of both", || world.store.in_flight().len() == 2).await;
    let saved = world.server.save();
    eventually("a retry", || world.store.waiting().len() == 1).await;
    world.server.fail_over(saved);
    world.until_empty().await;
    assert_eq!((arrived(&sink), attempts_of(&sink, 0)), (vec![0, 1], vec![1, 2]));
}

#[tokio::test(start_paused = true)]
async fn in_order_a_dead_letter_that_is_forgotten_survives_its_neighbour() {
    let key = delaybridge_core::template::Template::compile("${id}").expect("a template");
    for order in [Ordered::Queue, Ordered::Key(Some(Box::new(key)))] {
        let world = World::new();
        let sink = sink_with(Step::FailAfter(SECOND, failure(Class::MessagePermanent, "400")));
        world.server.in_order("q");
        world.server.await_replica();
        world.offer(0..2);
        let sinks = [("s", sink.clone())];
        let _bridge = world.bridge_with(1, &sinks, QueueSpec { order: Some(Box::new(order)), ..spec(&sinks) });
        claimed(&world).await;
        eventually("a dead letter", || world.store.dead().len() == 1).await;
        world.server.promote_replica();
        world.until_empty().await;
        assert_eq!(world.store.dead().len(), 0);
        let mut taken = arrived(&sink);
        taken.dedup();
        assert_eq!(taken, [0, 1]);
        assert_eq!(attempts_of(&sink, 0), [1, 2]);
    }
}

/// The neighbour was claimed ahead, and its lease could not be extended: it is left to its lease with what came back.
#[tokio::test(start_paused = true)]
async fn what_comes_back_beside_an_element_that_was_not_sent_is_announced() {
    let world = World::new();
    let sink = sink();
    world.server.await_replica();
    world.offer(0..1);
    world.offer_in(LEASE.mul_f64(0.85), 1..2);
    let sinks = [("s", sink.clone())];
    let spec = QueueSpec { claim_ahead: LEASE.mul_f64(0.9), ..spec(&sinks) };
    let bridge = world.bridge_with(1, &sinks, spec);
    claimed(&world).await;
    eventually("a confirmation", || world.store.in_flight().len() == 1).await;
    world.server.set_up(false);
    bridge.metric_is("delaybridge_stale_drops_total{queue=\"q\"}", 1.0).await;
    world.server.promote_replica();
    world.until_empty().await;
    assert_eq!((attempts_of(&sink, 0), arrived(&sink)), (vec![1, 2], vec![0, 0, 1]));
    assert!(bridge.metric(DUPLICATES) >= 1.0);
}

#[tokio::test(start_paused = true)]
async fn what_was_confirmed_and_comes_back_is_removed_again() {
    let world = World::new();
    let sink = sink_with(Step::Confirm);
    world.server.await_replica();
    world.offer(0..2);
    let bridge = world.bridge(1, &[("s", sink.clone())]);
    claimed(&world).await;
    eventually("a confirmation", || world.store.in_flight().len() == 1).await;
    world.server.promote_replica();
    world.until_empty().await;
    assert_eq!((arrived(&sink), bridge.metric(RETURNED), bridge.metric(DUPLICATES)), (vec![0, 1], 0.0, 0.0));
}

#[tokio::test(start_paused = true)]
async fn what_is_gone_with_its_claim_is_counted_and_comes_again() {
    let world = World::new();
    let sink = sink();
    sink.on_id(id(0), [Step::ConfirmAfter(WHILE)]);
    world.offer(0..1);
    let saved = world.server.save();
    let bridge = world.bridge(1, &[("s", sink.clone())]);
    eventually("it to be at the sink", || sink.attempts().len() == 1).await;
    world.server.fail_over(saved);
    bridge.metric_is(MISSING, 1.0).await;
    world.until_empty().await;
    eventually("both deliveries", || arrived(&sink) == [0, 0]).await;
    assert!(bridge.metric(DUPLICATES) >= 1.0);
}

/// The two sinks of an element: one has confirmed, which is noted in the claim; a replica has not heard of it.
#[tokio::test(start_paused = true)]
async fn progress_that_is_forgotten_does_not_keep_an_element_from_its_end() {
    let world = World::new();
    let fast = sink();
    let slow = sink();
    slow.on_id(id(0), [Step::ConfirmAfter(WHILE)]);
    world.server.await_replica();
    world.offer(0..1);
    let _bridge = world.bridge(1, &[("a", fast.clone()), ("b", slow.clone())]);
    eventually("a claim", || world.store.in_flight().len() == 1).await;
    world.server.cut_replica();
    let noted = || world.store.in_flight().iter().any(|(_, element)| element.header.is_some());
    eventually("the progress", noted).await;
    world.server.promote_replica();
    world.until_empty().await;
    assert_eq!((arrived(&fast), arrived(&slow)), (vec![0], vec![0]), "nothing came twice");
}

/// With two sinks, one of which has confirmed: what comes back is offered to it again.
#[tokio::test(start_paused = true)]
async fn what_comes_back_is_announced_also_if_the_answer_is_lost() {
    use delaybridge_testing::memory::{Fault, Op};
    let world = World::new();
    let fast = sink();
    let slow = sink_with(Step::FailAfter(SECOND, failure(Class::Transient, "500")));
    world.server.await_replica();
    world.offer(0..2);
    let sinks = [("a", fast.clone()), ("b", slow.clone())];
    let bridge = world.bridge_with(1, &sinks, spec_with_late_retries(&sinks));
    claimed(&world).await;
    eventually("a retry", || world.store.waiting().len() == 1).await;
    world.server.fail(Op::Settle, [Fault::ReplyLost]);
    world.server.promote_replica();
    world.until_empty().await;
    assert_eq!((arrived(&fast), arrived(&slow)), (vec![0, 0, 1], vec![0, 1]));
    assert!(bridge.metric(DUPLICATES) >= 1.0);
}

/// A server that cannot answer for a moment has not extended anything.
#[tokio::test(start_paused = true)]
async fn a_refused_extension_is_not_taken_for_kept() {
    use crate::leases::keeper;
    use delaybridge_testing::memory::{Fault, Op};
    let world = World::new();
    let sink = sink();
    sink.on_id(id(0), [Step::ConfirmAfter(15 * SECOND)]);
    world.offer(0..1);
    let sinks = [("s", sink.clone())];
    let bridge = world.without_keeper(1, &sinks, spec(&sinks));
    eventually("it to be at the sink", || sink.attempts().len() == 1).await;
    world.server.set_up(false);
    let lease = bridge.queue.spec.lease;
    tokio::time::sleep(lease.mul_f64(0.1)).await;
    world.server.set_up(true);
    tokio::time::sleep(Duration::from_millis(1)).await;
    for code in ["LOADING", "BUSY", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "MISCONF", "TRYAGAIN"] {
        world.server.fail(Op::Extend, [Fault::Refused(code)]);
        let claim = &bridge.queue.leases.due(delaybridge_core::clock::Instant::now(), lease)[0];
        let before = claim.deadline();
        assert!(!keeper::extend_all(&bridge.queue.leases, lease).await, "{code}");
        assert_eq!(claim.deadline(), before, "{code}");
    }
    world.server.fail(Op::Extend, [Fault::Refused("NOPERM")]);
    assert!(keeper::extend_all(&bridge.queue.leases, lease).await, "the claimer reports it");
    assert!(keeper::extend_all(&bridge.queue.leases, lease).await);
}
