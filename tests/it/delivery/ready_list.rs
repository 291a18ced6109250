//! The ready list and the sorted set together, and queues that consume only one of them.

use std::collections::HashSet;

use redis::AsyncCommands;

use harness::daemon::cli;
use harness::oracle::read_stream;
use harness::redisson::redis_now_ms;
use harness::{Daemon, Oracle, RedisServer, RedissonQueue};

use super::{emptied, on, overdue, stream_of};

#[tokio::test]
async fn a_thousand_equal_payloads_on_the_ready_list_arrive_as_a_thousand() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("equal");
    let payloads = vec![b"the same".to_vec(); 1_000];
    queue.push_ready(&mut redis, &payloads).await;
    let mut oracle = Oracle::new();
    oracle.pushed_ready(&payloads);

    let daemon = Daemon::start(&on(
        &server,
        "
sinks: { same: { redis: {} } }
queues:
  q: { source: { redisson: { name: equal } }, to: [{ sink: same, stream: out }] }
",
    ))
    .await;
    stream_of(&mut redis, "out", 1_000).await;
    emptied(&mut redis, &queue).await;
    let deliveries = read_stream(&mut redis, "out").await;
    oracle.judge(&deliveries).assert_complete(0);
    let ids: HashSet<_> = deliveries.iter().map(|delivery| delivery.id.clone().unwrap()).collect();
    assert_eq!(ids.len(), 1_000, "each has an id of its own");
    assert!(deliveries.iter().all(|delivery| delivery.due_ms.is_none()), "their due times are unknown");
    assert_eq!(daemon.metric("delaybridge_claimed_messages_total{from=\"ready\"}").await, 1_000.0);
    assert_eq!(daemon.metric("delaybridge_delivery_lateness_seconds_count").await, 0.0);
}

#[tokio::test]
async fn what_a_queue_does_not_consume_is_left_alone() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let now = redis_now_ms(&mut redis).await;
    let delayed = RedissonQueue::new("only:delayed");
    let ready = RedissonQueue::new("only:ready");
    for queue in [&delayed, &ready] {
        queue.offer_bulk(&mut redis, &overdue(now, (0..50).map(|n| format!("delayed {n}")))).await;
        queue.push_ready(&mut redis, &(0..50).map(|n| format!("ready {n}").into_bytes()).collect::<Vec<_>>()).await;
    }
    let daemon = Daemon::start(&on(
        &server,
        r#"
sinks: { same: { redis: {} } }
queues:
  d: { source: { redisson: { name: "only:delayed", consume: [delayed] } }, to: [{ sink: same, stream: out-d }] }
  r: { source: { redisson: { name: "only:ready", consume: [ready] } }, to: [{ sink: same, stream: out-r }] }
"#,
    ))
    .await;
    stream_of(&mut redis, "out-d", 50).await;
    stream_of(&mut redis, "out-r", 50).await;
    // Both have had more than one safety poll; and announcements of the other structure have no effect.
    ready.offer(&mut redis, now, "one more").await;
    delayed.offer(&mut redis, now, "one more").await;
    stream_of(&mut redis, "out-d", 51).await;
    let polls = daemon.metric("delaybridge_wakeups_total").await;
    harness::eventually("some more looks at the queues", super::PATIENCE, async || {
        let scripts = daemon.metric("delaybridge_script_duration_seconds_count{script=\"claim\"}").await;
        redis.clone().publish::<_, _, i64>(&ready.channel, now).await.map_err(|e| e.to_string())?;
        let now = daemon.metric("delaybridge_wakeups_total").await;
        if now >= polls + 5.0 { Ok(()) } else { Err(format!("{now} wake-ups, {scripts} claims")) }
    })
    .await;

    let starts_with = |deliveries: Vec<harness::Delivery>, text: &str| {
        deliveries.iter().filter(|delivery| delivery.payload.starts_with(text.as_bytes())).count()
    };
    assert_eq!(starts_with(read_stream(&mut redis, "out-d").await, "ready"), 0);
    assert_eq!(starts_with(read_stream(&mut redis, "out-r").await, "ready"), 50);
    assert_eq!(redis.xlen::<_, usize>("out-r").await.unwrap(), 50);
    assert_eq!(redis.llen::<_, usize>(&delayed.name).await.unwrap(), 50);
    assert_eq!(redis.zcard::<_, usize>(&ready.timeouts).await.unwrap(), 51);
    assert_eq!(redis.llen::<_, usize>(&ready.list).await.unwrap(), 51);
}

/// Another program may have a key of the queue's name: it is not read, and no right to it is needed.
#[tokio::test]
async fn a_key_in_the_place_of_a_ready_list_that_is_not_consumed_is_not_judged() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("orders");
    let _: () = redis.set(&queue.name, "of another program").await.unwrap();
    let yaml = on(
        &server,
        "
sinks: { same: { redis: {} } }
queues:
  q: { source: { redisson: { name: orders, consume: [delayed] } }, to: [{ sink: same, stream: out }] }
",
    );
    let mut daemon = Daemon::start(&yaml).await;
    let now = redis_now_ms(&mut redis).await;
    queue.offer(&mut redis, now, "one").await;
    stream_of(&mut redis, "out", 1).await;
    for (line, part) in [
        (&["check", "--live"][..], "queue q: rights"),
        (&["queues"], "deliver"),
        (&["fsck"], ""),
        (&["acl"], "redisson_delay_queue"),
    ] {
        let output = cli(daemon.config(), line);
        let out = String::from_utf8_lossy(&output.stdout);
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && out.contains(part), "{line:?}: {out}{err}");
        assert!(!out.contains("holds a string") && !out.contains("does not move"), "{line:?}: {out}{err}");
        assert!(!out.contains("~orders "), "no right to the key: {out}");
    }
    assert_eq!(daemon.stop().await, 0);
    assert_eq!(redis.get::<_, String>(&queue.name).await.unwrap(), "of another program");
}
