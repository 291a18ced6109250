//! Dead letters that go on to a sink: they leave the stream when it has confirmed them, and not before.

use super::*;
use crate::pipeline::dead_letters::forwarder;
use crate::source::redisson::Forwarder;

/// A bridge whose sink `main` refuses everything for good and whose dead letters go on to `target`.
fn bridge(server: &TestServer, owner: u8, target: &Arc<FakeSink>) -> Bridge {
    let main = sink();
    main.outage(Some(failure(Class::MessagePermanent, "too_large")));
    let mut spec = spec(&[("main", main.clone())]);
    spec.dead_letter_to = Some(RouteSpec {
        sink: "target".into(),
        target: Arc::new(StdoutSpec),
        message: MessageSpec { headers: Vec::new(), envelope: Envelope::Raw },
    });
    let sinks = [("main", main), ("target", target.clone())];
    let bridge = Bridge::without_keeper(server, owner, &sinks, spec);
    bridge.runtime.as_ref().expect("it runs").spawn(forwarder::run(bridge.queue.clone()));
    bridge
}

fn header<'a>(message: &'a crate::sink::Outbound, name: &str) -> Option<&'a str> {
    message.headers.iter().find(|(header, _)| &**header == name).map(|(_, value)| value.as_str())
}

#[tokio::test]
async fn a_dead_letter_goes_on_with_its_cause_and_leaves_the_stream() {
    let server = TestServer::start();
    let mut redis = ReplyPending::at(&server).await;
    let target = sink();
    let bridge = bridge(&server, 1, &target);
    bridge.offer(0..3).await;
    bridge.metric_is("delaybridge_dead_letters_forwarded_total{class=\"ok\",queue=\"q\",sink=\"target\"}", 3.0).await;
    eventually("the stream to be empty", async || redis.dead().await.is_empty()).await;
    let taken = target.taken();
    assert_eq!(times(&target, 0..3), [1, 1, 1]);
    for message in &taken {
        let number = u64::from_be_bytes(message.id.0);
        assert_eq!(message.body, format!("payload {number}"));
        assert_eq!(message.attempt, 1);
        assert!(message.due_ms.is_some());
        assert_eq!(header(message, "delaybridge-dead-reason"), Some("message_permanent"));
        assert_eq!(header(message, "delaybridge-dead-code"), Some("too_large"));
        assert_eq!(header(message, "delaybridge-dead-sink"), Some("main"));
        assert_eq!(header(message, "delaybridge-dead-message"), Some("deliver: told to fail"));
    }
}

#[tokio::test]
async fn it_stays_until_the_sink_has_confirmed_it() {
    let server = TestServer::start();
    let mut redis = ReplyPending::at(&server).await;
    let target = sink();
    target.outage(Some(failure(Class::Transient, "unreachable")));
    let bridge = bridge(&server, 1, &target);
    bridge.offer(0..3).await;
    eventually("the sink to be asked", async || !target.attempts().is_empty()).await;
    eventually("all letters to be there", async || redis.dead().await.len() == 3).await;
    // The process dies; the next one finds the letters.
    drop(bridge);
    assert_eq!(redis.dead().await.len(), 3);
    target.outage(None);
    let second = self::bridge(&server, 2, &target);
    // The lease of the one that died would keep this test waiting.
    let () = redis::cmd("DEL").arg("delaybridge:state:{q}").query_async(&mut redis.0).await.unwrap();
    second.queue.dead_letters.notify_one();
    eventually("the stream to be empty", async || redis.dead().await.is_empty()).await;
    let mut ids: Vec<MessageId> = target.taken().iter().map(|message| message.id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 3);
}

#[tokio::test]
async fn what_the_sink_refuses_for_good_stays_and_holds_up_nobody() {
    let server = TestServer::start();
    let mut redis = ReplyPending::at(&server).await;
    let target = sink();
    target.on_id(id(1), [Step::Fail(failure(Class::MessagePermanent, "too_large"))]);
    let bridge = bridge(&server, 1, &target);
    bridge.offer(0..3).await;
    eventually("all to be tried, and the neighbours to have left", async || {
        times(&target, 0..3) == [1, 1, 1] && redis.dead().await.len() == 1
    })
    .await;
    assert_eq!(redis.dead().await[0]["id"], id(1).to_string().into_bytes());
    bridge.offer(3..4).await;
    eventually("a later one to go on", async || times(&target, 3..4) == [1]).await;
    assert_eq!(times(&target, 1..2), [1], "it is not tried again and again");
}

#[tokio::test]
async fn another_daemon_leaves_the_letters_to_the_one_that_has_the_lease() {
    let server = TestServer::start();
    let target = sink();
    let bridge = bridge(&server, 1, &target);
    let conn = soon("a connection", bridge.link.ready()).await;
    let other = crate::source::redisson::Redisson::new("q", [9; 8], true, true, ListCleanup::Auto);
    let minute = Duration::from_secs(60);
    assert_eq!(other.forwarded(&conn, minute, &[]).await.unwrap(), Forwarder::Own);
    assert_eq!(other.forwarded(&conn, minute, &[]).await.unwrap(), Forwarder::Own, "sent twice it is the same");
    assert_eq!(bridge.source.forwarded(&conn, minute, &[]).await.unwrap(), Forwarder::Another);
    bridge.offer(0..1).await;
    bridge.metric_is("delaybridge_dead_lettered_messages_total{queue=\"q\",reason=\"message_permanent\"}", 1.0).await;
    assert_eq!(other.forwarded(&conn, Duration::ZERO, &[]).await.unwrap(), Forwarder::Own);
    bridge.queue.dead_letters.notify_one();
    eventually("it to go on once the lease is given back", async || target.taken().len() == 1).await;
}

#[tokio::test]
async fn a_letter_of_another_program_does_not_keep_the_sink_closed() {
    let server = TestServer::start();
    let mut redis = ReplyPending::at(&server).await;
    let target = sink();
    target.outage(Some(failure(Class::Transient, "unreachable")));
    // The oldest, so that it is the one that would ask whether the sink works again.
    let () = redis::cmd("XADD")
        .arg(&["delaybridge:dead:{q}", "1-1", "what", "nobody knows"])
        .query_async(&mut redis.0)
        .await
        .unwrap();
    let bridge = bridge(&server, 1, &target);
    bridge.offer(0..5).await;
    bridge.metric_is("delaybridge_sink_up{sink=\"target\"}", 0.0).await;
    target.outage(None);
    bridge.metric_is("delaybridge_sink_up{sink=\"target\"}", 1.0).await;
    eventually("all but the foreign one to go on", async || redis.dead().await.len() == 1).await;
    assert_eq!(bridge.metric("delaybridge_possible_duplicates_total{queue=\"q\"}"), 0.0);
}

#[tokio::test]
async fn a_letter_that_fails_does_not_stand_in_the_way_of_those_behind_it() {
    let server = TestServer::start();
    let mut redis = ReplyPending::at(&server).await;
    let target = sink();
    target.on_id(id(0), vec![Step::Fail(failure(Class::Unknown, "odd")); 50]);
    let bridge = bridge(&server, 1, &target);
    bridge.offer(0..20).await;
    eventually("the others to go on", async || redis.dead().await.len() == 1).await;
    assert_eq!(redis.dead().await[0]["id"], id(0).to_string().into_bytes());
}

#[tokio::test]
async fn what_a_daemon_that_died_had_at_the_sink_is_announced() {
    let server = TestServer::start();
    let mut redis = ReplyPending::at(&server).await;
    let target = sink();
    target.stall(true);
    let first = bridge(&server, 1, &target);
    first.offer(0..1).await;
    eventually("the letter to be at the sink", async || target.attempts().len() == 1).await;
    drop(first);
    redis.until_alone().await;
    target.stall(false);
    // As if the time of its lease had passed.
    let state =
        redis::cmd("HSET").arg(&["delaybridge:state:{q}", "forwards_until", "1"]).exec_async(&mut redis.0).await;
    state.unwrap();
    let second = bridge(&server, 2, &target);
    second.metric_is("delaybridge_dead_letters_forwarded_total{class=\"ok\",queue=\"q\",sink=\"target\"}", 1.0).await;
    second.metric_is("delaybridge_possible_duplicates_total{queue=\"q\"}", 1.0).await;
}
