//! SIGKILL with elements that were claimed ahead of their due times, and are still held.

use super::*;
use harness::Daemon;

const ELEMENTS: usize = 200;
const LEASE_MS: i64 = 30_000;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_held_at_a_kill_is_never_early_and_late_by_less_than_the_lease() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("q");
    let first_due = redis_now_ms(&mut redis).await + 20_000;
    for n in 0..ELEMENTS {
        queue.offer(&mut redis, first_due + n as i64, format!("payload {n}")).await;
    }
    let yaml = yaml(&server, &format!("stream: {OUT}, timeout: 3s"), "lease: 30s, claim_ahead: 15s");
    let mut killed = Daemon::start(&yaml).await;
    eventually("all to be held", PATIENCE, async || match queue.in_flight(&redis).await {
        Ok(ELEMENTS) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    killed.kill();
    let now = redis_now_ms(&mut redis).await;
    assert!(now < first_due, "killed {} ms too late: the test shows nothing", now - first_due);

    let mut daemon = Daemon::start(&yaml).await;
    eventually("all to arrive", PATIENCE, async || match redis.xlen(OUT).await {
        Ok(ELEMENTS) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    let entries: redis::streams::StreamRangeReply = redis.xrange_all(OUT).await.unwrap();
    for entry in &entries.ids {
        // An entry's id begins with the time at which Redis added it.
        let took: i64 = entry.id.split('-').next().and_then(|ms| ms.parse().ok()).expect("an id");
        let due: i64 = entry.get("due_ms").expect("a due time");
        assert!((0..LEASE_MS).contains(&(took - due)), "{} ms after its due time", took - due);
    }
    assert_eq!(daemon.stop().await, 0);
}
