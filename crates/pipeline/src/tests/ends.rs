//! Elements that end in other ways than by an answer: the lease is lost, the process stops.

use super::*;

#[tokio::test(start_paused = true)]
async fn what_is_unanswered_at_the_end_of_the_drain_is_released_uncounted_and_announced() {
    let world = World::new();
    let sink = sink();
    let bridge = world.bridge(1, &[("s", sink.clone())]);
    sink.stall(true);
    bridge.offer(0..10);
    eventually("the sink to be asked", || sink.attempts().len() == 10).await;
    bridge.process.stopping.cancel();
    bridge.offer(10..15);
    bridge.process.abandon.cancel();
    bridge.process.tasks.close();
    bridge.process.tasks.wait().await;

    assert_eq!(world.store.in_flight().len(), 0);
    let released = world.store.waiting();
    assert_eq!(released.len(), 10, "elements offered after the stop are unclaimed");
    assert!(released.iter().all(|(_, entry)| entry.attempts() == 0));
    assert_eq!(bridge.metric("delaybridge_released_messages_total{queue=\"q\",reason=\"shutdown\"}"), 10.0);
    assert_eq!(bridge.metric(DUPLICATES), 10.0);
    drop(bridge);

    sink.stall(false);
    let _next = world.bridge(2, &[("s", sink.clone())]);
    world.until_empty().await;
    assert_eq!(arrived(&sink), (0..15).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_verdict_that_comes_after_the_lease_is_accepted_and_counted() {
    let world = World::new();
    let sink = sink();
    sink.stall(true);
    world.offer(0..3);
    let short = QueueSpec { lease: Duration::from_secs(5), ..spec(&[("s", sink.clone())]) };
    let bridge = world.without_keeper(1, &[("s", sink.clone())], short);
    eventually("the sink to be asked", || sink.attempts().len() == 3).await;
    tokio::time::sleep(5 * SECOND).await;
    sink.stall(false);
    world.until_empty().await;
    bridge.metric_is(DELIVERED, 3.0).await;
    bridge.metric_is("delaybridge_late_acks_total{queue=\"q\"}", 3.0).await;
}

#[tokio::test(start_paused = true)]
async fn a_waiting_claimer_is_alive_and_one_with_a_lost_claim_is_not() {
    let world = World::new();
    let sink = sink();
    let sinks = [("s", sink.clone())];
    let bridge = world.without_keeper(1, &sinks, spec(&sinks));
    bridge.offer([1]);
    bridge.metric_is(DELIVERED, 1.0).await;
    let in_an_hour = || bridge.process.events.status().live_at(Instant::now().after(HOUR));
    eventually("the claimer to wait for work", || in_an_hour().ok).await;

    bridge.wire.freeze(true);
    bridge.queue.alarm.ring(delaybridge_telemetry::labels::Wakeup::Poll);
    eventually("the claimer to wait for its claim", || !in_an_hour().ok).await;
    assert_eq!(in_an_hour().body["stuck"][0]["task"], "claimer");
    eventually("the claimer to wait for Redis", || in_an_hour().ok).await;
    bridge.wire.freeze(false);
}

#[tokio::test(start_paused = true)]
async fn a_sink_may_begin_to_send_until_a_fifth_of_the_lease_is_left() {
    let world = World::new();
    let sink = sink();
    let lease = Duration::from_secs(50);
    let sinks = [("s", sink.clone())];
    let bridge = world.without_keeper(1, &sinks, QueueSpec { lease, ..spec(&sinks) });
    let before = Instant::now();
    bridge.offer([1]);
    eventually("the sink to be asked", || sink.attempts().len() == 1).await;
    let usable = Duration::from_secs(40);
    let send_before = sink.attempts()[0].send_before;
    assert!(send_before >= before.after(usable), "{:?}", send_before.since(before));
    assert!(send_before <= Instant::now().after(usable), "{:?}", send_before.since(before));
}
