//! Elements that end in other ways than by an answer: the lease is lost, the process stops.

use super::*;
use crate::clock::Instant;
use crate::source::redisson::{ClaimReply, ClaimRequest, Hints, Redisson};

#[tokio::test]
async fn a_verdict_on_an_element_that_somebody_took_over_is_refused_and_counted() {
    let (server, sink) = (TestServer::start(), sink());
    let mut redis = ReplyPending::at(&server).await;
    let sinks = [("s", sink.clone())];
    // Shorter than the sink takes, and nobody keeps it.
    let spec = QueueSpec { lease: Duration::from_secs(1), ..spec(&sinks) };
    let bridge = Bridge::without_keeper(&server, 1, &sinks, spec);
    sink.stall(true);
    bridge.offer([1]).await;
    eventually("the sink to be asked", async || sink.attempts().len() == 1).await;

    let other = Redisson::new("q", [2; 8], true, true, ListCleanup::Auto);
    let conn = soon("a connection", bridge.link.ready()).await;
    let request = ClaimRequest {
        number: 1,
        not_after_ms: i64::MAX / 2,
        lease: Duration::from_secs(60),
        ahead: Duration::ZERO,
        most: 10,
        bytes: 1 << 20,
        alone: false,
        rotation: 1,
        hints: Hints::default(),
    };
    eventually("another owner to take over", async || {
        matches!(other.claim(&conn, &request).await, Ok(ClaimReply::Claimed(claimed)) if claimed.entries.len() == 1)
    })
    .await;
    let taken_over = redis.entries("inflight").await.remove(0).member;
    sink.stall(false);
    bridge.metric_is("delaybridge_stale_acks_total{queue=\"q\"}", 1.0).await;
    assert_eq!(redis.entries("inflight").await.remove(0).member, taken_over, "the other's claim was touched");
    assert_eq!(bridge.metric("delaybridge_delivered_messages_total{queue=\"q\"}"), 0.0);
    assert!(bridge.queue.leases.is_empty(), "it is not kept here");
}

#[tokio::test]
async fn what_is_unanswered_at_the_end_of_the_drain_is_released_uncounted_and_announced() {
    let (server, sink) = (TestServer::start(), sink());
    let mut redis = ReplyPending::at(&server).await;
    let bridge = Bridge::start(&server, 1, &[("s", sink.clone())]);
    sink.stall(true);
    bridge.offer(0..10).await;
    eventually("the sink to be asked", async || sink.attempts().len() == 10).await;
    bridge.process.stopping.cancel();
    bridge.offer(10..15).await;
    bridge.process.abandon.cancel();
    bridge.process.tasks.close();
    soon("the drain", bridge.process.tasks.wait()).await;

    assert_eq!(redis.count("inflight").await, 0);
    let released = redis.entries("retry").await;
    assert_eq!(released.len(), 10, "what was offered after the stop is nobody's");
    assert!(released.iter().all(|entry| entry.header.attempts == 0 && entry.header.expiries == 0));
    assert_eq!(bridge.metric("delaybridge_released_messages_total{queue=\"q\",reason=\"shutdown\"}"), 10.0);
    assert_eq!(bridge.metric("delaybridge_possible_duplicates_total{queue=\"q\"}"), 10.0);
    drop(bridge);

    sink.stall(false);
    let _next = Bridge::start(&server, 2, &[("s", sink.clone())]);
    redis.until_empty().await;
    let mut taken: Vec<MessageId> = sink.taken().iter().map(|message| message.id).collect();
    taken.sort();
    assert_eq!(taken, (0..15).map(id).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_verdict_that_comes_after_the_lease_is_accepted_and_counted() {
    let server = TestServer::start();
    let mut redis = ReplyPending::at(&server).await;
    let sink = sink();
    sink.stall(true);
    redis.offer(0..3).await;
    let short = QueueSpec { lease: Duration::from_secs(5), ..spec(&[("s", sink.clone())]) };
    let bridge = Bridge::without_keeper(&server, 1, &[("s", sink.clone())], short);
    eventually("the sink to be asked", async || sink.attempts().len() == 3).await;
    eventually("the leases to be over", async || {
        let (seconds, _): (u64, u64) = redis::cmd("TIME").query_async(&mut redis.0).await.unwrap();
        let mut over = redis::cmd("ZCOUNT");
        over.arg("delaybridge:inflight:{q}").arg("-inf").arg(seconds * 1000);
        over.query_async::<u64>(&mut redis.0).await.unwrap() == 3
    })
    .await;
    sink.stall(false);
    redis.until_empty().await;
    bridge.metric_is("delaybridge_delivered_messages_total{queue=\"q\"}", 3.0).await;
    bridge.metric_is("delaybridge_late_acks_total{queue=\"q\"}", 3.0).await;
}

#[tokio::test]
async fn a_claimer_that_waits_is_alive_and_one_whose_claim_does_not_come_back_is_not() {
    let (server, sink) = (TestServer::start(), sink());
    let sinks = [("s", sink.clone())];
    let bridge = Bridge::without_keeper(&server, 1, &sinks, spec(&sinks));
    bridge.offer([1]).await;
    bridge.metric_is("delaybridge_delivered_messages_total{queue=\"q\"}", 1.0).await;
    let in_an_hour = || bridge.process.events.status().live_at(Instant::now().after(Duration::from_secs(3600)));
    eventually("the claimer to wait for work", async || in_an_hour().ok).await;

    server.freeze();
    bridge.queue.alarm.ring(crate::telemetry::labels::Wakeup::Poll);
    eventually("the claimer to wait for its claim", async || !in_an_hour().ok).await;
    assert_eq!(in_an_hour().body["stuck"][0]["task"], "claimer");
    eventually("the claimer to wait for Redis", async || in_an_hour().ok).await;
    server.thaw();
}

#[tokio::test]
async fn a_sink_may_begin_to_send_until_a_fifth_of_the_lease_is_left() {
    let (server, sink) = (TestServer::start(), sink());
    let lease = Duration::from_secs(50);
    let sinks = [("s", sink.clone())];
    let bridge = Bridge::without_keeper(&server, 1, &sinks, QueueSpec { lease, ..spec(&sinks) });
    let before = Instant::now();
    bridge.offer([1]).await;
    eventually("the sink to be asked", async || sink.attempts().len() == 1).await;
    let usable = Duration::from_secs(40);
    let send_before = sink.attempts()[0].send_before;
    assert!(send_before >= before.after(usable), "{:?}", send_before.since(before));
    assert!(send_before <= Instant::now().after(usable), "{:?}", send_before.since(before));
}
