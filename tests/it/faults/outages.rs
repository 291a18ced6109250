//! The Redis with the queues disappears, freezes, or disconnects the daemon.

use std::time::Duration;

use redis::AsyncCommands;

use super::rig::{
    Feed, PATIENCE, all_in_stream, assert_complete, elements, lateness, metric, pass, readyz, settled, summary,
    tolerate_stalls,
};
use harness::redisson::redis_now_ms;
use harness::{Daemon, Oracle, RedisServer, RedissonQueue, ServerOptions, eventually};

/// The configuration of a daemon with a stream on the failing server as the sink.
fn config(url: &str) -> String {
    format!(
        "redis: {{ url: '{url}', command_timeout: 1s, connect_timeout: 2s }}\n\
         sinks: {{ out: {{ redis: {{ stream: arrived, timeout: 2s }} }} }}\n\
         queues: {{ q: {{ source: {{ redisson: {{ name: outage }} }}, lease: 4s, to: [{{ sink: out }}] }} }}\n"
    )
}

/// Feeds for `ticks` ticks.
async fn feed(feed: &mut Feed, ticks: usize) {
    for _ in 0..ticks {
        feed.tick(5, 2).await;
    }
}

/// Checks that everything arrived, and that each duplicate had been announced.
async fn judge(what: &str, server: &RedisServer, daemon: &Daemon, oracle: &Oracle) {
    let mut redis = server.client().await;
    let deliveries = all_in_stream(&mut redis, "arrived", oracle).await;
    settled(&mut redis, &RedissonQueue::new("outage")).await;
    let report = oracle.judge(&deliveries);
    let announced = assert_complete(&report, &[daemon]).await;
    println!("{what}: {report}, {announced} announced; lateness {}", summary(&lateness(&deliveries)));
}

#[tokio::test]
async fn elements_due_before_during_and_after_a_restart_of_redis_arrive() {
    // The long version is run by hand: `DELAYBRIDGE_LONG=1 cargo test ...`.
    let down = Duration::from_secs(if std::env::var_os("DELAYBRIDGE_LONG").is_some() { 30 } else { 8 });
    let mut server = RedisServer::start_with(ServerOptions::default().append_only()).await;
    let mut daemon = Daemon::start(&config(&server.url())).await;
    tolerate_stalls(&mut daemon);
    let queue = RedissonQueue::new("outage");
    let mut redis = server.client().await;
    let mut oracle = Oracle::new();
    let now = redis_now_ms(&mut redis).await;
    let spread = i64::try_from(down.as_millis()).unwrap() + 6_000;
    let delayed = elements(&queue, "e", 5_000, now - 1_000, spread);
    oracle.offered(&delayed);
    queue.offer_bulk(&mut redis, &delayed).await;
    eventually("the first deliveries", PATIENCE, async || match redis.xlen::<_, usize>("arrived").await {
        Ok(n) if n > 500 => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;

    server.stop().await;
    readyz(&daemon, 503, "the connection was refused").await;
    let up_again = tokio::time::Instant::now() + down;
    let ended = eventually("the end of the outage", PATIENCE, async || {
        assert_eq!(daemon.get("/livez").await?.status, 200, "an outage is no reason to be killed");
        if tokio::time::Instant::now() >= up_again { Ok(()) } else { Err("still down".to_owned()) }
    });
    ended.await;
    server.boot().await.expect("boot after the outage");
    readyz(&daemon, 200, "").await;
    assert_eq!(daemon.metric("delaybridge_redis_up").await, 1.0);
    judge(&format!("Redis stopped for {down:?}"), &server, &daemon, &oracle).await;
}

#[tokio::test]
async fn the_daemon_starts_before_redis_and_waits_for_it() {
    let mut server = RedisServer::start_with(ServerOptions::default().append_only()).await;
    let queue = RedissonQueue::new("outage");
    let mut redis = server.client().await;
    let mut oracle = Oracle::new();
    let now = redis_now_ms(&mut redis).await;
    let delayed = elements(&queue, "e", 200, now, 2_000);
    oracle.offered(&delayed);
    queue.offer_bulk(&mut redis, &delayed).await;
    server.stop().await;

    let mut daemon = Daemon::spawn(&config(&server.url()));
    tolerate_stalls(&mut daemon);
    let body = readyz(&daemon, 503, "the connection was refused").await;
    println!("while Redis is not there: {body}");
    assert_eq!(daemon.get("/startupz").await.unwrap().status, 503);
    assert_eq!(daemon.get("/livez").await.unwrap().status, 200);
    assert_eq!(daemon.metric("delaybridge_redis_up").await, 0.0);

    server.boot().await.expect("boot the server that the daemon waits for");
    daemon.wait_ready().await;
    assert_eq!(daemon.get("/startupz").await.unwrap().status, 200);
    judge("started before Redis", &server, &daemon, &oracle).await;
}

#[tokio::test]
async fn killed_connections_are_replaced_and_nothing_is_lost() {
    let server = RedisServer::start().await;
    let mut daemon = Daemon::start(&config(&server.url())).await;
    tolerate_stalls(&mut daemon);
    // The feed uses the one connection that its own `CLIENT KILL` spares.
    let mut flow = Feed::new(&server, RedissonQueue::new("outage")).await;
    let mut killed = 0;
    for round in 0..12 {
        let kind = if round % 2 == 0 { "normal" } else { "pubsub" };
        killed += flow.kill_others(kind).await;
        feed(&mut flow, 5).await;
    }
    assert!(killed > 0, "no connection was there to be killed: the test shows nothing");
    println!("{killed} connections killed");
    judge("CLIENT KILL", &server, &daemon, &flow.oracle).await;
}

#[tokio::test]
async fn a_redis_that_does_not_answer_for_a_while_loses_nothing() {
    let mut server = RedisServer::start().await;
    let mut daemon = Daemon::start(&config(&server.url())).await;
    daemon.expect_log("cannot reach Redis").expect_log("sink down").expect_log("elements dropped here");
    let mut flow = Feed::new(&server, RedissonQueue::new("outage")).await;
    feed(&mut flow, 5).await;

    let mut redis = server.client().await;
    let () = redis::cmd("CLIENT").arg("PAUSE").arg(3_000).arg("ALL").query_async(&mut redis).await.unwrap();
    // Waits until the pause is over.
    feed(&mut flow, 10).await;

    // A silent peer, for longer than the lease.
    server.pause();
    pass(Duration::from_secs(5)).await;
    metric(&daemon, "delaybridge_redis_up", |up| up == 0.0).await;
    server.resume();
    feed(&mut flow, 10).await;
    judge("CLIENT PAUSE and SIGSTOP", &server, &daemon, &flow.oracle).await;
}
