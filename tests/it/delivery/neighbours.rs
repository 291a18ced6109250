//! Queues that share a sink do not delay each other.

use redis::AsyncCommands;

use harness::oracle::read_stream;
use harness::redisson::redis_now_ms;
use harness::{Daemon, Oracle, RedisServer, RedissonQueue};

use super::{emptied, list_of, on, overdue, spread, stream_of, unready};

#[tokio::test]
async fn a_held_queue_does_not_hold_up_another_one_on_the_same_sink_and_resumes_by_itself() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let bad = RedissonQueue::new("bad");
    let good = RedissonQueue::new("good");
    let now = redis_now_ms(&mut redis).await;
    let _: () = redis.set("target-of-bad", "not a list").await.unwrap();
    let bad_elements = overdue(now, (0..300).map(|n| format!("bad {n}")));
    bad.offer_bulk(&mut redis, &bad_elements).await;
    let mut daemon = Daemon::spawn(&on(
        &server,
        "
sinks: { same: { redis: {} } }
queues:
  bad: { source: { redisson: { name: bad } }, to: [{ sink: same, list: target-of-bad }] }
  good: { source: { redisson: { name: good } }, to: [{ sink: same, stream: out }] }
",
    ));
    daemon.expect_log("queue on hold");
    unready(&daemon, "WRONGTYPE").await;

    for round in 1..=10 {
        let now = redis_now_ms(&mut redis).await;
        good.offer_bulk(&mut redis, &overdue(now, (0..100).map(|n| format!("{round}/{n}")))).await;
        stream_of(&mut redis, "out", round * 100).await;
    }
    let answer = daemon.get("/readyz").await.unwrap();
    assert!(answer.body.contains("\"bad\"") && !answer.body.contains("\"good\""), "{}", answer.body);
    assert_eq!(daemon.metric("delaybridge_queue_held{queue=\"bad\"}").await, 1.0);
    assert_eq!(daemon.metric("delaybridge_queue_held{queue=\"good\"}").await, 0.0);
    assert_eq!(daemon.metric("delaybridge_dead_lettered_messages_total").await, 0.0);

    let _: () = redis.del("target-of-bad").await.unwrap();
    list_of(&mut redis, "target-of-bad", 300).await;
    emptied(&mut redis, &bad).await;
    daemon.wait_ready().await;
    let mut oracle = Oracle::new();
    oracle.offered(&bad_elements);
    oracle.judge_payloads(&harness::oracle::read_list(&mut redis, "target-of-bad").await).assert_complete(0);
}

#[tokio::test]
async fn a_queue_of_a_wrong_type_is_held_with_its_key_named_and_left_unchanged() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let now = redis_now_ms(&mut redis).await;
    let queue = RedissonQueue::new("q");
    queue.offer_bulk(&mut redis, &overdue(now, (0..20).map(|n| n.to_string()))).await;
    let _: () = redis.set(&queue.name, "a string where the ready list should be").await.unwrap();
    let mut daemon = Daemon::spawn(&on(
        &server,
        "
sinks: { same: { redis: {} } }
queues:
  q: { source: { redisson: { name: q } }, to: [{ sink: same, stream: out }] }
",
    ));
    daemon.expect_log("queue on hold");
    unready(&daemon, "holds a string").await;
    assert_eq!(redis.zcard::<_, usize>(&queue.timeouts).await.unwrap(), 20);
    assert_eq!(redis.llen::<_, usize>(&queue.list).await.unwrap(), 20);
    assert_eq!(queue.in_flight(&redis).await.unwrap(), 0);
    let _: () = redis.del(&queue.name).await.unwrap();
    stream_of(&mut redis, "out", 20).await;
    emptied(&mut redis, &queue).await;
    daemon.wait_ready().await;
}

#[tokio::test]
async fn a_queue_with_many_overdue_does_not_starve_a_trickle_on_the_same_sink() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let flood = RedissonQueue::new("flood");
    let trickle = RedissonQueue::new("trickle");
    let now = redis_now_ms(&mut redis).await;
    let mut elements = overdue(now, (0..50_000).map(|n| format!("{n:0256}")));
    fastrand::shuffle(&mut elements);
    flood.offer_bulk(&mut redis, &elements).await;
    let now = redis_now_ms(&mut redis).await;
    let drops = (0..80).map(|n| {
        let layout = harness::Layout::New;
        harness::redisson::Element::new(layout, now + 200 + n * 100, format!("drop {n}"))
    });
    trickle.offer_bulk(&mut redis, &drops.collect::<Vec<_>>()).await;
    let _daemon = Daemon::start(&on(
        &server,
        "
sinks: { same: { redis: {} } }
queues:
  flood: { source: { redisson: { name: flood } }, to: [{ sink: same, stream: out-flood }] }
  trickle: { source: { redisson: { name: trickle } }, to: [{ sink: same, stream: out-trickle }] }
",
    ))
    .await;
    stream_of(&mut redis, "out-flood", elements.len()).await;
    stream_of(&mut redis, "out-trickle", 80).await;
    let mut oracle = Oracle::new();
    oracle.offered(&elements);
    let flooded = read_stream(&mut redis, "out-flood").await;
    oracle.judge(&flooded).assert_complete(0);
    let first = flooded[0].arrived_ms.unwrap();
    let last = flooded[flooded.len() - 1].arrived_ms.unwrap();
    let trickled = read_stream(&mut redis, "out-trickle").await;
    assert_eq!(trickled.len(), 80);
    // The elements that fell due during the flood.
    let during: Vec<i64> = trickled
        .iter()
        .filter(|delivery| (first..=last).contains(&delivery.due_ms.unwrap()))
        .map(|delivery| delivery.arrived_ms.unwrap() - delivery.due_ms.unwrap())
        .collect();
    println!(
        "50,000 overdue took {} ms; of 80 others at 10/s {} fell due meanwhile, late {}",
        last - first,
        during.len(),
        spread(during)
    );
}
