//! Outages of a part: one destination of a sink is down, others work.

use super::rest::Many;
use super::*;
use delaybridge_telemetry::labels::Wakeup;
use delaybridge_testing::memory::element;

const IN_TROUBLE: &str = "delaybridge_sink_destinations_in_trouble{sink=\"s\"}";

/// Elements go to the list that their payload names.
fn lists(sinks: &[(&str, Arc<FakeSink>)]) -> QueueSpec {
    let list = delaybridge_core::template::Template::compile("${payload}").unwrap();
    let target = delaybridge_sink_redis::KeyTarget::list(list, delaybridge_link::Side::Right, false);
    let mut spec = QueueSpec { codec: Codec::String.into(), ..spec(sinks) };
    spec.to[0].target = Arc::new(target);
    spec
}

fn offer(bridge: &Bridge, world: &World, list: &str, ids: impl IntoIterator<Item = u64>) {
    for n in ids {
        world.store.offer(element(id(n), list.as_bytes()), Duration::ZERO);
    }
    bridge.queue.alarm.ring(Wakeup::Published);
}

fn goes_to(message: &Outbound, list: &str) -> bool {
    message.destination.to_string() == format!("list {list}")
}

/// Elements of `a` fail like this, the others are confirmed in a moment.
fn a_fails(sink: &FakeSink, step: impl Fn() -> Step + Send + 'static) {
    sink.otherwise(
        move |message| if goes_to(message, "a") { step() } else { Step::ConfirmAfter(Duration::from_millis(5)) },
    );
}

/// The time that each element of a list waited before it was sent for the last time: median and 99 %.
fn lateness(sink: &FakeSink, list: &str, ids: std::ops::Range<u64>) -> (Duration, Duration) {
    let of = |message: &&Outbound| goes_to(message, list) && ids.contains(&number(message));
    let mut late: Vec<i64> =
        sink.taken().iter().filter(of).map(|message| message.now_ms - message.due_ms.unwrap()).collect();
    late.sort();
    assert_eq!(late.len() as u64, (ids.end - ids.start) / 2, "elements of {list}");
    let at = |share: f64| Duration::from_millis(late[((late.len() - 1) as f64 * share) as usize].unsigned_abs());
    (at(0.5), at(0.99))
}

/// Ten elements a second to each of two lists: even ids to `a`, odd ones to `b`.
async fn flow(bridge: &Bridge, world: &World, ids: std::ops::Range<u64>) {
    for n in ids {
        offer(bridge, world, if n % 2 == 0 { "a" } else { "b" }, [n]);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// `doubt`: whether the destination may have had what it did not confirm, which messages say.
async fn ten_minutes_of(doubt: bool, step: impl Fn() -> Step + Send + 'static) -> (World, Bridge, Arc<FakeSink>) {
    let world = World::new();
    let sink = sink();
    let sinks = [("s", sink.clone())];
    let bridge = world.bridge_with(1, &sinks, lists(&sinks));
    a_fails(&sink, || Step::ConfirmAfter(Duration::from_millis(5)));
    flow(&bridge, &world, 0..1_000).await;
    let before = lateness(&sink, "b", 0..1_000);
    a_fails(&sink, step);
    flow(&bridge, &world, 1_000..13_000).await;
    let during = lateness(&sink, "b", 1_000..13_000);
    assert!(during.0 <= before.0 + Duration::from_millis(5), "median {:?}, before {:?}", during.0, before.0);
    assert!(during.1 <= before.1 + Duration::from_millis(20), "99 % {:?}, before {:?}", during.1, before.1);
    assert_eq!(bridge.metric(IN_TROUBLE), 1.0);
    assert_eq!(bridge.metric(SINK_UP), 1.0, "the sink itself works");
    assert!(bridge.process.events.status().ready().body.to_string().contains("list ${payload}"));
    let tried = sink.attempts().iter().filter(|message| goes_to(message, "a") && number(message) >= 1_000).count();
    assert!(tried < 300, "{tried} attempts at what is down");
    a_fails(&sink, || Step::Confirm);
    let healed = Instant::now();
    world.until_empty().await;
    assert!(healed.elapsed() <= 5 * MINUTE + CEILING, "{:?}", healed.elapsed());
    assert!(world.store.dead().is_empty());
    let most = 1 + u32::from(doubt);
    assert!(sink.taken().iter().all(|message| message.attempt <= most), "no attempt of an outage counts");
    let arrived: std::collections::BTreeSet<u64> = sink.taken().iter().map(number).collect();
    assert_eq!(arrived.len(), 13_000);
    assert_eq!(bridge.metric(IN_TROUBLE), 0.0);
    (world, bridge, sink)
}

#[tokio::test(start_paused = true)]
async fn a_destination_that_times_out_for_ten_minutes_holds_its_elements_and_delays_no_others() {
    ten_minutes_of(false, || Step::FailAfter(10 * SECOND, failure(Class::Transient, "MSG_TIMED_OUT"))).await;
}

#[tokio::test(start_paused = true)]
async fn a_destination_that_may_have_taken_its_elements_holds_them_and_delays_no_others() {
    ten_minutes_of(true, || Step::FailAfter(2 * SECOND, failure(Class::Ambiguous, "timeout"))).await;
}

#[tokio::test(start_paused = true)]
async fn a_destination_that_refuses_at_once_holds_its_elements_and_delays_no_others() {
    ten_minutes_of(false, || Step::Fail(failure(Class::Transient, "NOT_ENOUGH_REPLICAS"))).await;
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_holds_its_elements_and_delays_no_others() {
    ten_minutes_of(false, || Step::Fail(failure(Class::Backpressure, "nack").about(About::Route))).await;
}

#[tokio::test(start_paused = true)]
async fn a_destination_that_worked_before_is_waited_for_without_a_limit() {
    let missing = || Step::Fail(failure(Class::TargetPermanent, "UNKNOWN_TOPIC").about(About::Target));
    ten_minutes_of(false, missing).await;
}

#[tokio::test(start_paused = true)]
async fn a_stalled_destination_does_not_fill_the_room_of_its_queue() {
    let world = World::new();
    let sink = sink();
    let sinks = [("s", sink.clone())];
    let bridge = world.bridge_with(1, &sinks, lists(&sinks));
    a_fails(&sink, || Step::FailAfter(15 * SECOND, failure(Class::Ambiguous, "timeout")));
    // Five times as many as may be in flight.
    offer(&bridge, &world, "a", (0..500).map(|n| 2 * n));
    tokio::time::sleep(SECOND / 2).await;
    for n in 0..100 {
        offer(&bridge, &world, "b", [2 * n + 1]);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let (median, most) = lateness(&sink, "b", 0..200);
    assert!(median <= Duration::from_millis(20) && most <= Duration::from_millis(200), "{median:?} {most:?}");
    a_fails(&sink, || Step::Confirm);
    world.until_empty().await;
    assert!(world.store.dead().is_empty());
}

/// A queue whose sink knows the list `b` only.
fn knows_b(unroutable: Unroutable) -> (World, Bridge, Arc<FakeSink>) {
    let world = World::new();
    let sink = sink();
    let sinks = [("s", sink.clone())];
    a_fails(&sink, || Step::Fail(failure(Class::TargetPermanent, "NO_ROUTE").about(About::Route)));
    let bridge = world.bridge_with(1, &sinks, QueueSpec { unroutable, ..lists(&sinks) });
    (world, bridge, sink)
}

const DEAD_AFTER: fn(u64) -> Unroutable =
    |s| Unroutable { after: Some(Duration::from_secs(s)), action: OnUnroutable::DeadLetter };

#[tokio::test(start_paused = true)]
async fn what_has_no_destination_is_tried_again_before_it_is_a_dead_letter() {
    let (world, bridge, sink) = knows_b(DEAD_AFTER(600));
    let begun = Instant::now();
    offer(&bridge, &world, "a", [0, 2, 4]);
    offer(&bridge, &world, "b", [1]);
    eventually("the delivery", || !sink.taken().is_empty()).await;
    within(15 * MINUTE, "the dead letters", || world.store.dead().len() == 3).await;
    assert!(begun.elapsed() >= 10 * MINUTE, "{:?}", begun.elapsed());
    assert!(begun.elapsed() <= 11 * MINUTE, "{:?}", begun.elapsed());
    assert!(sink.attempts().len() < 50, "{} attempts", sink.attempts().len());
    bridge.metric_is("delaybridge_dead_lettered_messages_total{queue=\"q\",reason=\"unroutable\"}", 3.0).await;
    // From then on a new one needs one attempt.
    offer(&bridge, &world, "a", [6]);
    eventually("the dead letter", || world.store.dead().len() == 4).await;
}

#[tokio::test(start_paused = true)]
async fn what_has_no_destination_can_be_a_dead_letter_at_once_or_never() {
    let (world, bridge, sink) = knows_b(DEAD_AFTER(0));
    offer(&bridge, &world, "a", [0, 2, 4]);
    eventually("the dead letters", || world.store.dead().len() == 3).await;
    assert_eq!(sink.attempts().len(), 3);
    let never = [
        Unroutable { after: None, action: OnUnroutable::DeadLetter },
        Unroutable { after: Some(MINUTE), action: OnUnroutable::Hold },
    ];
    for policy in never {
        let (world, bridge, sink) = knows_b(policy);
        offer(&bridge, &world, "a", [0, 2, 4]);
        for n in 0..60 {
            tokio::time::sleep(MINUTE).await;
            offer(&bridge, &world, "b", [2 * n + 1]);
        }
        assert!(world.store.dead().is_empty());
        a_fails(&sink, || Step::Confirm);
        world.until_empty().await;
        assert_eq!(sink.taken().len(), 63);
    }
}

#[tokio::test(start_paused = true)]
async fn words_of_payloads_are_shown_in_dead_letters_only() {
    let world = World::new();
    let sink = sink();
    let sinks = [("s", sink.clone())];
    sink.otherwise(|message| {
        if goes_to(message, "b") {
            Step::Confirm
        } else {
            let text = format!("push to {}: no such list 'ann'", message.destination);
            Step::Fail(Failure::new(Class::TargetPermanent, "NO_ROUTE", text).about(About::Route))
        }
    });
    let bridge = world.bridge_with(1, &sinks, QueueSpec { unroutable: DEAD_AFTER(60), ..lists(&sinks) });
    offer(&bridge, &world, "b", [1]);
    offer(&bridge, &world, "ann", [2]);
    bridge.metric_is(IN_TROUBLE, 1.0).await;
    let shown = bridge.process.events.status().ready().body.to_string();
    assert!(shown.contains("push to list ${payload}: no such list '${payload}'"), "{shown}");
    assert!(!shown.contains("ann"), "{shown}");
    within(5 * MINUTE, "the dead letter", || world.store.dead().len() == 1).await;
    let letter = format!("{:?}", world.store.dead());
    assert!(letter.contains("list ann"), "{letter}");
}

/// Elements of each queue go to a list of its own.
fn own_list(spec: &mut QueueSpec) {
    let list = delaybridge_core::template::Template::compile(&format!("of-{}", spec.id)).unwrap();
    let target = delaybridge_sink_redis::KeyTarget::list(list, delaybridge_link::Side::Right, false);
    spec.to[0].target = Arc::new(target);
}

#[tokio::test(start_paused = true)]
async fn each_queue_goes_on_as_soon_as_its_own_destination_works_again() {
    let sink = sink();
    let many = Many::start(2, &sink, own_list);
    sink.outage(Some(failure(Class::Ambiguous, "connection_lost")));
    for n in 0..40 {
        many.offer_in(n % 2, Duration::ZERO, n as u64);
    }
    tokio::time::sleep(3 * SECOND).await;
    let of = |queue: usize| sink.attempts().iter().filter(|message| *message.queue == *format!("q{queue}")).count();
    assert!(of(0) >= 5 && of(1) >= 5, "both have failed often enough: {} and {}", of(0), of(1));
    // The first that is confirmed says that the sink works. The destination of the other queue has a probe of its own, and
    // the claimer waits for what comes of it.
    sink.otherwise(|_| Step::ConfirmAfter(Duration::from_millis(5)));
    sink.outage(None);
    let all = || {
        (0..2).all(|queue| many.metric(&format!("delaybridge_delivered_messages_total{{queue=\"q{queue}\"}}")) == 20.0)
    };
    within(20 * SECOND, "all to be delivered", all).await;
    many.stop().await;
}

/// The elements of several keys go together, to two lists; one list is down.
#[tokio::test(start_paused = true)]
async fn in_a_run_what_waits_for_its_destination_sends_back_no_elements_of_others() {
    let world = super::order::world();
    let sink = super::order_runs::sink_of_runs();
    let sinks = [("s", sink.clone())];
    let key = delaybridge_core::template::Template::compile("${id}").unwrap();
    let order = delaybridge_model::Ordered::Key(Some(Box::new(key)));
    let bridge = world.bridge_with(1, &sinks, QueueSpec { order: Some(Box::new(order)), ..lists(&sinks) });
    a_fails(&sink, || Step::Fail(failure(Class::Transient, "503")));
    let taken =
        |list: &str| -> Vec<u64> { sink.taken().iter().filter(|message| goes_to(message, list)).map(number).collect() };
    for first in (0..200).step_by(10) {
        // The first and the last of each ten wait, and the others are between them.
        for n in first..first + 10 {
            world.store.offer(element(id(n), if n % 3 == 0 { b"a" } else { b"b" }), Duration::ZERO);
        }
        bridge.queue.alarm.ring(Wakeup::Published);
        let b = || taken("b").len() as u64 == (0..first + 10).filter(|n| n % 3 != 0).count() as u64;
        within(SECOND, &format!("what goes to b of the ten from {first} on"), b).await;
    }
    let late = |message: &&Outbound| goes_to(message, "b") && message.now_ms - message.due_ms.unwrap() > 50;
    assert_eq!(sink.taken().iter().filter(late).map(number).collect::<Vec<_>>(), [0; 0], "went back");
    assert_eq!(bridge.metric(IN_TROUBLE), 1.0);
    assert!(sink.run_lengths().iter().any(|length| *length > 2), "{:?}", sink.run_lengths());
    a_fails(&sink, || Step::Confirm);
    world.until_empty().await;
    let all: std::collections::BTreeSet<u64> = taken("a").into_iter().chain(taken("b")).collect();
    assert!(all.into_iter().eq(0..200) && world.store.dead().is_empty());
}
