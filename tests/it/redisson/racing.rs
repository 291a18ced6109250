//! Live clients, each with a transfer task, in competition with the daemon for every element.

use futures_util::future::join_all;
use serde_json::json;

use super::*;
use crate::faults::rig::{assert_complete, settled, tolerate_stalls};
use harness::turn::heavy;
use harness::{Daemon, JavaClient, Oracle};

/// Versions with the same layout, as a fleet can have.
const VERSIONS: [&str; 3] = ["3.21.1", "3.45.1", "4.7.0"];
const CODEC: &str = "StringCodec";

pub(super) async fn clients(server: &RedisServer, count: usize) -> Vec<JavaClient> {
    let url = server.url();
    join_all((0..count).map(|n| JavaClient::connect(VERSIONS[n % VERSIONS.len()], &url))).await
}

/// Offers these payloads through all clients concurrently, due at random times within `spread`.
pub(super) async fn offer_through(clients: &[JavaClient], payloads: &[Vec<u8>], spread: Duration) {
    let share = payloads.len().div_ceil(clients.len());
    let offers = clients.iter().zip(payloads.chunks(share)).map(async |(client, payloads)| {
        let elements: Vec<_> = payloads
            .iter()
            .map(|payload| (json!(String::from_utf8_lossy(payload)), spread.mul_f64(fastrand::f64())))
            .collect();
        client.queue("q", CODEC).offer_all(&elements).await;
    });
    join_all(offers).await;
}

/// Payloads that distinguish elements.
pub(super) fn payloads(name: &str, count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|n| format!("{name} {n}").into_bytes()).collect()
}

async fn raced_by(live: usize) {
    let _turn = heavy().await;
    let server = RedisServer::start().await;
    let queue = RedissonQueue::new("q");
    let mut redis = server.client().await;
    let clients = clients(&server, live).await;
    // Exact, so that no ghost makes a `remove` succeed for a delivered element.
    let mut daemon = Daemon::start(&yaml(&server, "").replace("name: q }", "name: q, list_cleanup: exact }")).await;
    tolerate_stalls(&mut daemon);

    let kept = payloads("kept", 1_000);
    let cancelled = payloads("cancelled", 60);
    let spread = Duration::from_secs(3);
    let removals = async {
        offer_through(&clients, &cancelled, spread).await;
        let removals = cancelled.iter().enumerate().map(async |(n, payload)| {
            let seen = clients[n % clients.len()].queue("q", CODEC);
            seen.remove(&json!(String::from_utf8_lossy(payload))).await
        });
        join_all(removals).await
    };
    let (removed, ()) = tokio::join!(removals, offer_through(&clients, &kept, spread));

    // An element whose `remove` succeeded in Java never arrives; one whose `remove` failed does.
    let mut oracle = Oracle::new();
    oracle.pushed_ready(&kept);
    oracle.pushed_ready(cancelled.iter().zip(&removed).filter(|(_, removed)| !**removed).map(|(payload, _)| payload));
    eventually("everything to arrive", PATIENCE, async || {
        oracle.judge_payloads(&read_stream(&mut redis, "out").await).complete()
    })
    .await;
    settled(&mut redis, &queue).await;
    let report = oracle.judge_payloads(&read_stream(&mut redis, "out").await);
    assert_complete(&report, &[&daemon]).await;
    let left: (usize, usize, usize) = redis::pipe()
        .zcard(&queue.timeouts)
        .llen(&queue.list)
        .llen(&queue.name)
        .query_async(&mut redis)
        .await
        .expect("count what is left");
    assert_eq!(left, (0, 0, 0), "sorted set, list, ready list");

    let metrics = daemon.metrics().await;
    let claimed = |from| metrics.sum(&format!("delaybridge_claimed_messages_total{{queue=\"q\",from=\"{from}\"}}"));
    let delayed = claimed("delayed");
    let ready = claimed("ready");
    println!("{live} live clients: {report}; claimed {delayed} due, {ready} from the ready list");
    assert_eq!(delayed + ready, oracle.count() as f64, "each was claimed once, from one of the two");
    assert!(removed.iter().any(|removed| *removed), "nothing was cancelled: the test shows nothing");
    assert_eq!(daemon.stop().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_live_client_gets_every_element_delivered_exactly_once() {
    raced_by(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn three_live_clients_get_every_element_delivered_exactly_once() {
    raced_by(3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_live_clients_get_every_element_delivered_exactly_once() {
    raced_by(10).await;
}

/// The tee: Java continues to read the ready list, and no client's transfer may get there first.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_claimed_ahead_is_not_there_for_live_clients_and_not_early() {
    let turn = heavy().await;
    let server = RedisServer::start().await;
    let queue = RedissonQueue::new("q");
    let mut redis = server.client().await;
    let clients = clients(&server, 3).await;
    let left_to_java =
        yaml(&server, "claim_ahead: 10s,").replace("name: q }", "name: q, list_cleanup: exact, consume: [delayed] }");
    let mut daemon = Daemon::start(&left_to_java).await;
    tolerate_stalls(&mut daemon);

    let payloads = payloads("ahead", 500);
    let shortest = Duration::from_secs(20);
    let spread = Duration::from_secs(5);
    let offers = clients.iter().zip(payloads.chunks(payloads.len().div_ceil(clients.len())));
    join_all(offers.map(async |(client, payloads)| {
        let delay = || shortest + spread.mul_f64(fastrand::f64());
        let elements: Vec<_> =
            payloads.iter().map(|payload| (json!(String::from_utf8_lossy(payload)), delay())).collect();
        client.queue("q", CODEC).offer_all(&elements).await;
    }))
    .await;
    eventually("all to be held", PATIENCE, async || match queue.in_flight(&redis).await {
        Ok(500_usize) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    // Only the due times are waited for.
    drop(turn);
    let seen = clients[0].queue("q", CODEC);
    assert!(!seen.remove(&json!("ahead 7")).await, "the price: too late to cancel");

    arrived(&mut redis, payloads.len()).await;
    settled(&mut redis, &queue).await;
    let entries: redis::streams::StreamRangeReply = redis.xrange_all("out").await.expect("read the stream");
    for entry in &entries.ids {
        // An entry's id begins with the time at which Redis added it.
        let took: i64 = entry.id.split('-').next().and_then(|ms| ms.parse().ok()).expect("an id");
        let due: i64 = entry.get("due_ms").expect("a due time");
        assert!(took >= due, "{} ms early", due - took);
    }
    assert_eq!(entries.ids.len(), payloads.len(), "each exactly once");
    let transferred: usize = redis.llen(&queue.name).await.expect("look at the ready list");
    assert_eq!(transferred, 0, "a client's transfer was faster");
    assert_eq!(daemon.stop().await, 0);
}
