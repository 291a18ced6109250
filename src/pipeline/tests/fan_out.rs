//! Two sinks: what one has confirmed, it never sees again because of the other.

use super::*;

const ELEMENTS: u64 = 5;

/// The first process ends without a word while sink B is in trouble, the second one finishes.
async fn check(trouble: Option<Failure>) {
    let server = TestServer::start();
    let mut redis = ReplyPending::at(&server).await;
    let (a, b) = (sink(), sink());
    let stalls = trouble.is_none();
    b.outage(trouble.clone());
    b.stall(stalls);
    let sinks = [("a", a.clone()), ("b", b.clone())];
    redis.offer(0..ELEMENTS).await;
    let first = Bridge::start(&server, 1, &sinks);
    eventually("A to have everything", async || a.taken().len() as u64 == ELEMENTS).await;
    // B answered: the verdict says that A has confirmed. B is silent: after a second a progress does.
    eventually("it to be written that A has confirmed", async || {
        let entries = [redis.entries("inflight").await, redis.entries("retry").await].concat();
        entries.len() as u64 == ELEMENTS && entries.iter().all(|entry| entry.header.confirmed.len() == 1)
    })
    .await;
    let asked = b.attempts().len();
    if !stalls {
        eventually("B to be asked again", async || b.attempts().len() > asked).await;
    }
    drop(first);
    // A claim that it has sent and that Redis has not read yet would be leased to nobody for a minute.
    redis.until_alone().await;

    b.outage(None);
    b.stall(false);
    // What the first one had in flight would keep this test waiting for a minute.
    expire_leases(&mut redis).await;
    let second = Bridge::start(&server, 2, &sinks);
    redis.until_empty().await;
    assert_eq!(times(&a, 0..ELEMENTS), [1; 5], "A was asked again: {trouble:?}");
    let mut taken: Vec<MessageId> = b.taken().iter().map(|message| message.id).collect();
    taken.sort();
    taken.dedup();
    assert_eq!(taken.len() as u64, ELEMENTS);
    assert_eq!(redis.dead().await.len(), 0);
    second.metric_is("delaybridge_delivered_messages_total{queue=\"q\"}", ELEMENTS as f64).await;
}

/// As if the time of all leases had passed.
async fn expire_leases(redis: &mut ReplyPending) {
    for entry in redis.entries("inflight").await {
        let () = redis::cmd("ZADD")
            .arg("delaybridge:inflight:{q}")
            .arg("XX")
            .arg(1)
            .arg(&entry.member[..])
            .query_async(&mut redis.0)
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_sink_that_confirmed_is_not_asked_again_while_the_other_is_down() {
    check(Some(failure(Class::Transient, "down"))).await;
}

#[tokio::test]
async fn a_sink_that_confirmed_is_not_asked_again_while_the_queue_is_held_for_the_other() {
    check(Some(failure(Class::TargetPermanent, "NOPERM"))).await;
}

#[tokio::test]
async fn a_sink_that_confirmed_is_not_asked_again_while_the_other_is_full() {
    check(Some(failure(Class::Backpressure, "OOM"))).await;
}

#[tokio::test]
async fn a_sink_that_confirmed_is_not_asked_again_when_the_process_dies_while_the_other_is_silent() {
    check(None).await;
}
