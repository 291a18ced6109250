//! Elements that are claimed before they are due: held, never early, and given back untouched.

use super::*;

const LEASE: Duration = Duration::from_secs(60);

fn ahead(sinks: &[(&str, Arc<FakeSink>)]) -> QueueSpec {
    QueueSpec { claim_ahead: LEASE / 2, lease: LEASE, ..spec(sinks) }
}

impl Bridge {
    /// Offers elements with these ids that fall due after `delay`.
    async fn offer_in(&self, delay: Duration, ids: impl IntoIterator<Item = u64>) {
        let conn = soon("a connection", self.producer.ready()).await;
        for n in ids {
            let element = layout::pack(Layout::New, id(n), b"later");
            self.source.offer(&conn, element.into(), delay).await.unwrap();
        }
        self.queue.alarm.ring(crate::telemetry::labels::Wakeup::Published);
    }
}

#[tokio::test]
async fn it_is_held_until_it_is_due() {
    let (server, sink) = (TestServer::start(), sink());
    let mut redis = ReplyPending::at(&server).await;
    let sinks = [("s", sink.clone())];
    let bridge = Bridge::start_with(&server, 1, &sinks, ahead(&sinks));
    bridge.offer_in(Duration::from_secs(3), 0..50).await;
    eventually("all to be claimed", async || redis.count("inflight").await == 50).await;
    assert!(sink.attempts().is_empty(), "claimed, not sent");
    redis.until_empty().await;
    let taken = sink.taken();
    assert_eq!(taken.len(), 50);
    assert!(taken.iter().all(|message| message.now_ms > message.due_ms.unwrap()), "sent early");
    assert_eq!(bridge.metric("delaybridge_possible_duplicates_total{queue=\"q\"}"), 0.0);
}

#[tokio::test]
async fn a_stop_gives_it_back_for_its_due_time() {
    let (server, sink) = (TestServer::start(), sink());
    let mut redis = ReplyPending::at(&server).await;
    let sinks = [("s", sink.clone())];
    let bridge = Bridge::start_with(&server, 1, &sinks, ahead(&sinks));
    bridge.offer_in(Duration::from_secs(20), 0..50).await;
    eventually("all to be held", async || bridge.queue.leases.len() == 50).await;
    bridge.process.stopping.cancel();
    bridge.process.tasks.close();
    soon("the drain", bridge.process.tasks.wait()).await;

    let released = redis.entries("retry").await;
    assert_eq!(released.len(), 50);
    assert!(released.iter().all(|entry| entry.header.attempts == 0 && entry.header.expiries == 0));
    let scores: Vec<(Vec<u8>, i64)> = redis::cmd("ZRANGE")
        .arg("delaybridge:retry:{q}")
        .arg(0)
        .arg(-1)
        .arg("WITHSCORES")
        .query_async(&mut redis.0)
        .await
        .unwrap();
    let due: Vec<Option<i64>> = released.iter().map(|entry| entry.header.due_ms()).collect();
    assert_eq!(scores.into_iter().map(|(_, score)| Some(score)).collect::<Vec<_>>(), due);
    assert!(sink.attempts().is_empty());
    assert_eq!(bridge.metric("delaybridge_released_messages_total{queue=\"q\",reason=\"shutdown\"}"), 50.0);
    assert_eq!(bridge.metric("delaybridge_possible_duplicates_total{queue=\"q\"}"), 0.0);
}

#[tokio::test]
async fn while_the_queue_is_held_it_is_given_back_unsent() {
    let (server, sink) = (TestServer::start(), sink());
    let mut redis = ReplyPending::at(&server).await;
    let sinks = [("s", sink.clone())];
    let bridge = Bridge::start_with(&server, 1, &sinks, ahead(&sinks));
    sink.outage(Some(failure(Class::TargetPermanent, "NOPERM")));
    bridge.offer_in(Duration::from_secs(3), 0..50).await;
    eventually("all to be claimed", async || redis.count("inflight").await == 50).await;
    bridge.offer([100]).await;
    eventually("the hold", async || bridge.queue.hold().why().is_some()).await;
    eventually("all to be given back", async || redis.count("retry").await >= 50).await;
    assert!(sink.attempts().len() <= 10, "{} sent into the hold: more than its probes", sink.attempts().len());
    sink.outage(None);
    redis.until_empty().await;
    assert_eq!(sink.taken().len(), 51);
}
