//! Clocks that differ: the visible effects of a producer's clock behind Redis, and of this machine's clock.

use super::rig::{metric, tolerate_stalls};
use harness::redisson::redis_now_ms;
use harness::{Daemon, RedisServer, RedissonQueue};

#[tokio::test]
async fn a_producers_clock_that_is_behind_shows_with_a_lower_bound() {
    let server = RedisServer::start().await;
    let queue = RedissonQueue::new("q");
    let mut redis = server.client().await;
    // Offered before the daemon started: overdue because it was not delivered, which proves nothing about a clock.
    let now = redis_now_ms(&mut redis).await;
    queue.offer(&mut redis, now - 900_000, "waited").await;
    let mut daemon = Daemon::start(&format!(
        "redis: {{ url: '{}' }}\nsinks: {{ out: {{ redis: {{ list: arrived, timeout: 10s }} }} }}\n\
         queues: {{ q: {{ source: {{ redisson: {{ name: q }} }}, lease: 20s, to: [{{ sink: out }}] }} }}\n",
        server.url()
    ))
    .await;
    tolerate_stalls(&mut daemon);
    let delivered = "delaybridge_delivered_messages_total";
    metric(&daemon, delivered, |count| count == 1.0).await;
    let overdue = "delaybridge_offered_overdue_seconds";
    assert_eq!(daemon.metric(&format!("{overdue}_count")).await, 0.0);

    // A delay of a minute by a clock that is ten minutes behind.
    let now = redis_now_ms(&mut redis).await;
    queue.offer(&mut redis, now - 540_000, "behind").await;
    metric(&daemon, delivered, |count| count == 2.0).await;
    let metrics = daemon.metrics().await;
    assert_eq!(metrics.sum(&format!("{overdue}_count{{queue=\"q\"}}")), 1.0);
    let by = metrics.sum(&format!("{overdue}_sum{{queue=\"q\"}}"));
    // At most the real value, minus the time since the last look with nothing due.
    assert!((400.0..=541.0).contains(&by), "{by} s");
}

#[tokio::test]
async fn this_machine_agrees_with_a_redis_on_the_same_machine() {
    let server = RedisServer::start().await;
    let daemon = Daemon::start(&format!(
        "redis: {{ url: '{}' }}\nsinks: {{ out: {{ redis: {{ list: arrived }} }} }}\n\
         queues: {{ q: {{ source: {{ redisson: {{ name: q }} }}, to: [{{ sink: out }}] }} }}\n",
        server.url()
    ))
    .await;
    metric(&daemon, "delaybridge_redis_up", |up| up == 1.0).await;
    harness::eventually("the skew to be shown", super::rig::PATIENCE, async || {
        let metrics = daemon.metrics().await;
        let skew = metrics.sum("delaybridge_clock_skew_seconds");
        if metrics.has("delaybridge_clock_skew_seconds") && skew.abs() < 0.1 {
            Ok(())
        } else {
            Err(format!("{skew} s"))
        }
    })
    .await;
}
