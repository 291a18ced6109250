//! One sink and what it answers.

use super::*;
use delaybridge_sink::Target;

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_counted_retry_and_a_dead_letter_in_the_end_while_its_neighbours_are_delivered() {
    let world = World::new();
    let sink = sink();
    sink.on_id(id(7), [Step::Panic, Step::Panic, Step::Panic]);
    sink.on_id(id(8), [Step::Panic]);
    let bridge = world.bridge(1, &[("s", sink.clone())]);
    bridge.offer(0..20);
    world.until_empty().await;

    let taken = sink.taken();
    assert_eq!(taken.len(), 19);
    let healed = taken.iter().find(|message| message.id.id == id(8)).expect("the one that panicked once");
    assert_eq!(healed.attempt, 2, "a panic counts");
    assert_eq!(times(&sink, [7, 8, 9]), [3, 2, 1]);
    let dead = world.store.dead();
    assert_eq!(dead.len(), 1);
    for (field, expected) in [("reason", "max_attempts"), ("code", "panic"), ("class", "unknown"), ("attempts", "3")] {
        assert_eq!(dead[0].text(field), expected, "{field}");
    }
    assert_eq!(dead[0].text("id"), id(7).to_string());
    bridge.metric_is("delaybridge_panics_total{queue=\"q\"}", 4.0).await;
    assert!(!bridge.process.failed.is_cancelled(), "a delivery that panics is not the end of the process");
}

/// Its turn at the sink came when its lease was nearly over: it was not sent, and is not this claim's to settle.
#[tokio::test(start_paused = true)]
async fn what_a_sink_finds_stale_is_not_confirmed_and_comes_again_after_its_lease() {
    let world = World::new();
    let sink = sink();
    sink.on_id(id(3), [Step::Fail(Failure::stale())]);
    let bridge = world.bridge(1, &[("s", sink.clone())]);
    bridge.offer(0..10);
    bridge.metric_is("delaybridge_stale_drops_total{queue=\"q\"}", 1.0).await;
    eventually("the others to be written", || world.store.in_flight().len() == 1).await;
    assert_eq!(sink.taken().len(), 9);
    world.until_empty().await;
    assert_eq!(times(&sink, [2, 3, 4]), [1, 2, 1]);
    assert_eq!(sink.taken().len(), 10);
}

#[tokio::test(start_paused = true)]
async fn an_outage_makes_no_dead_letters_and_is_probed_by_one_element_at_a_time() {
    let world = World::new();
    let sink = sink();
    sink.outage(Some(failure(Class::Transient, "down")));
    let bridge = world.bridge(1, &[("s", sink.clone())]);
    bridge.offer(0..2);
    eventually("the breaker to open", || !bridge.queue.is_open()).await;
    // Two elements share five failures and four probes: more than three attempts each, if they counted.
    let opened = sink.attempts().len();
    eventually("four probes", || sink.attempts().len() >= opened.max(5) + 4).await;
    sink.stall(true);
    let before = sink.attempts().len();
    eventually("a probe that waits for its answer", || world.store.in_flight().len() == 1).await;
    bridge.offer(2..12);
    eventually("the claimer to have seen them", || sink.attempts().len() > before).await;
    assert_eq!(world.store.in_flight().len(), 1, "nothing is claimed beside a probe");
    assert_eq!(sink.attempts().len(), before + 1);

    sink.outage(None);
    sink.stall(false);
    world.until_empty().await;
    assert_eq!(world.store.dead().len(), 0);
    assert_eq!(sink.taken().len(), 12);
    assert!(sink.taken().iter().all(|message| message.attempt == 1), "no attempt of an outage counts");
    bridge.metric_is(SINK_UP, 1.0).await;
    bridge.metric_is(DELIVERED, 12.0).await;
}

#[tokio::test(start_paused = true)]
async fn failures_of_one_element_count_while_the_sink_takes_others() {
    let world = World::new();
    let sink = sink();
    let fails = Step::Fail(failure(Class::Transient, "odd"));
    sink.on_id(id(0), std::iter::repeat_n(fails, 1000));
    let bridge = world.bridge(1, &[("s", sink.clone())]);
    bridge.offer([0]);
    let mut others = 1..;
    eventually("a dead letter", || {
        // The sink must have confirmed something else between two attempts, or they do not count.
        bridge.offer(others.next());
        world.store.dead().len() == 1
    })
    .await;
    world.until_empty().await;
    let dead = world.store.dead();
    for (field, expected) in [("reason", "max_attempts"), ("code", "odd"), ("attempts", "3")] {
        assert_eq!(dead[0].text(field), expected, "{field}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_target_to_fix_holds_the_queue_until_a_probe_succeeds() {
    let world = World::new();
    let sink = sink();
    sink.outage(Some(failure(Class::TargetPermanent, "NOPERM")));
    let bridge = world.bridge(1, &[("s", sink.clone())]);
    bridge.offer(0..10);
    bridge.metric_is(HELD, 1.0).await;
    let ready = bridge.process.events.status().ready();
    assert!(ready.body.to_string().contains("NOPERM"), "readiness says why: {}", ready.body);
    let before = sink.attempts().len();
    eventually("a probe", || sink.attempts().len() > before).await;
    assert!(sink.attempts().len() <= 14, "{} attempts of ten elements and a few probes", sink.attempts().len());
    assert_eq!(bridge.metric(HELD), 1.0, "a probe that failed changes nothing");

    sink.outage(None);
    world.until_empty().await;
    bridge.metric_is(HELD, 0.0).await;
    assert_eq!(sink.taken().len(), 10);
    assert!(sink.taken().iter().all(|message| message.attempt == 1), "a hold counts no attempts");
    assert_eq!(world.store.dead().len(), 0);
    assert_eq!(bridge.metric(SINK_UP), 1.0, "the sink itself was never down");
}

#[tokio::test(start_paused = true)]
async fn a_full_sink_gets_nothing_more_and_no_attempt_counts() {
    let world = World::new();
    let sink = sink();
    sink.outage(Some(failure(Class::Backpressure, "OOM")));
    let bridge = world.bridge(1, &[("s", sink.clone())]);
    bridge.offer(0..10);
    bridge.metric_is("delaybridge_sink_blocked{sink=\"s\"}", 1.0).await;
    let asked = sink.attempts().len();
    eventually("two probes", || sink.attempts().len() >= asked + 2).await;
    bridge.offer(10..20);
    let asked = sink.attempts().len();
    eventually("two more probes", || sink.attempts().len() >= asked + 2).await;
    assert!(times(&sink, 10..20).iter().all(|&times| times <= 1), "claimed while the sink was full");
    let released = "delaybridge_released_messages_total{queue=\"q\",reason=\"backpressure\"}";
    assert!(bridge.metric(released) > 0.0, "released, not retried");

    sink.outage(None);
    world.until_empty().await;
    assert_eq!(sink.taken().len(), 20);
    assert!(sink.taken().iter().all(|message| message.attempt == 1));
    assert_eq!(world.store.dead().len(), 0);
    bridge.metric_is("delaybridge_sink_blocked{sink=\"s\"}", 0.0).await;
}

#[tokio::test(start_paused = true)]
async fn an_element_that_hangs_leaves_room_for_others_however_few_bytes_are_allowed() {
    let world = World::new();
    let sink = sink();
    let sinks = [("s", sink.clone())];
    // As much as one claim moves at most.
    let spec = QueueSpec { max_in_flight_bytes: 1 << 20, ..spec(&sinks) };
    let bridge = world.without_keeper(1, &sinks, spec);
    sink.on_id(id(0), [Step::Hang]);
    for n in 0..5 {
        bridge.offer([n]);
        eventually("the sink to get the next one", || sink.attempts().len() as u64 == n + 1).await;
    }
    bridge.metric_is(DELIVERED, 4.0).await;
}

#[tokio::test(start_paused = true)]
async fn a_target_named_after_the_queue_can_be_fixed_and_one_named_by_the_payload_is_the_elements_own() {
    let template = |text| delaybridge_core::template::Template::compile(text).unwrap();
    let list = |key| -> Arc<dyn Target> {
        let list = template(key);
        let push = delaybridge_link::Side::Right;
        Arc::new(delaybridge_sink_redis::KeyTarget::list(list, push, false))
    };
    let exchange = |exchange, routing_key| -> Arc<dyn Target> {
        let exchange = template(exchange);
        let routing_key = template(routing_key);
        Arc::new(delaybridge_sink_amqp::AmqpTarget::new(exchange, routing_key, Vec::new()))
    };
    let rows = [
        (list("due-${queue}"), About::Target, true),
        (list("due-${payload}"), About::Target, false),
        (list("due-${payload}"), About::Sink, true),
        (exchange("due", "to"), About::Route, true),
        // With any key, a person has to create a missing exchange.
        (exchange("due", "${payload}"), About::Target, true),
        (exchange("due", "${payload}"), About::Route, false),
        (exchange("${payload}", "to"), About::Target, false),
        (exchange("${payload}", "to"), About::Route, false),
        (exchange("${payload}", "${payload}"), About::Sink, true),
    ];
    for (target, about, held) in rows {
        let world = World::new();
        let sink = sink();
        sink.outage(Some(failure(Class::TargetPermanent, "WRONGTYPE").about(about)));
        let mut spec = spec(&[("s", sink.clone())]);
        spec.codec = Codec::String.into();
        spec.unroutable.after = Some(Duration::ZERO);
        spec.to[0].target = target;
        let bridge = world.without_keeper(1, &[("s", sink.clone())], spec);
        world.offer(0..1);
        bridge.queue.alarm.ring(delaybridge_telemetry::labels::Wakeup::Published);
        if held {
            bridge.metric_is(HELD, 1.0).await
        } else {
            eventually("the dead letter", || world.store.dead().len() == 1).await
        }
        assert_eq!(world.store.dead().len(), usize::from(!held));
    }
}

/// What is known of earlier attempts stays with the element in its dead letter.
#[tokio::test(start_paused = true)]
async fn a_letter_says_whether_a_sink_may_have_had_the_element() {
    let world = World::new();
    let sink = sink();
    let refused = || Step::Fail(failure(Class::MessagePermanent, "too_large"));
    sink.on_id(id(1), [Step::Fail(failure(Class::Ambiguous, "timeout")), refused()]);
    sink.on_id(id(2), [refused()]);
    let bridge = world.bridge(1, &[("s", sink.clone())]);
    bridge.offer(0..20);
    world.until_empty().await;
    let dead = world.store.dead();
    let of = |n: u64| dead.iter().find(|letter| letter.text("id") == id(n).to_string()).expect("a letter");
    assert_eq!((dead.len(), of(1).text("in_doubt"), of(2).text("in_doubt")), (2, "1", "0"));
    assert!(of(1).may_have_arrived() && !of(2).may_have_arrived());
}

/// The confirmation is by a name that no sink has any more.
#[tokio::test(start_paused = true)]
async fn a_sink_that_has_another_name_now_gets_an_announced_repetition() {
    let world = World::new();
    let had = sink();
    let waits = sink();
    waits.outage(Some(failure(Class::Transient, "down")));
    let sinks = [("old", had.clone()), ("waits", waits.clone())];
    let bridge = world.bridge(1, &sinks);
    bridge.offer(0..3);
    eventually("the first sink to have all", || had.taken().len() == 3).await;
    assert!(bridge.stop(10 * SECOND).await);
    waits.outage(None);
    let _second = world.bridge(2, &[("new", had.clone()), ("waits", waits.clone())]);
    world.until_empty().await;
    let attempts: Vec<u32> = had.taken().iter().map(|message| message.attempt).collect();
    assert!(attempts.len() == 6 && attempts[3..].iter().all(|attempt| *attempt > 1), "{attempts:?}");
}

/// One payload that the codec refuses is a dead letter. Several in a row are a codec that is not that of the queue: no element more
/// is a dead letter, and each waits for the right one.
#[tokio::test(start_paused = true)]
async fn a_codec_that_refuses_three_in_a_row_holds_the_queue() {
    let world = World::new();
    let sink = sink();
    let sinks = [("s", sink.clone())];
    let wrong = QueueSpec { codec: Codec::Json.into(), on_decode_error: OnDecodeError::HoldRepeated, ..spec(&sinks) };
    let bridge = world.bridge_with(1, &sinks, wrong.clone());
    bridge.offer(0..50);
    eventually("the hold", || !bridge.queue.is_open()).await;
    tokio::time::sleep(10 * MINUTE).await;
    assert_eq!((world.store.dead().len(), sink.taken().len()), (2, 0));
    assert!(bridge.stop(10 * SECOND).await);
    let right = QueueSpec { codec: Codec::String.into(), ..wrong };
    let _second = world.bridge_with(2, &sinks, right);
    world.until_empty().await;
    assert_eq!((world.store.dead().len(), sink.taken().len()), (2, 48));
}

/// Objects of Java are read as far as they can be, and what is late is not read at all: neither is a codec that is the wrong one.
#[tokio::test(start_paused = true)]
async fn one_refused_payload_beside_objects_of_java_is_a_dead_letter() {
    let world = World::new();
    let sink = sink();
    let sinks = [("s", sink.clone())];
    let spec = QueueSpec {
        codec: Codec::Kryo5.into(),
        on_decode_error: OnDecodeError::HoldRepeated,
        on_opaque: OnDecodeError::DeadLetter,
        ..spec(&sinks)
    };
    for n in 0..4 {
        world
            .store
            .offer(delaybridge_testing::memory::element(id(n), b"\x01\x00com.example.Orde\xf2\x2a"), Duration::ZERO);
    }
    world.offer(4..6);
    let bridge = world.bridge_with(1, &sinks, spec);
    world.until_empty().await;
    assert!(bridge.queue.is_open());
    assert_eq!(world.store.dead().len(), 6);
}
