//! Due times that overflow: `offer(value, Long.MAX_VALUE, ...)` of real clients is scheduled 292 million years ago.

use serde_json::json;

use super::*;
use harness::{Daemon, JavaClient};

const CODEC: &str = "StringCodec";

/// A server with an element whose due time overflowed, and one behind it.
async fn offered(version: &'static str) -> (RedisServer, MultiplexedConnection, String) {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let java = JavaClient::connect(version, &server.url()).await;
    let queue = java.queue("q", CODEC);
    queue.offer(&json!("overflow"), Duration::from_millis(i64::MAX.unsigned_abs())).await;
    queue.offer(&json!("after"), LATER).await;
    queue.destroy().await;
    let found: Vec<(Vec<u8>, f64)> =
        redis.zrange_withscores("redisson_delay_queue_timeout:{q}", 0, -1).await.expect("read the sorted set");
    let [(first, score), (second, _)] = &found[..] else { panic!("{found:?}") };
    assert!(*score < -9.2e18, "{score}");
    let _: () = redis.zadd("redisson_delay_queue_timeout:{q}", &second[..], 1).await.expect("make it due");
    let id = hex::encode(&first[1..9]);
    (server, redis, id)
}

async fn arrived(redis: &mut MultiplexedConnection, expected: &[&str]) {
    eventually("what is delivered", PATIENCE, async || {
        let arrived = read_stream(redis, "out").await;
        let mut arrived: Vec<_> =
            arrived.iter().map(|one| String::from_utf8_lossy(&one.payload).into_owned()).collect();
        arrived.sort();
        if arrived == expected { Ok(()) } else { Err(format!("{arrived:?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_element_whose_due_time_overflowed_is_held_and_hides_nothing() {
    let (server, mut redis, id) = offered("4.7.0").await;
    let mut daemon = Daemon::start(&yaml(&server, "")).await;
    daemon.expect_log("due time is absurd");
    arrived(&mut redis, &["after"]).await;
    let config = config(&server);
    eventually("the element to be shown", PATIENCE, async || {
        let shown = ask(&config, &["queues"]);
        let q = &shown["queues"][0];
        match (q["absurd_due"].as_u64(), q["retry"].as_u64(), q["scheduled"].as_u64()) {
            (Some(1), Some(1), Some(0)) => Ok(()),
            _ => Err(shown.to_string()),
        }
    })
    .await;
    assert_eq!(daemon.metric("delaybridge_dead_lettered_messages_total").await, 0.0);
    // A person decides.
    ask(&config, &["run-now", "q", &id]);
    arrived(&mut redis, &["after", "overflow"]).await;
    assert_eq!(daemon.stop().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_element_whose_due_time_overflowed_is_delivered_or_a_dead_letter_by_rule() {
    let (server, mut redis, _) = offered("3.16.8").await;
    let mut daemon = Daemon::start(&yaml(&server, "on_absurd_due: dead_letter,")).await;
    daemon.expect_log("due time is absurd");
    daemon.expect_log("dead letter stored");
    arrived(&mut redis, &["after"]).await;
    let letters = ask(&config(&server), &["dead", "ls", "q"]);
    assert_eq!(letters["total"], 1, "{letters}");
    assert_eq!(letters["dead_letters"][0]["reason"], "absurd_due", "{letters}");
    assert_eq!(daemon.stop().await, 0);

    let (server, mut redis, _) = offered("4.7.0").await;
    let mut daemon = Daemon::start(&yaml(&server, "on_absurd_due: deliver,")).await;
    arrived(&mut redis, &["after", "overflow"]).await;
    assert_eq!(daemon.stop().await, 0);
}
