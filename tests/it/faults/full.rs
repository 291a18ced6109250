//! A Redis without free memory: it can be drained, and no lease is lost.

use std::time::Duration;

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use super::rig::{
    PATIENCE, all_in_stream, assert_complete, elements, lateness, metric, pass, settled, summary, tolerate_stalls,
};
use harness::redisson::{Element, redis_now_ms};
use harness::{Daemon, Oracle, RedisServer, RedissonQueue, ServerOptions, eventually};

async fn set_limit(redis: &mut MultiplexedConnection, limit: &str) {
    let () = redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(limit).query_async(redis).await.unwrap();
}

/// Elements of about a kilobyte, which fill the memory.
fn large(queue: &RedissonQueue, n: usize, from_ms: i64, spread_ms: i64) -> Vec<Element> {
    let mut all = elements(queue, "e", n, from_ms, spread_ms);
    for element in &mut all {
        element.payload.resize(1_000, b'.');
        element.member = queue.layout.pack(element.id, &element.payload);
    }
    all
}

#[tokio::test]
async fn a_full_redis_is_drained_without_a_lease_running_out() {
    let server = RedisServer::start_with(ServerOptions::default().max_memory("1gb")).await;
    let other = RedisServer::start().await;
    let queue = RedissonQueue::new("full");
    let mut redis = server.client().await;
    let mut sink = other.client().await;
    let mut daemon = Daemon::start(&format!(
        "redis: {{ url: '{}', command_timeout: 1s }}\n\
         sinks: {{ out: {{ redis: {{ url: '{}', stream: arrived, timeout: 3800ms }} }} }}\n\
         queues: {{ q: {{ source: {{ redisson: {{ name: full, ghost_max_age: 1s }} }}, lease: 5s, to: [{{ sink: out }}] }} }}\n",
        server.url(),
        other.url()
    ))
    .await;
    tolerate_stalls(&mut daemon);
    let mut oracle = Oracle::new();
    let now = redis_now_ms(&mut redis).await;
    let delayed = large(&queue, 20_000, now + 500, 12_000);
    oracle.offered(&delayed);
    queue.offer_bulk(&mut redis, &delayed).await;
    let resident = daemon.usage().resident;

    set_limit(&mut redis, "2mb").await;
    let refused: redis::RedisResult<()> = redis.set("more", "x").await;
    assert!(refused.unwrap_err().to_string().contains("OOM"), "the server is not full");
    // Deliver all elements while the server is full, for more than two leases. Meanwhile the sink answers late, so that
    // leases must be extended.
    let mut peak = resident;
    for _ in 0..3 {
        let () = redis::cmd("CLIENT").arg("PAUSE").arg(3_200).arg("WRITE").query_async(&mut sink).await.unwrap();
        pass(Duration::from_millis(3_600)).await;
        peak = peak.max(daemon.usage().resident);
    }
    let length = eventually("everything to arrive from the full server", PATIENCE, async || {
        peak = peak.max(daemon.usage().resident);
        match sink.xlen::<_, usize>("arrived").await {
            Ok(n) if n >= oracle.count() => Ok(n),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    // The sweep works there as well: no entry of the list is left.
    eventually("the ghosts to be swept on the full server", PATIENCE, async || {
        match redis.llen::<_, usize>(&queue.list).await {
            Ok(0) => Ok(()),
            other => Err(format!("{other:?} entries in the list")),
        }
    })
    .await;
    let limit: Vec<String> = redis::cmd("CONFIG").arg("GET").arg("maxmemory").query_async(&mut redis).await.unwrap();
    assert_eq!(limit[1], (2 * 1024 * 1024).to_string());

    let deliveries = all_in_stream(&mut sink, "arrived", &oracle).await;
    settled(&mut redis, &queue).await;
    let metrics = daemon.metrics().await;
    let report = oracle.judge(&deliveries);
    assert_complete(&report, &[&daemon]).await;
    let extended = metrics.sum("delaybridge_script_duration_seconds_count{script=\"extend\"}");
    assert!(extended > 0.0, "no lease was extended: the test shows nothing");
    println!(
        "{length} arrived from a full server, {} twice, {extended} extensions; resident {} MiB before, {} MiB at most; lateness {}",
        report.duplicates,
        resident >> 20,
        peak >> 20,
        summary(&lateness(&deliveries))
    );
    assert_eq!(metrics.sum("delaybridge_leases_expired_total"), 0.0);
    // Far less than the data in Redis: unclaimed elements are not in memory.
    assert!(peak < resident + (100 << 20), "memory grew from {resident} to {peak}");
}

#[tokio::test]
async fn a_full_redis_as_the_sink_stops_claims_and_counts_nothing() {
    let server = RedisServer::start_with(ServerOptions::default().max_memory("1gb")).await;
    let queue = RedissonQueue::new("full");
    let mut redis = server.client().await;
    let mut daemon = Daemon::start(&format!(
        "redis: {{ url: '{}', command_timeout: 1s }}\n\
         retry: {{ strict: {{ max_attempts: 2, initial_interval: 10ms }} }}\n\
         sinks: {{ out: {{ redis: {{ stream: arrived, timeout: 6s }} }} }}\n\
         queues: {{ q: {{ source: {{ redisson: {{ name: full }} }}, lease: 10s, retry: strict, to: [{{ sink: out }}] }} }}\n",
        server.url(),
    ))
    .await;
    tolerate_stalls(&mut daemon);
    daemon.expect_log("sink blocked");
    let mut oracle = Oracle::new();
    let now = redis_now_ms(&mut redis).await;
    let delayed = large(&queue, 3_000, now - 1_000, 8_000);
    oracle.offered(&delayed);
    queue.offer_bulk(&mut redis, &delayed).await;
    set_limit(&mut redis, "2mb").await;

    metric(&daemon, "delaybridge_sink_blocked", |blocked| blocked == 1.0).await;
    // Outstanding elements come back, and then one element at a time probes.
    settled_but_for_probes(&mut redis, &queue).await;
    let before: usize = redis.xlen("arrived").await.unwrap();
    let claimed = daemon.metric("delaybridge_claimed_messages_total").await;
    pass(Duration::from_secs(5)).await;
    let probes = daemon.metric("delaybridge_claimed_messages_total").await - claimed;
    println!("{before} arrived before, {probes} probes in 5 s");
    assert!(probes < 50.0, "{probes} elements were claimed for a sink that is full");
    assert_eq!(redis.xlen::<_, usize>("arrived").await.unwrap(), before, "a full server took elements");
    assert_eq!(daemon.metric("delaybridge_sink_blocked").await, 1.0);
    let body = daemon.get("/readyz").await.unwrap().body;
    assert!(body.contains("blocked") && body.contains("OOM"), "{body}");

    set_limit(&mut redis, "0").await;
    let deliveries = all_in_stream(&mut redis, "arrived", &oracle).await;
    settled(&mut redis, &queue).await;
    if assert_complete(&oracle.judge(&deliveries), &[&daemon]).await == 0.0 {
        assert!(deliveries.iter().all(|delivery| delivery.attempt == Some(1)), "backpressure counted as an attempt");
    }
    assert_eq!(daemon.metric("delaybridge_sink_blocked").await, 0.0);
}

async fn settled_but_for_probes(redis: &mut MultiplexedConnection, queue: &RedissonQueue) {
    eventually("what was in flight to come back", PATIENCE, async || match queue.in_flight(redis).await {
        Ok(0 | 1) => Ok(()),
        other => Err(format!("{other:?} in flight")),
    })
    .await;
}
