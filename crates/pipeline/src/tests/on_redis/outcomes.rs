//! One test each of what the scripts, the stream and the connection of a real Redis have a part in.

use super::*;
use crate::dead_letters::forwarder;
use delaybridge_ledger::claims::{TakeOverReply, TakeOverRequest};
use delaybridge_source::SourceConfig;
use delaybridge_source::job_pool::{JobPoolSpec, PRESETS};

#[tokio::test]
async fn a_message_that_can_never_be_taken_is_a_dead_letter_at_once_with_all_that_is_known() {
    let server = TestServer::start();
    let sink = sink();
    let mut redis = RedisView::at(&server).await;
    sink.on_id(id(3), [Step::Fail(failure(Class::MessagePermanent, "too_large"))]);
    let bridge = Bridge::without_keeper(&server, 1, &[("s", sink.clone())], spec(&[("s", sink.clone())]));
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
        ("message", "deliver: scripted failure"),
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
async fn elements_reach_the_sink_in_the_order_of_their_claims() {
    const ELEMENTS: u64 = 1_000;
    let server = TestServer::start();
    let sink = sink();
    let mut redis = RedisView::at(&server).await;
    let mut offers = redis::pipe();
    for n in 0..ELEMENTS {
        let element = layout::pack(Layout::New, id(n), b"x");
        offers.cmd("ZADD").arg("redisson_delay_queue_timeout:{q}").arg(n + 1).arg(&element);
    }
    offers.exec_async(&mut redis.0).await.unwrap();
    let mut wide = spec(&[("s", sink.clone())]);
    wide.max_in_flight = MaxInFlight::Fixed(ELEMENTS as u32);
    // Nothing is answered before all have come, as at a broker: an element that is done at once hides the waiting ones.
    sink.stall(true);
    let _bridge = Bridge::without_keeper(&server, 1, &[("s", sink.clone())], wide);
    eventually("all elements to reach the sink", async || sink.attempts().len() as u64 == ELEMENTS).await;
    let order: Vec<u64> = sink.attempts().iter().map(|message| u64::from_be_bytes(message.id.id.0)).collect();
    assert!(order.is_sorted(), "{} of {} out of place", order.windows(2).filter(|w| w[0] > w[1]).count(), order.len());
}

#[tokio::test]
async fn a_verdict_on_an_element_that_was_taken_over_is_refused_and_counted() {
    let server = TestServer::start();
    let sink = sink();
    let sinks = [("s", sink.clone())];
    // Shorter than the sink takes, and nothing extends it.
    let spec = QueueSpec { lease: Duration::from_secs(1), ..spec(&sinks) };
    let bridge = Bridge::without_keeper(&server, 1, &sinks, spec);
    sink.stall(true);
    bridge.offer([1]).await;
    eventually("the sink to be asked", async || sink.attempts().len() == 1).await;

    let other = Redisson::new("q", [2; 8], true, true, ListCleanup::Auto);
    let conn = soon("a connection", bridge.link.ready()).await;
    let (leases, _) = other.claims().expired(&conn, i64::MAX / 2, 10).await.unwrap();
    let [old] = leases[..] else { panic!("{leases:?}") };
    let request = TakeOverRequest {
        old,
        new: old.taken_over_by([2; 8], 1),
        not_after_ms: i64::MAX / 2,
        lease: Duration::from_secs(60),
        most: 10,
        bytes: 1 << 20,
        largest: 0,
    };
    eventually("another owner to take over", async || {
        let reply = other.claims().take_over(&conn, &request).await;
        matches!(reply, Ok(TakeOverReply::Taken { elements, left: 0, .. }) if elements.len() == 1)
    })
    .await;
    let taken_over = other.claims().contents(&conn, request.new).await.unwrap().elements;
    sink.stall(false);
    bridge.metric_is("delaybridge_stale_acks_total{queue=\"q\"}", 1.0).await;
    let left = other.claims().contents(&conn, request.new).await.unwrap().elements;
    assert_eq!(left, taken_over, "the other's claim was touched");
    assert_eq!(bridge.metric("delaybridge_delivered_messages_total{queue=\"q\"}"), 0.0);
    assert!(bridge.queue.leases.is_empty(), "it is not kept here");
}

/// A bridge: its sink `main` refuses everything permanently, and its dead letters are forwarded to `target`.
fn bridge(server: &TestServer, owner: u8, target: &Arc<FakeSink>) -> Bridge {
    let main = sink();
    main.outage(Some(failure(Class::MessagePermanent, "too_large")));
    let mut spec = spec(&[("main", main.clone())]);
    spec.dead_letter_to = Some(Box::new(route("target")));
    let sinks = [("main", main), ("target", target.clone())];
    let bridge = Bridge::without_keeper(server, owner, &sinks, spec);
    bridge.runtime.as_ref().expect("it runs").spawn(forwarder::run(bridge.queue.queue.clone()));
    bridge
}

fn header<'a>(message: &'a Outbound, name: &str) -> Option<&'a str> {
    message.headers.iter().find(|(header, _)| &**header == name).map(|(_, value)| value.as_str())
}

#[tokio::test]
async fn a_dead_letter_is_forwarded_with_its_cause_and_leaves_the_stream() {
    let server = TestServer::start();
    let mut redis = RedisView::at(&server).await;
    let target = sink();
    let bridge = bridge(&server, 1, &target);
    bridge.offer(0..3).await;
    bridge.metric_is("delaybridge_dead_letters_forwarded_total{class=\"ok\",queue=\"q\",sink=\"target\"}", 3.0).await;
    eventually("the stream to be empty", async || redis.dead().await.is_empty()).await;
    let taken = target.taken();
    assert_eq!(times(&target, 0..3), [1, 1, 1]);
    for message in &taken {
        let number = u64::from_be_bytes(message.id.id.0);
        assert_eq!(message.body, format!("payload {number}"));
        assert_eq!(message.attempt, 1);
        assert!(message.due_ms.is_some());
        assert_eq!(header(message, "delaybridge-dead-reason"), Some("message_permanent"));
        assert_eq!(header(message, "delaybridge-dead-code"), Some("too_large"));
        assert_eq!(header(message, "delaybridge-dead-sink"), Some("main"));
        assert_eq!(header(message, "delaybridge-dead-message"), Some("deliver: scripted failure"));
    }
}

#[tokio::test]
async fn a_letter_of_another_program_does_not_keep_the_sink_closed() {
    let server = TestServer::start();
    let mut redis = RedisView::at(&server).await;
    let target = sink();
    target.outage(Some(failure(Class::Transient, "unreachable")));
    // The oldest, so that it is the one that would ask whether the sink works again.
    let () = redis::cmd("XADD")
        .arg(&["delaybridge:dead:{q}", "1-1", "what", "unknown"])
        .query_async(&mut redis.0)
        .await
        .unwrap();
    let bridge = bridge(&server, 1, &target);
    bridge.offer(0..5).await;
    bridge.metric_is("delaybridge_sink_up{sink=\"target\"}", 0.0).await;
    target.outage(None);
    bridge.metric_is("delaybridge_sink_up{sink=\"target\"}", 1.0).await;
    eventually("all but the foreign one to be forwarded", async || redis.dead().await.len() == 1).await;
    assert_eq!(bridge.metric("delaybridge_possible_duplicates_total{queue=\"q\"}"), 0.0);
}

#[tokio::test]
async fn a_damaged_entry_becomes_a_dead_letter_with_its_bytes_wherever_it_is_met() {
    let server = TestServer::start();
    let sink = sink();
    let mut redis = RedisView::at(&server).await;
    let damaged = |n: u8| {
        let mut entry = delaybridge_ledger::claims::Header::new(5).encode();
        (entry[8], entry[12]) = (b'?', n);
        entry
    };
    // Two wait for another attempt, and one is in the claim of a process that is gone.
    let claim = "1.0909090909090909.7.0";
    for (key, member) in [
        ("delaybridge:retry:{q}".to_owned(), damaged(1)),
        ("delaybridge:retry:{q}".to_owned(), damaged(2)),
        (format!("delaybridge:claim:{claim}:h:{{q}}"), damaged(3)),
        ("delaybridge:leases:{q}".to_owned(), claim.into()),
    ] {
        let () = redis::cmd("ZADD").arg(key).arg(1).arg(member).query_async(&mut redis.0).await.unwrap();
    }
    let bridge = Bridge::without_keeper(&server, 1, &[("s", sink.clone())], spec(&[("s", sink.clone())]));
    bridge.offer(0..3).await;
    eventually("three dead letters", async || redis.dead().await.len() == 3).await;
    redis.until_empty().await;
    let letters = redis.dead().await;
    let mut elements: Vec<_> = letters.iter().map(|letter| letter["element"].clone()).collect();
    elements.sort();
    assert_eq!(elements, [damaged(1), damaged(2), damaged(3)]);
    assert!(letters.iter().all(|letter| letter["reason"] == b"junk"), "{letters:?}");
    eventually("the others to be delivered", async || times(&sink, 0..3) == [1, 1, 1]).await;
    assert_eq!(bridge.metric("delaybridge_unknown_entries{queue=\"q\"}"), 0.0);
}

/// An element in a claim of a process that is gone, behind so many names that this version cannot read.
async fn orphan_behind(redis: &mut RedisView, names: usize) {
    let claim = "1.0909090909090909.7.0";
    let mut plant = redis::pipe();
    for n in 0..names {
        // Of a newer version, of another program, and one that begins as ours do.
        let name = [format!("2.0909090909090909.{n}.0"), format!("other {n}"), format!("1.other.{n}")];
        plant.zadd("delaybridge:leases:{q}", &name[n % 3], n % 3).ignore();
    }
    plant.zadd("delaybridge:leases:{q}", claim, 10).ignore();
    plant
        .zadd(format!("delaybridge:claim:{claim}:d:{{q}}"), layout::pack(Layout::New, id(1), b"payload 1"), 5)
        .ignore();
    plant.exec_async(&mut redis.0).await.unwrap();
}

#[tokio::test]
async fn a_claim_behind_names_that_cannot_be_read_is_taken_up_and_they_are_counted() {
    for names in [8, 2_500] {
        let server = TestServer::start();
        let sink = sink();
        let mut redis = RedisView::at(&server).await;
        orphan_behind(&mut redis, names).await;
        let bridge = Bridge::without_keeper(&server, 1, &[("s", sink.clone())], spec(&[("s", sink.clone())]));
        eventually("the orphan to be delivered", async || times(&sink, 1..2) == [1]).await;
        bridge.metric_is("delaybridge_unknown_claims{queue=\"q\"}", names as f64).await;
        assert_eq!(bridge.metric("delaybridge_unknown_entries{queue=\"q\"}"), 0.0, "they are no entries");
        bridge.offer(2..5).await;
        eventually("new ones to be delivered", async || times(&sink, 2..5) == [1, 1, 1]).await;
        let left: usize = redis::cmd("ZCARD").arg("delaybridge:leases:{q}").query_async(&mut redis.0).await.unwrap();
        assert!(left >= names, "they are left alone");
    }
}

#[tokio::test]
async fn jobs_without_room_for_their_bodies_are_claimed_again_as_soon_as_they_are_back() {
    let server = TestServer::start();
    let sink = sink();
    let mut redis = server.admin().await;
    let mut jobs = redis::pipe();
    for n in 0..4 {
        let id = format!("job-{n}");
        jobs.set(format!("{{q}}:msg:{id}"), vec![b'x'; 600 << 10]).zadd("{q}:pending", id, 1);
    }
    jobs.exec_async(&mut redis).await.unwrap();
    let (_, _, fill) = PRESETS.into_iter().find(|preset| preset.0 == "hdt3213").expect("a preset");
    let pool = QueueSpec {
        source: Arc::new(SourceConfig::JobPool(Box::new(JobPoolSpec::of(fill("{q}"))))),
        max_in_flight_bytes: 1 << 20,
        ..spec(&[("s", sink.clone())])
    };
    // No poller looks at the queue here: nothing but its own alarm brings the claimer back to what had no room.
    let bridge = Bridge::without_keeper(&server, 1, &[("s", sink.clone())], pool);
    eventually("all jobs", async || sink.taken().len() == 4).await;
    bridge.metric_is(DELIVERED, 4.0).await;
}
