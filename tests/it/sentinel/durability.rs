//! Claims that wait for replicas: while these lag, nothing is delivered.

use std::time::Duration;

use redis::AsyncCommands;

use harness::oracle::read_stream;
use harness::redisson::redis_now_ms;
use harness::{Daemon, Oracle, RedisServer, RedissonQueue, ServerOptions, eventually};

const PATIENCE: Duration = Duration::from_secs(60);

fn config(url: &str, durability: &str) -> String {
    format!(
        "redis: {{ url: '{url}', command_timeout: 3s }}\n\
         sinks: {{ out: {{ redis: {{ stream: arrived, timeout: 2s }} }} }}\n\
         queues: {{ q: {{ source: {{ redisson: {{ name: durable }} }}, durability: {durability}, to: [{{ sink: out }}] }} }}\n"
    )
}

#[tokio::test]
async fn nothing_is_delivered_while_too_few_replicas_have_the_claim() {
    let master = RedisServer::start().await;
    let options = ServerOptions::default().line("replicaof", &format!("127.0.0.1 {}", master.port()));
    let mut replica = RedisServer::start_with(options).await;
    eventually("the replica", PATIENCE, async || {
        let info = master.replication().await?;
        if info.contains("state=online") { Ok(()) } else { Err(info) }
    })
    .await;
    let mut daemon = Daemon::start(&config(&master.url(), "{ replicas: 1, timeout: 300ms }")).await;
    daemon.expect_log("queue on hold");
    let queue = RedissonQueue::new("durable");
    let redis = master.client().await;
    let mut oracle = Oracle::new();
    let offer = async |redis: &mut redis::aio::MultiplexedConnection, oracle: &mut Oracle, n: usize| {
        let now = redis_now_ms(redis).await;
        for i in 0..n {
            oracle.offered([&queue.offer(redis, now - 1 + i as i64, format!("e{}-{i}", oracle.count())).await]);
        }
    };
    let arrived = async |oracle: &Oracle| {
        eventually("every element", PATIENCE, async || {
            oracle.judge(&read_stream(&mut redis.clone(), "arrived").await).complete().map(|report| report.duplicates)
        })
        .await
    };
    offer(&mut redis.clone(), &mut oracle, 50).await;
    assert_eq!(arrived(&oracle).await, 0);

    replica.pause();
    offer(&mut redis.clone(), &mut oracle, 50).await;
    let released = "delaybridge_released_messages_total{queue=\"q\",reason=\"not_durable\"}";
    eventually("claims that went back", PATIENCE, async || {
        let n = daemon.metric(released).await;
        if n >= 1.0 { Ok(()) } else { Err(format!("{n}")) }
    })
    .await;
    eventually("the reason of the hold", PATIENCE, async || {
        let body = daemon.get("/readyz").await?.body;
        if body.contains("0 of 1 replicas have it within 300ms") { Ok(()) } else { Err(body) }
    })
    .await;
    // The daemon asks for the replicas repeatedly, and claims nothing meanwhile.
    let before = daemon.metric(released).await;
    let asked = master.calls("wait").await;
    eventually("several more looks for replicas", PATIENCE, async || match master.calls("wait").await - asked {
        looks if looks >= 4 => Ok(()),
        looks => Err(format!("{looks} looks")),
    })
    .await;
    assert_eq!(redis.clone().xlen::<_, usize>("arrived").await.unwrap(), 50, "delivered without a replica");
    assert_eq!(daemon.metric(released).await, before, "it claims again while replicas are behind");

    replica.resume();
    assert_eq!(arrived(&oracle).await, 0, "duplicates");
    let attempts: Vec<_> = read_stream(&mut redis.clone(), "arrived").await.iter().map(|d| d.attempt).collect();
    assert!(attempts.iter().all(|attempt| *attempt == Some(1)), "an attempt was counted");
    assert_eq!(daemon.metric("delaybridge_possible_duplicates_total").await, 0.0);
}

#[tokio::test]
async fn a_server_that_cannot_wait_for_its_disk_delivers_nothing_and_says_why() {
    // A server before 7.2 refuses rights on a command that it does not know.
    let options = ServerOptions::default().acl_user("bridge on >secret ~* &* +@all");
    let server = RedisServer::start_with(options).await;
    let url = format!("redis://bridge:${{{}}}@127.0.0.1:{}/0", "REDIS_PASSWORD", server.port());
    let mut daemon = Daemon::spawn_with(
        &config(&url, "{ replicas: 0, aof: true, timeout: 300ms }"),
        &[("REDIS_PASSWORD", "secret")],
    );
    daemon.wait_ready().await;
    daemon.expect_log("queue on hold");
    let queue = RedissonQueue::new("durable");
    let mut redis = server.client().await;
    let now = redis_now_ms(&mut redis).await;
    queue.offer(&mut redis, now, "e").await;
    eventually("the reason", PATIENCE, async || {
        let body = daemon.get("/readyz").await?.body;
        // 7.0 has no such command; a newer one says that there is no append-only file.
        if body.contains("WAITAOF") { Ok(()) } else { Err(body) }
    })
    .await;
    assert_eq!(redis.xlen::<_, usize>("arrived").await.unwrap(), 0, "delivered without a disk");
    eventually("the element to go back, and not to wait for its lease", PATIENCE, async || {
        let claims: Vec<String> = redis.clone().keys("delaybridge:claim:*").await.map_err(|e| e.to_string())?;
        let waiting: usize = redis.clone().zcard("delaybridge:retry:{durable}").await.map_err(|e| e.to_string())?;
        if claims.is_empty() && waiting == 1 { Ok(()) } else { Err(format!("{claims:?}, {waiting} wait")) }
    })
    .await;
}
