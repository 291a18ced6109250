//! The view of a Redisson client on delivered elements.

use redis::AsyncCommands;

use super::rig::{PATIENCE, all_in_list, assert_complete, elements, metric, settled, tolerate_stalls};
use harness::redisson::redis_now_ms;
use harness::{Daemon, Oracle, RedisServer, RedissonQueue, eventually};

/// Number of elements due in an hour, which `contains` must search, and which no sweep may take.
const PENDING: usize = 2_000;

async fn delivered_elements_disappear(cleanup: &str, n: usize) {
    let server = RedisServer::start().await;
    let queue = RedissonQueue::new("swept");
    let mut redis = server.client().await;
    let mut daemon = Daemon::start(&format!(
        "redis: {{ url: '{}' }}\nsinks: {{ out: {{ redis: {{ list: arrived, timeout: 10s }} }} }}\nqueues:\n  q:\n\
         \x20   source: {{ redisson: {{ name: swept, ghost_max_age: 1s, list_cleanup: {cleanup} }} }}\n\
         \x20   lease: 20s\n    to: [{{ sink: out }}]\n",
        server.url()
    ))
    .await;
    tolerate_stalls(&mut daemon);
    let now = redis_now_ms(&mut redis).await;
    let pending = elements(&queue, "pending", PENDING, now + 3_600_000, 3_600_000);
    let due = elements(&queue, "due", n, now + 1_000, 6_000);
    let mut all: Vec<_> = pending.iter().chain(&due).cloned().collect();
    fastrand::shuffle(&mut all);
    let mut oracle = Oracle::new();
    oracle.offered(&due);
    queue.offer_bulk(&mut redis, &all).await;

    let ghosts = queue.bridge_key("ghosts");
    let turn = queue.bridge_key("ghosts-turn");
    let mut most = 0;
    eventually("the deliveries", PATIENCE, async || {
        let now: usize = redis.scard(&ghosts).await.unwrap();
        let before: usize = redis.scard(&turn).await.unwrap();
        most = most.max(now + before);
        match redis.llen::<_, usize>("arrived").await {
            Ok(length) if length >= n => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let drained = std::time::Instant::now();
    let deliveries = all_in_list(&mut redis, "arrived", &oracle).await;
    assert_complete(&oracle.judge_payloads(&deliveries), &[&daemon]).await;
    settled(&mut redis, &queue).await;
    eventually("no ghost to be left", PATIENCE, async || match redis.llen::<_, usize>(&queue.list).await {
        Ok(PENDING) => Ok(()),
        other => Err(format!("{other:?} entries in the list")),
    })
    .await;
    println!("list_cleanup {cleanup}: {most} ghosts at most, none {:?} after the last delivery", drained.elapsed());
    assert!(cleanup != "exact" || most == 0, "{most} ghosts with list_cleanup: exact");
    assert_eq!(redis.scard::<_, usize>(&ghosts).await.unwrap(), 0);
    eventually("the turn to end", PATIENCE, async || match redis.scard::<_, usize>(&turn).await {
        Ok(0) => Ok(()),
        other => Err(format!("{other:?} of the turn")),
    })
    .await;
    for element in due.iter().step_by(n / 10) {
        assert!(!queue.contains(&mut redis, &element.payload).await.unwrap(), "a delivered element shows");
    }
    for element in pending.iter().step_by(PENDING / 10) {
        assert!(queue.contains(&mut redis, &element.payload).await.unwrap(), "a scheduled element is gone");
    }
    metric(&daemon, "delaybridge_redisson_ghosts", |ghosts| ghosts == 0.0).await;
    assert_eq!(daemon.metric("delaybridge_redisson_orphans").await, 0.0);
}

#[tokio::test]
async fn delivered_elements_disappear_from_the_list_within_a_few_sweeps() {
    delivered_elements_disappear("auto", 20_000).await;
}

#[tokio::test]
async fn exact_cleanup_never_leaves_a_ghost() {
    delivered_elements_disappear("exact", 5_000).await;
}
