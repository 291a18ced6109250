//! The HTTP endpoints answer whatever happens to the rest.

use std::time::{Duration, Instant};

use super::rig::{all_in_list, assert_complete, elements, metric, tolerate_stalls};
use harness::redisson::redis_now_ms;
use harness::{Daemon, Oracle, RedisServer, RedissonQueue, http};

fn config(server: &RedisServer) -> String {
    format!(
        "redis: {{ url: '{}', command_timeout: 1s }}\nsinks: {{ out: {{ redis: {{ list: arrived, timeout: 10s }} }} }}\n\
         queues: {{ q: {{ source: {{ redisson: {{ name: probed }} }}, lease: 20s, to: [{{ sink: out }}] }} }}\n",
        server.url()
    )
}

/// Requests every endpoint once; returns the longest response time.
async fn ask_all(daemon: &Daemon) -> Duration {
    let mut longest = Duration::ZERO;
    for path in ["/metrics", "/livez", "/readyz", "/startupz"] {
        let asked = Instant::now();
        // An orchestrator gives up after a second or two; the time is only printed, because a busy machine adds to it.
        let answer = http::get(daemon.http_port(), path, Duration::from_secs(10)).await;
        let answer = answer.unwrap_or_else(|e| panic!("{e}"));
        assert!([200, 503].contains(&answer.status) && !answer.body.is_empty(), "{path}: {answer:?}");
        longest = longest.max(asked.elapsed());
    }
    longest
}

#[tokio::test]
async fn the_endpoints_answer_while_redis_is_frozen() {
    let mut server = RedisServer::start().await;
    let mut daemon = Daemon::start(&config(&server)).await;
    tolerate_stalls(&mut daemon);
    server.pause();
    let mut longest = Duration::ZERO;
    let until = Instant::now() + Duration::from_secs(4);
    while Instant::now() < until {
        longest = longest.max(ask_all(&daemon).await);
    }
    metric(&daemon, "delaybridge_redis_up", |up| up == 0.0).await;
    server.resume();
    daemon.wait_ready().await;
    println!("longest answer with a frozen Redis: {longest:?}");
}

#[tokio::test]
async fn the_endpoints_answer_while_the_pipeline_is_saturated() {
    let server = RedisServer::start().await;
    let queue = RedissonQueue::new("probed");
    let mut redis = server.client().await;
    let now = redis_now_ms(&mut redis).await;
    let due = elements(&queue, "e", 100_000, now - 60_000, 60_000);
    let mut oracle = Oracle::new();
    oracle.offered(&due);
    queue.offer_bulk(&mut redis, &due).await;

    let mut daemon = Daemon::start(&config(&server)).await;
    tolerate_stalls(&mut daemon);
    let started = Instant::now();
    let mut longest = Duration::ZERO;
    let mut rounds = 0;
    while daemon.metric("delaybridge_delivered_messages_total").await < 100_000.0 {
        longest = longest.max(ask_all(&daemon).await);
        rounds += 1;
        assert!(started.elapsed() < super::rig::PATIENCE, "the backlog is not delivered");
    }
    println!("longest of {rounds} answers under load: {longest:?}; 100,000 took {:?}", started.elapsed());
    let deliveries = all_in_list(&mut redis, "arrived", &oracle).await;
    assert_complete(&oracle.judge_payloads(&deliveries), &[&daemon]).await;
}
