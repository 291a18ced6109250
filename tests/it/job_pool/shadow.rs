//! `mode: shadow` on a pool: it shows the deliveries that would be made, with the jobs of all buckets, and writes
//! nothing.

use redis::AsyncCommands;

use super::forwarding::record;
use super::{PATIENCE, on};
use harness::redisson::redis_now_ms;
use harness::{Daemon, RedisServer, eventually};

/// Number of changes that Redis has counted since it started.
async fn changes(redis: &mut redis::aio::MultiplexedConnection) -> String {
    let info: String = redis::cmd("INFO").arg("persistence").query_async(redis).await.expect("the server answers");
    info.lines().find(|line| line.starts_with("rdb_changes_since_last_save:")).expect("the count").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_every_bucket_are_shown_and_nothing_is_written() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let now_s = u32::try_from(redis_now_ms(&mut redis).await / 1_000).expect("this century");
    for n in 0..9 {
        let id = format!("job-{n}");
        let body = match n {
            7 => b"no MessagePack".to_vec(),
            8 => record("order", &id, now_s + 3_600, "later"),
            _ => record("order", &id, now_s - 5, &format!("{{\"n\":{n}}}")),
        };
        if n != 6 {
            redis.set::<_, _, ()>(&id, body).await.expect("the server takes it");
        }
        let bucket = format!("dq_bucket_{}", n % 3 + 1);
        redis.zadd::<_, _, _, ()>(bucket, &id, now_s - 5).await.expect("the server takes it");
    }
    // A job in each bucket that is not due.
    for bucket in 1..=3 {
        redis
            .zadd::<_, _, _, ()>(format!("dq_bucket_{bucket}"), format!("far-{bucket}"), now_s + 3_600)
            .await
            .expect("the server takes it");
    }
    let queue = "  q: { source: { job_pool: { preset: ouqiang } }, mode: shadow, codec: json, \
                 to: [{ sink: out, stream: 'jobs:${topic}' }] }\n";
    let before = changes(&mut redis).await;
    let mut daemon = Daemon::spawn_with(&on(&server, queue), &[("DELAYBRIDGE_LOG", "info,delaybridge::shadow=debug")]);
    daemon.expect_log("shadow: an element would not be delivered");
    daemon.wait_ready().await;
    eventually("nine jobs to be reported", PATIENCE, async || {
        let metrics = daemon.metrics().await;
        let fates = ["deliver", "dead_letter", "gone", "not_due"]
            .map(|fate| metrics.sum(&format!("delaybridge_shadow_messages_total{{queue=\"q\",fate=\"{fate}\"}}")));
        if fates == [6.0, 1.0, 1.0, 1.0] { Ok(()) } else { Err(format!("{fates:?}")) }
    })
    .await;
    let log = daemon.log().all().join("\n");
    assert!(log.contains("\"id\":\"job-4\"") && log.contains("\"destinations\":\"out: stream jobs:order\""), "{log}");
    assert_eq!(changes(&mut redis).await, before, "nothing is written");
    assert_eq!(redis.zcard::<_, usize>("dq_bucket_1").await.expect("a bucket"), 4);
    assert_eq!(daemon.stop().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn due_jobs_of_a_topic_are_shown_and_stay() {
    let server = RedisServer::start().await;
    let queue = "  q: { source: { jobs: { topic: orders } }, mode: shadow, to: [{ sink: out, stream: '${topic}' }] }\n";
    let yaml = format!("jobs: {{}}\n{}", on(&server, queue));
    let mut daemon = Daemon::spawn_with(&yaml, &[("DELAYBRIDGE_LOG", "info,delaybridge::shadow=debug")]);
    daemon.wait_ready().await;
    let added = harness::daemon::cli(daemon.config(), &["jobs", "add", "orders", "--id", "7", "--body", "x"]);
    assert!(added.status.success(), "{added:?}");
    eventually("the job to be shown", PATIENCE, async || {
        let shown = daemon.metrics().await.sum("delaybridge_shadow_messages_total{queue=\"q\",fate=\"deliver\"}");
        if shown == 1.0 { Ok(()) } else { Err(format!("{shown}")) }
    })
    .await;
    let popped = harness::daemon::cli(daemon.config(), &["jobs", "pop", "orders"]);
    assert!(popped.status.success(), "its consumer gets it: {popped:?}");
    assert_eq!(daemon.stop().await, 0);
}
