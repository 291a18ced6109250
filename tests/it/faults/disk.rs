//! A Redis that cannot save its data and therefore refuses writes (MISCONF): its queues say so, and nothing is lost.

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use super::rig::{PATIENCE, all_in_stream, assert_complete, elements, metric, settled, tolerate_stalls};
use harness::redisson::redis_now_ms;
use harness::{Daemon, Oracle, RedisServer, RedissonQueue, ServerOptions, eventually};

async fn set(redis: &mut MultiplexedConnection, key: &str, value: &str) {
    let () = redis::cmd("CONFIG").arg("SET").arg(key).arg(value).query_async(redis).await.unwrap();
}

/// The next snapshot fails: no file can have this name.
async fn breaks(redis: &mut MultiplexedConnection) {
    set(redis, "dbfilename", ".").await;
    set(redis, "save", "3600 1").await;
    let _: String = redis::cmd("BGSAVE").query_async(redis).await.unwrap();
    eventually("a write to be refused", PATIENCE, async || match redis.clone().set::<_, _, ()>("probe", "x").await {
        Err(error) if error.to_string().contains("MISCONF") => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
}

async fn repairs(redis: &mut MultiplexedConnection) {
    set(redis, "save", "").await;
    set(redis, "dbfilename", "dump.rdb").await;
}

/// The probe says what is wrong, in the server's words.
async fn says_so(daemon: &Daemon) {
    eventually("readiness to name MISCONF", PATIENCE, async || {
        let answer = daemon.get("/readyz").await?;
        let says = answer.status == 503 && answer.body.contains("claim: Redis answered MISCONF");
        if says { Ok(()) } else { Err(format!("{} {}", answer.status, answer.body)) }
    })
    .await;
    eventually("a line about the hold", PATIENCE, async || {
        let lines = daemon.log().all();
        let says = lines.iter().any(|line| line.contains("queue on hold") && line.contains("MISCONF"));
        if says { Ok(()) } else { Err(format!("{lines:?}")) }
    })
    .await;
}

#[tokio::test]
async fn a_source_that_cannot_save_is_told_and_loses_nothing() {
    let options = ServerOptions::default();
    let options = match options.major() {
        ..=6 => options,
        // So that it can be made unable to save.
        _ => options.line("enable-protected-configs", "yes"),
    };
    let server = RedisServer::start_with(options).await;
    let other = RedisServer::start().await;
    let queue = RedissonQueue::new("q");
    let mut redis = server.client().await;
    let mut sink = other.client().await;
    let yaml = format!(
        "redis: {{ url: '{}', command_timeout: 1s }}\n\
         sinks: {{ out: {{ redis: {{ url: '{}', stream: arrived, timeout: 3800ms }} }} }}\n\
         queues: {{ q: {{ source: {{ redisson: {{ name: q }} }}, lease: 10s, to: [{{ sink: out }}] }} }}\n",
        server.url(),
        other.url()
    );
    let mut oracle = Oracle::new();
    let now = redis_now_ms(&mut redis).await;
    let all = elements(&queue, "e", 400, now, 8_000);
    oracle.offered(&all);
    queue.offer_bulk(&mut redis, &all).await;
    let mut daemon = Daemon::start(&yaml).await;
    tolerate_stalls(&mut daemon);
    // Where it takes long, lines are left out, and their sum has no cause.
    daemon.expect_log("MISCONF").expect_log("queue on hold: sum");
    // On a busy machine an answer may still wait for Redis when it is stopped: its lease brings it back.
    daemon.expect_log("stopped with leftovers");
    eventually("the first to arrive", PATIENCE, async || match sink.clone().xlen::<_, usize>("arrived").await {
        Ok(20..) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    breaks(&mut redis).await;
    says_so(&daemon).await;
    metric(&daemon, "delaybridge_queue_held", |held| held == 1.0).await;
    // Elements fall due, and none leaves Redis.
    let left: u64 = redis.zcard(&queue.timeouts).await.unwrap();
    assert!(left > 0, "all were delivered before: the test shows nothing");
    assert_eq!(daemon.metric("delaybridge_redis_up").await, 1.0, "it answers reads");
    daemon.stop().await;

    // One that starts meanwhile is not ready in silence.
    let mut second = Daemon::spawn(&yaml);
    tolerate_stalls(&mut second);
    second.expect_log("MISCONF").expect_log("queue on hold: sum").expect_log("stopped with leftovers");
    says_so(&second).await;
    assert_eq!(redis.zcard::<_, u64>(&queue.timeouts).await.unwrap(), left);

    repairs(&mut redis).await;
    let deliveries = all_in_stream(&mut sink, "arrived", &oracle).await;
    settled(&mut redis, &queue).await;
    assert_complete(&oracle.judge(&deliveries), &[&second]).await;
    metric(&second, "delaybridge_queue_held", |held| held == 0.0).await;
}
