//! One sink and what it answers.

use redisson_codecs::Codec;

use super::*;
use crate::sink::Target;

const SINK_UP: &str = "delaybridge_sink_up{sink=\"s\"}";
const HELD: &str = "delaybridge_queue_held{queue=\"q\"}";

#[tokio::test]
async fn a_panic_is_a_counted_retry_and_a_dead_letter_in_the_end_while_its_neighbours_are_delivered() {
    let (server, sink) = (TestServer::start(), sink());
    let mut redis = ReplyPending::at(&server).await;
    sink.on_id(id(7), [Step::Panic, Step::Panic, Step::Panic]);
    sink.on_id(id(8), [Step::Panic]);
    let bridge = Bridge::start(&server, 1, &[("s", sink.clone())]);
    bridge.offer(0..20).await;
    redis.until_empty().await;

    let taken = sink.taken();
    assert_eq!(taken.len(), 19);
    let healed = taken.iter().find(|message| message.id == id(8)).expect("the one that panicked once");
    assert_eq!(healed.attempt, 2, "a panic counts");
    assert_eq!(times(&sink, [7, 8, 9]), [3, 2, 1]);
    let dead = redis.dead().await;
    assert_eq!(dead.len(), 1);
    for (field, expected) in [("reason", "max_attempts"), ("code", "panic"), ("class", "unknown"), ("attempts", "3")] {
        assert_eq!(String::from_utf8_lossy(&dead[0][field]), expected, "{field}");
    }
    assert_eq!(dead[0]["id"], id(7).to_string().into_bytes());
    bridge.metric_is("delaybridge_panics_total{queue=\"q\"}", 4.0).await;
    assert!(!bridge.process.failed.is_cancelled(), "a delivery that panics is not the end of the process");
}

#[tokio::test]
async fn an_outage_makes_no_dead_letters_and_is_probed_by_one_element_at_a_time() {
    let (server, sink) = (TestServer::start(), sink());
    let mut redis = ReplyPending::at(&server).await;
    sink.outage(Some(failure(Class::Transient, "down")));
    let bridge = Bridge::start(&server, 1, &[("s", sink.clone())]);
    bridge.offer(0..2).await;
    bridge.metric_is(SINK_UP, 0.0).await;
    // Two elements share five failures and four probes: more than three attempts each, if they counted.
    let opened = sink.attempts().len();
    eventually("four probes", async || sink.attempts().len() >= opened.max(5) + 4).await;
    sink.stall(true);
    let before = sink.attempts().len();
    eventually("a probe that waits for its answer", async || redis.count("inflight").await == 1).await;
    bridge.offer(2..12).await;
    eventually("the claimer to have seen them", async || sink.attempts().len() > before).await;
    assert_eq!(redis.count("inflight").await, 1, "nothing is claimed beside a probe");
    assert_eq!(sink.attempts().len(), before + 1);

    sink.outage(None);
    sink.stall(false);
    redis.until_empty().await;
    assert_eq!(redis.dead().await.len(), 0);
    assert_eq!(sink.taken().len(), 12);
    assert!(sink.taken().iter().all(|message| message.attempt == 1), "no attempt of an outage counts");
    bridge.metric_is(SINK_UP, 1.0).await;
    bridge.metric_is("delaybridge_delivered_messages_total{queue=\"q\"}", 12.0).await;
}

#[tokio::test]
async fn failures_of_one_element_count_while_the_sink_takes_others() {
    let (server, sink) = (TestServer::start(), sink());
    let mut redis = ReplyPending::at(&server).await;
    let fails = Step::Fail(failure(Class::Transient, "odd"));
    sink.on_id(id(0), std::iter::repeat_n(fails, 1000));
    let bridge = Bridge::start(&server, 1, &[("s", sink.clone())]);
    bridge.offer([0]).await;
    let mut others = 1..;
    eventually("a dead letter", async || {
        // The sink must have confirmed something else between two attempts, or they do not count.
        bridge.offer(others.next()).await;
        redis.dead().await.len() == 1
    })
    .await;
    redis.until_empty().await;
    let dead = redis.dead().await;
    for (field, expected) in [("reason", "max_attempts"), ("code", "odd"), ("attempts", "3")] {
        assert_eq!(String::from_utf8_lossy(&dead[0][field]), expected, "{field}");
    }
}

#[tokio::test]
async fn a_target_that_has_to_be_mended_holds_the_queue_until_a_probe_goes_through() {
    let (server, sink) = (TestServer::start(), sink());
    let mut redis = ReplyPending::at(&server).await;
    sink.outage(Some(failure(Class::TargetPermanent, "NOPERM")));
    let bridge = Bridge::start(&server, 1, &[("s", sink.clone())]);
    bridge.offer(0..10).await;
    bridge.metric_is(HELD, 1.0).await;
    let ready = bridge.process.events.status().ready();
    assert!(ready.body.to_string().contains("NOPERM"), "readiness says why: {}", ready.body);
    let before = sink.attempts().len();
    eventually("a probe", async || sink.attempts().len() > before).await;
    assert!(sink.attempts().len() <= 14, "{} attempts of ten elements and a few probes", sink.attempts().len());
    assert_eq!(bridge.metric(HELD), 1.0, "a probe that failed changes nothing");

    sink.outage(None);
    redis.until_empty().await;
    bridge.metric_is(HELD, 0.0).await;
    assert_eq!(sink.taken().len(), 10);
    assert!(sink.taken().iter().all(|message| message.attempt == 1), "a hold counts no attempts");
    assert_eq!(redis.dead().await.len(), 0);
    assert_eq!(bridge.metric(SINK_UP), 1.0, "the sink itself was never down");
}

#[tokio::test]
async fn a_full_sink_gets_nothing_more_and_no_attempt_counts() {
    let (server, sink) = (TestServer::start(), sink());
    let mut redis = ReplyPending::at(&server).await;
    sink.outage(Some(failure(Class::Backpressure, "OOM")));
    let bridge = Bridge::start(&server, 1, &[("s", sink.clone())]);
    bridge.offer(0..10).await;
    bridge.metric_is("delaybridge_sink_blocked{sink=\"s\"}", 1.0).await;
    let asked = sink.attempts().len();
    eventually("two probes", async || sink.attempts().len() >= asked + 2).await;
    bridge.offer(10..20).await;
    let asked = sink.attempts().len();
    eventually("two more probes", async || sink.attempts().len() >= asked + 2).await;
    assert!(times(&sink, 10..20).iter().all(|&times| times <= 1), "claimed while the sink was full");
    let released = "delaybridge_released_messages_total{queue=\"q\",reason=\"backpressure\"}";
    assert!(bridge.metric(released) > 0.0, "released, not retried");

    sink.outage(None);
    redis.until_empty().await;
    assert_eq!(sink.taken().len(), 20);
    assert!(sink.taken().iter().all(|message| message.attempt == 1));
    assert_eq!(redis.dead().await.len(), 0);
    bridge.metric_is("delaybridge_sink_blocked{sink=\"s\"}", 0.0).await;
}

#[tokio::test]
async fn a_message_that_can_never_be_taken_is_a_dead_letter_at_once_with_all_that_is_known() {
    let (server, sink) = (TestServer::start(), sink());
    let mut redis = ReplyPending::at(&server).await;
    sink.on_id(id(3), [Step::Fail(failure(Class::MessagePermanent, "too_large"))]);
    let bridge = Bridge::start(&server, 1, &[("s", sink.clone())]);
    bridge.offer(0..5).await;
    redis.until_empty().await;
    assert_eq!(times(&sink, 0..5), [1, 1, 1, 1, 1]);
    let dead = redis.dead().await;
    let [letter] = &dead[..] else { panic!("{} dead letters", dead.len()) };
    let text = |field: &str| String::from_utf8_lossy(&letter[field]).into_owned();
    let expected = [
        ("id", &*id(3).to_string()),
        ("reason", "message_permanent"),
        ("queue", "q"),
        ("origin", "delayed"),
        ("attempts", "1"),
        ("expiries", "0"),
        ("class", "message_permanent"),
        ("code", "too_large"),
        ("message", "deliver: told to fail"),
        ("sink", "s"),
        ("destination", "stdout"),
        ("confirmed", ""),
        ("codec", "raw"),
    ];
    for (field, expected) in expected {
        assert_eq!(text(field), expected, "{field}");
    }
    for time in ["due_ms", "died_ms", "first_attempt_ms", "last_attempt_ms"] {
        assert!(text(time).parse::<i64>().is_ok_and(|ms| ms > 1_700_000_000_000), "{time}: {}", text(time));
    }
    let seen: serde_json::Value = serde_json::from_str(&text("attempts_seen")).unwrap();
    assert_eq!((&seen[0]["code"], &seen[0]["sink"]), (&"too_large".into(), &"s".into()), "{seen}");
    assert_eq!(letter["element"], layout::pack(Layout::New, id(3), b"payload 3"));
    let counter = "delaybridge_dead_lettered_messages_total{queue=\"q\",reason=\"message_permanent\"}";
    bridge.metric_is(counter, 1.0).await;
}

#[tokio::test]
async fn an_element_that_hangs_leaves_room_for_others_however_few_bytes_are_allowed() {
    let (server, sink) = (TestServer::start(), sink());
    let sinks = [("s", sink.clone())];
    // As much as one claim moves at most.
    let spec = QueueSpec { max_in_flight_bytes: 1 << 20, ..spec(&sinks) };
    let bridge = Bridge::without_keeper(&server, 1, &sinks, spec);
    sink.on_id(id(0), [Step::Hang]);
    for n in 0..5 {
        bridge.offer([n]).await;
        eventually("the next one to be handed to the sink", async || sink.attempts().len() as u64 == n + 1).await;
    }
    bridge.metric_is("delaybridge_delivered_messages_total{queue=\"q\"}", 4.0).await;
}

#[tokio::test]
async fn elements_reach_the_sink_in_the_order_of_their_claims() {
    const ELEMENTS: u64 = 1_000;
    let (server, sink) = (TestServer::start(), sink());
    let mut redis = ReplyPending::at(&server).await;
    let mut offers = redis::pipe();
    for n in 0..ELEMENTS {
        let element = layout::pack(Layout::New, id(n), b"x");
        offers.cmd("ZADD").arg("redisson_delay_queue_timeout:{q}").arg(n + 1).arg(&element);
    }
    offers.exec_async(&mut redis.0).await.unwrap();
    let mut wide = spec(&[("s", sink.clone())]);
    wide.max_in_flight = MaxInFlight::Fixed(ELEMENTS as u32);
    // Nothing is answered before all have come, as at a broker: an element that is done at once hides who waits.
    sink.stall(true);
    let _bridge = Bridge::without_keeper(&server, 1, &[("s", sink.clone())], wide);
    eventually("all elements to reach the sink", async || sink.attempts().len() as u64 == ELEMENTS).await;
    let order: Vec<u64> = sink.attempts().iter().map(|message| u64::from_be_bytes(message.id.0)).collect();
    assert!(order.is_sorted(), "{} of {} out of place", order.windows(2).filter(|w| w[0] > w[1]).count(), order.len());
}

#[tokio::test]
async fn a_target_named_after_the_queue_is_mended_and_one_named_by_the_payload_is_the_elements_own() {
    let template = |text| crate::template::Template::compile(text).unwrap();
    let list = |key| -> Arc<dyn Target> {
        let (list, push) = (template(key), crate::link::Side::Right);
        Arc::new(crate::sink::redis::RedisTarget::List { list, push, exactly_once: false })
    };
    let exchange = |exchange, routing_key| -> Arc<dyn Target> {
        let (exchange, routing_key) = (template(exchange), template(routing_key));
        Arc::new(crate::sink::amqp::AmqpTarget { exchange, routing_key, properties: Vec::new() })
    };
    let rows = [
        (list("due-${queue}"), About::Target, true),
        (list("due-${payload}"), About::Target, false),
        (list("due-${payload}"), About::Sink, true),
        (exchange("due", "to"), About::Route, true),
        // Whatever the key, a missing exchange is for somebody to make.
        (exchange("due", "${payload}"), About::Target, true),
        (exchange("due", "${payload}"), About::Route, false),
        (exchange("${payload}", "to"), About::Target, false),
        (exchange("${payload}", "to"), About::Route, false),
        (exchange("${payload}", "${payload}"), About::Sink, true),
    ];
    for (target, about, held) in rows {
        let (server, sink) = (TestServer::start(), sink());
        let mut redis = ReplyPending::at(&server).await;
        sink.outage(Some(failure(Class::TargetPermanent, "WRONGTYPE").about(about)));
        let mut spec = spec(&[("s", sink.clone())]);
        spec.codec = Codec::String.into();
        spec.to[0].target = target;
        let bridge = Bridge::without_keeper(&server, 1, &[("s", sink.clone())], spec);
        redis.offer(0..1).await;
        bridge.queue.alarm.ring(crate::telemetry::labels::Wakeup::Published);
        match held {
            true => bridge.metric_is(HELD, 1.0).await,
            false => eventually("the dead letter", async || redis.dead().await.len() == 1).await,
        }
        assert_eq!(redis.dead().await.len(), usize::from(!held));
    }
}
