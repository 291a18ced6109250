//! `mode: rescue`: overdue elements of both layouts go to the ready list, past any junk, and once.

use std::time::Duration;

use bytes::Bytes;
use delaybridge_source::redisson::Overdue;
use redis::AsyncCommands;

use super::{NAME, library};
use crate::delivery::PATIENCE;
use harness::redisson::{Layout, redis_now_ms};
use harness::{Daemon, RedisServer, RedissonQueue, eventually};

#[tokio::test]
async fn overdue_elements_of_both_layouts_reach_the_consumers_and_junk_holds_up_nothing() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let queue = RedissonQueue::new(NAME);
    let now = redis_now_ms(&mut redis).await;
    for n in 0..600 {
        let client = queue.with_layout(if n % 2 == 0 { Layout::New } else { Layout::Old });
        client.offer(&mut redis, now - 60_000 + n, format!("{n}")).await;
        if n % 10 == 0 {
            let _: () = redis.zadd(&queue.timeouts, format!("junk {n}"), now - 60_000 + n).await.unwrap();
        }
    }
    let later = queue.offer(&mut redis, now + 3_600_000, "later").await;
    let mut daemon = Daemon::spawn(&format!(
        "redis: {{ url: {}, connect_timeout: 30s, command_timeout: 14s }}\nqueues:\n  orders:\n    \
         source: {{ redisson: {{ name: \"{NAME}\", rescue_after: 200ms }} }}\n    mode: rescue\n",
        server.url()
    ));
    daemon.expect_log("have no Redisson layout");
    daemon.wait_ready().await;
    eventually("all to be rescued", PATIENCE, async || {
        match redis.clone().llen::<_, usize>(NAME).await.map_err(|e| e.to_string())? {
            600 => Ok(()),
            n => Err(format!("{n} on the ready list")),
        }
    })
    .await;
    // An element that falls due during its poll.
    queue.offer(&mut redis, now, "600").await;
    eventually("the next one and the count of junk", PATIENCE, async || {
        let metrics = daemon.metrics().await;
        let got = (
            metrics.sum("delaybridge_rescued_messages_total{queue=\"orders\"}"),
            metrics.sum("delaybridge_redisson_unreadable_entries{queue=\"orders\"}"),
        );
        if got == (601.0, 60.0) { Ok(()) } else { Err(format!("{got:?}")) }
    })
    .await;
    let ready: Vec<String> = redis.lrange(NAME, 0, -1).await.unwrap();
    assert_eq!(ready, (0..=600).map(|n| n.to_string()).collect::<Vec<_>>(), "in the order of their due times");
    let (scheduled, listed): (Vec<Vec<u8>>, Vec<Vec<u8>>) =
        redis::pipe().zrange(&queue.timeouts, 0, -1).lrange(&queue.list, 0, -1).query_async(&mut redis).await.unwrap();
    assert_eq!((scheduled.len(), listed), (61, vec![later.member]), "junk and what is not due, and no ghost");
    assert_eq!(daemon.stop().await, 0);
}

#[tokio::test]
async fn a_batch_that_is_sent_twice_moves_once_and_nothing_that_is_not_overdue_by_the_limit() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let (link, conn, source) = library(&server).await;
    let queue = RedissonQueue::new(NAME);
    let now = redis_now_ms(&mut redis).await;
    let batch: Vec<_> = [queue.offer(&mut redis, now - 60_000, "a").await, queue.offer(&mut redis, now, "b").await]
        .into_iter()
        .map(|element| Overdue::of(Bytes::from(element.member)).unwrap())
        .collect();
    let hour = Duration::from_secs(3600);
    assert_eq!(source.rescue(&conn, hour, &batch).await.unwrap(), 0);
    let limit = Duration::from_secs(59);
    assert_eq!(source.rescue(&conn, limit, &batch).await.unwrap(), 1);
    assert_eq!(source.rescue(&conn, limit, &batch).await.unwrap(), 0);
    let ready: Vec<String> = redis.lrange(NAME, 0, -1).await.unwrap();
    let listed: usize = redis.llen(&queue.list).await.unwrap();
    assert_eq!((ready, listed), (vec!["a".to_owned()], 1));
    assert!(Overdue::of(Bytes::from_static(b"junk")).is_err());
    link.close().await;
}
