//! Outages at their full length: breakers, holds and full sinks for minutes and hours.

use super::*;

const BLOCKED: &str = "delaybridge_sink_blocked{sink=\"s\"}";

/// A sink that takes two seconds to fail.
fn failing(class: Class, code: &'static str) -> Arc<FakeSink> {
    let sink = sink();
    sink.otherwise(move |_| Step::FailAfter(2 * SECOND, failure(class, code)));
    sink
}

/// Whether the breaker is open, and said to be: before the first answer of a sink, its gauge is absent.
fn is_down(bridge: &Bridge) -> bool {
    !bridge.queue.is_open() && bridge.process.events.metrics().render().unwrap().contains(&format!("{SINK_UP} 0\n"))
}

fn works_again(sink: &FakeSink) {
    sink.otherwise(|_| Step::Confirm);
}

/// What an outage of any kind and any length must leave behind, seen from its end: one probe at a time, at the ceiling
/// of the waits; then all elements within one more wait, and none of them dead, counted or twice.
async fn an_hour_of(class: Class, code: &'static str, is_open: impl Fn(&Bridge) -> bool) -> (Bridge, Arc<FakeSink>) {
    let world = World::new();
    let sink = failing(class, code);
    let bridge = world.bridge(1, &[("s", sink.clone())]);
    bridge.offer(0..50);
    eventually("the outage to be seen", || is_open(&bridge)).await;
    tokio::time::sleep(10 * SECOND).await;
    sink.most_at_once();
    for ten_minutes in 1..=6 {
        let before = sink.attempts().len();
        tokio::time::sleep(10 * MINUTE).await;
        bridge.offer(ten_minutes * 50..ten_minutes * 50 + 50);
        let probes = sink.attempts().len() - before;
        // At most 24 once they wait 30 s each; the first waits are shorter.
        assert!((17..=34).contains(&probes) && (ten_minutes == 1 || probes <= 24), "{probes} probes in ten minutes");
    }
    assert_eq!(sink.most_at_once(), 1, "one probe at a time");
    assert!(is_open(&bridge) && sink.taken().is_empty());
    works_again(&sink);
    let healed = Instant::now();
    eventually("the first delivery", || !sink.taken().is_empty()).await;
    assert!(healed.elapsed() <= CEILING + 2 * SECOND, "{:?}", healed.elapsed());
    eventually("all deliveries", || sink.taken().len() == 350).await;
    // What the last attempts left waits for its retry.
    assert!(healed.elapsed() <= CEILING + 4 * SECOND, "{:?}", healed.elapsed());
    world.until_empty().await;
    assert!(!is_open(&bridge));
    assert_eq!(arrived(&sink), (0..350).collect::<Vec<_>>());
    // What the sink may have had says so, and counts as little.
    let most = if class == Class::Ambiguous { 2 } else { 1 };
    assert!(sink.taken().iter().all(|message| message.attempt <= most), "no attempt of an outage counts");
    assert_eq!(sink.taken().iter().any(|message| message.attempt == 2), class == Class::Ambiguous);
    assert!(world.store.dead().is_empty());
    bridge.metric_is(DELIVERED, 350.0).await;
    (bridge, sink)
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_is_down_for_an_hour_makes_no_dead_letters_and_no_duplicates() {
    let (bridge, _) = an_hour_of(Class::Transient, "down", is_down).await;
    assert_eq!(bridge.metric(DUPLICATES), 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_may_have_taken_each_attempt_of_an_hour_announces_each() {
    let (bridge, sink) = an_hour_of(Class::Ambiguous, "timeout", is_down).await;
    let failed = sink.attempts().len() - sink.taken().len();
    assert_eq!(bridge.metric(DUPLICATES), failed as f64);
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_is_full_for_an_hour_gets_one_probe_at_a_time() {
    let (bridge, _) = an_hour_of(Class::Backpressure, "OOM", |bridge| bridge.metric(BLOCKED) == 1.0).await;
    assert_eq!(bridge.metric(DUPLICATES), 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_on_hold_for_an_hour_resumes_with_the_first_probe_that_is_delivered() {
    let (bridge, _) = an_hour_of(Class::TargetPermanent, "NOPERM", |bridge| bridge.metric(HELD) == 1.0).await;
    assert_eq!(bridge.metric(DUPLICATES), 0.0);
    assert_eq!(bridge.metric(SINK_UP), 1.0, "the sink itself was never down");
}

#[tokio::test(start_paused = true)]
async fn a_hold_of_ten_minutes_sends_probes_only_and_its_elements_keep_their_order() {
    let world = World::new();
    let sink = sink();
    sink.outage(Some(failure(Class::TargetPermanent, "NOPERM")));
    for n in 0..10 {
        world.offer([n]);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let bridge = world.bridge(1, &[("s", sink.clone())]);
    tokio::time::sleep(10 * MINUTE).await;
    assert_eq!(bridge.metric(HELD), 1.0);
    assert!(sink.attempts().len() <= 10 + 30, "{} attempts", sink.attempts().len());
    sink.outage(None);
    let healed = Instant::now();
    world.until_empty().await;
    assert!(healed.elapsed() <= CEILING + SECOND, "{:?}", healed.elapsed());
    let order: Vec<u64> = sink.taken().iter().map(number).collect();
    assert_eq!(order, (0..10).collect::<Vec<_>>());
    assert_eq!((bridge.metric(HELD), bridge.metric(DUPLICATES)), (0.0, 0.0));
}

/// The times between the probes of an outage that began with `first` attempts; each must be between 85 and 100 % of its
/// bound, which doubles up to the ceiling.
fn check_waits(sink: &FakeSink, first: usize, mut bound: Duration) {
    let at: Vec<i64> = sink.attempts()[first - 1..].iter().map(|message| message.now_ms).collect();
    assert!(at.len() > 12, "{} probes", at.len());
    for pair in at.windows(2) {
        let wait = Duration::from_millis((pair[1] - pair[0]).unsigned_abs());
        let least = bound.mul_f64(0.85);
        let most = bound + Duration::from_millis(20);
        assert!((least..=most).contains(&wait), "{wait:?} instead of {least:?} to {most:?}: {at:?}");
        bound = CEILING.min(bound * 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_breaker_opens_after_five_failures_and_its_waits_double_to_half_a_minute() {
    let world = World::new();
    let sink = sink();
    sink.outage(Some(failure(Class::Transient, "down")));
    let bridge = world.bridge(1, &[("s", sink.clone())]);
    bridge.offer(0..5);
    eventually("the breaker to open", || is_down(&bridge)).await;
    assert_eq!(sink.attempts().len(), 5);
    tokio::time::sleep(10 * MINUTE).await;
    check_waits(&sink, 5, SECOND / 5);
}

#[tokio::test(start_paused = true)]
async fn a_hold_begins_with_one_failure_and_its_waits_double_to_half_a_minute() {
    let world = World::new();
    let sink = sink();
    sink.outage(Some(failure(Class::TargetPermanent, "NOPERM")));
    let bridge = world.bridge(1, &[("s", sink.clone())]);
    bridge.offer([0]);
    tokio::time::sleep(10 * MINUTE).await;
    check_waits(&sink, 1, SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_is_not_answered_lets_no_other_pass_until_the_sink_has_timed_out() {
    let world = World::new();
    let sink = sink();
    sink.outage(Some(failure(Class::Transient, "down")));
    let bridge = world.bridge(1, &[("s", sink.clone())]);
    bridge.offer(0..20);
    eventually("the breaker to open", || is_down(&bridge)).await;
    sink.stall(true);
    let before = sink.attempts().len();
    eventually("a probe", || sink.attempts().len() == before + 1).await;
    tokio::time::sleep(19 * SECOND).await;
    assert_eq!(sink.attempts().len(), before + 1);
    eventually("the next, after the time-out", || sink.attempts().len() == before + 2).await;
    sink.stall(false);
    sink.outage(None);
    world.until_empty().await;
    assert_eq!(arrived(&sink), (0..20).collect::<Vec<_>>());
    assert!(world.store.dead().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_full_sink_gives_elements_back_in_the_order_that_they_had() {
    let world = World::new();
    let sink = sink();
    sink.outage(Some(failure(Class::Backpressure, "OOM")));
    for n in 0..30 {
        world.offer([n]);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let _bridge = world.bridge(1, &[("s", sink.clone())]);
    tokio::time::sleep(10 * MINUTE).await;
    assert!(world.store.waiting().iter().all(|(_, entry)| entry.attempts() == 0));
    sink.outage(None);
    world.until_empty().await;
    let order: Vec<u64> = sink.taken().iter().map(number).collect();
    assert_eq!(order, (0..30).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn dead_letters_wait_for_a_sink_that_is_down_for_an_hour() {
    let world = World::new();
    let main = sink();
    let target = sink();
    main.outage(Some(failure(Class::MessagePermanent, "too_large")));
    target.outage(Some(failure(Class::Transient, "down")));
    let sinks = [("main", main.clone()), ("target", target.clone())];
    let mut spec = spec(&sinks[..1]);
    spec.dead_letter_to = Some(Box::new(route("target")));
    let bridge = world.bridge_with(1, &sinks, spec);
    for hundred in 0..6 {
        bridge.offer(hundred * 100..hundred * 100 + 100);
        tokio::time::sleep(10 * MINUTE).await;
    }
    assert_eq!(world.store.dead().len(), 600);
    let asked = target.attempts().len();
    tokio::time::sleep(10 * MINUTE).await;
    assert!(target.attempts().len() - asked <= 24, "{} probes in ten minutes", target.attempts().len() - asked);
    target.outage(None);
    let healed = Instant::now();
    eventually("all letters to go on", || world.store.dead().is_empty()).await;
    assert!(healed.elapsed() <= 2 * CEILING + SECOND, "{:?}", healed.elapsed());
    assert_eq!(arrived(&target), (0..600).collect::<Vec<_>>());
    assert_eq!(bridge.metric(DUPLICATES), 0.0);
}
