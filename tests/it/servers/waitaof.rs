//! Claims that wait for the append-only file, on servers with `WAITAOF`: with the file, the elements are delivered;
//! without it, nothing is.

use std::time::Duration;

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use harness::redisson::redis_now_ms;
use harness::servers::{ALL, Version};
use harness::{Daemon, RedisServer, RedissonQueue, eventually};

const PATIENCE: Duration = Duration::from_secs(60);

async fn arrived(redis: &MultiplexedConnection, count: usize) {
    eventually("the elements", PATIENCE, async || match redis.clone().xlen::<_, usize>("arrived").await {
        Ok(found) if found == count => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
}

async fn on(version: Version) {
    let server = RedisServer::start_with(version.options().append_only()).await;
    let mut redis = server.client().await;
    let yaml = format!(
        "redis: {{ url: '{}', command_timeout: 3s }}\n\
         sinks: {{ out: {{ redis: {{ stream: arrived, timeout: 2s }} }} }}\n\
         queues: {{ q: {{ source: {{ redisson: {{ name: durable }} }}, \
         durability: {{ replicas: 0, aof: true, timeout: 300ms }}, to: [{{ sink: out }}] }} }}\n",
        server.url()
    );
    let mut daemon = Daemon::start(&yaml).await;
    daemon.expect_log("queue on hold");
    let queue = RedissonQueue::new("durable");
    let offer = async |redis: &mut MultiplexedConnection, payload: &str| {
        let now = redis_now_ms(redis).await;
        queue.offer(redis, now, payload).await;
    };
    for n in 0..20 {
        offer(&mut redis, &format!("e{n}")).await;
    }
    arrived(&redis, 20).await;
    assert_eq!(daemon.metric("delaybridge_released_messages_total{queue=\"q\",reason=\"not_durable\"}").await, 0.0);

    let set = async |redis: &mut MultiplexedConnection, value: &str| {
        redis::cmd("CONFIG").arg("SET").arg("appendonly").arg(value).exec_async(redis).await.expect("CONFIG SET");
    };
    set(&mut redis, "no").await;
    offer(&mut redis, "without a file").await;
    eventually("the reason", PATIENCE, async || {
        let body = daemon.get("/readyz").await?.body;
        if body.contains("WAITAOF") || body.contains("append-only file") { Ok(()) } else { Err(body) }
    })
    .await;
    assert_eq!(redis.xlen::<_, usize>("arrived").await.unwrap(), 20, "{}: delivered without a file", version.name);
    set(&mut redis, "yes").await;
    arrived(&redis, 21).await;
    assert_eq!(daemon.metric("delaybridge_possible_duplicates_total").await, 0.0);
}

#[tokio::test]
async fn nothing_is_delivered_before_it_is_in_the_append_only_file() {
    let with = ALL.into_iter().filter(|version| matches!(version.name, "Redis 8.2" | "Valkey 9.1"));
    let tests: Vec<_> = with.map(on).collect();
    assert_eq!(futures_util::future::join_all(tests).await.len(), 2);
}
