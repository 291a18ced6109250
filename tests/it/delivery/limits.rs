//! Rates, lateness, and no early delivery.

use std::time::{Duration, Instant};

use harness::oracle::read_stream;
use harness::redisson::{Element, redis_now_ms};
use harness::{Daemon, Layout, Oracle, RedisServer, RedissonQueue};

use super::{dead_letters, emptied, on, overdue, spread, stream_of};

#[tokio::test]
async fn nothing_is_delivered_before_its_time() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("punctual");
    let daemon = Daemon::start(&on(
        &server,
        "
sinks: { same: { redis: {} } }
queues:
  q: { source: { redisson: { name: punctual } }, to: [{ sink: same, stream: out }] }
",
    ))
    .await;
    let now = redis_now_ms(&mut redis).await;
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    fastrand::seed(seed);
    let element = |n: i64| {
        let layout = if n % 2 == 0 { Layout::New } else { Layout::Old };
        Element::new(layout, now + 500 + n * 2, format!("{n}"))
    };
    let mut elements: Vec<Element> = (0..2_000).map(element).collect();
    fastrand::shuffle(&mut elements);
    let (at_once, one_by_one) = elements.split_at(1_800);
    queue.offer_bulk(&mut redis, at_once).await;
    for element in one_by_one {
        queue
            .with_layout(if element.member[0] == 8 && element.member.len() == element.payload.len() + 17 {
                Layout::New
            } else {
                Layout::Old
            })
            .offer_script(&mut redis, element)
            .await;
    }
    let mut oracle = Oracle::new();
    oracle.offered(&elements);
    stream_of(&mut redis, "out", elements.len()).await;
    emptied(&mut redis, &queue).await;

    let deliveries = read_stream(&mut redis, "out").await;
    oracle.judge(&deliveries).assert_complete(0);
    // Both times are Redis's own: the entry's id, and the due time that its clock was compared with (R9).
    let late: Vec<i64> = deliveries.iter().map(|d| d.arrived_ms.unwrap() - d.due_ms.unwrap()).collect();
    let early: Vec<i64> = late.iter().copied().filter(|late| *late < 0).collect();
    assert!(early.is_empty(), "{} were early, by up to {:?} ms", early.len(), early.iter().min());
    println!("lateness of 2,000 elements over 4 s: {}", spread(late));
    drop(daemon);
}

#[tokio::test]
async fn a_rate_is_kept_and_waiting_for_it_counts_no_attempt() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let now = redis_now_ms(&mut redis).await;
    let queue = RedissonQueue::new("rated");
    let sink_a = RedissonQueue::new("a");
    let sink_b = RedissonQueue::new("b");
    for (queue, count) in [(&queue, 1_000), (&sink_a, 500), (&sink_b, 500)] {
        queue.offer_bulk(&mut redis, &overdue(now, (0..count).map(|n| n.to_string()))).await;
    }
    let started = Instant::now();
    let daemon = Daemon::start(&on(
        &server,
        "
sinks:
  fast: { redis: {} }
  slow: { redis: { max_rate: 200/s } }
queues:
  q: { source: { redisson: { name: rated } }, max_rate: 200/s, to: [{ sink: fast, stream: out }] }
  a: { source: { redisson: { name: a } }, to: [{ sink: slow, stream: out-both }] }
  b: { source: { redisson: { name: b } }, to: [{ sink: slow, stream: out-both }] }
",
    ))
    .await;
    stream_of(&mut redis, "out", 1_000).await;
    stream_of(&mut redis, "out-both", 1_000).await;
    for queue in [&queue, &sink_a, &sink_b] {
        emptied(&mut redis, queue).await;
    }
    println!("1,000 elements at 200/s took {:.1} s, start of the daemon included", started.elapsed().as_secs_f64());
    for key in ["out", "out-both"] {
        let deliveries = read_stream(&mut redis, key).await;
        assert_eq!(deliveries.len(), 1_000);
        assert!(deliveries.iter().all(|delivery| delivery.attempt == Some(1)), "{key}: waiting is no attempt");
        let arrived: Vec<i64> = deliveries.iter().map(|delivery| delivery.arrived_ms.unwrap()).collect();
        let took = (arrived[999] - arrived[0]) as f64 / 1_000.0;
        let pace = 1_000.0 / took;
        println!("{key}: {pace:.0}/s over {took:.1} s");
        assert!(pace <= 260.0, "{key}: {pace:.0}/s is more than 30 % above max_rate");
        // Maximum number within any second: the rate and one burst, with a margin for a machine that delivers late.
        let most = (0..1_000).map(|i| arrived[i..].iter().take_while(|at| **at < arrived[i] + 1_000).count()).max();
        println!("{key}: at most {most:?} within one second");
    }
    let both = read_stream(&mut redis, "out-both").await;
    let first_half = both[..500].iter().filter(|delivery| delivery.queue.as_deref() == Some("a")).count();
    println!("of the first 500 at the shared sink {first_half} were of one of its two queues");
    assert!(daemon.metric("delaybridge_throttled_seconds_total").await > 0.0);
}

#[tokio::test]
async fn what_is_too_late_expires_or_is_delivered_as_configured() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let now = redis_now_ms(&mut redis).await;
    let strict = RedissonQueue::new("strict");
    let lenient = RedissonQueue::new("lenient");
    let hour = Duration::from_secs(3_600).as_millis() as i64;
    let late = |n: i64| Element::new(Layout::New, now - hour - n, format!("late {n}"));
    let elements: Vec<Element> = (0..40).map(late).chain(overdue(now, (0..40).map(|n| format!("fine {n}")))).collect();
    for queue in [&strict, &lenient] {
        queue.offer_bulk(&mut redis, &elements).await;
    }
    let mut daemon = Daemon::start(&on(
        &server,
        "
sinks: { same: { redis: {} } }
queues:
  s: { source: { redisson: { name: strict } }, max_lateness: 30m, to: [{ sink: same, stream: out-s }] }
  l: { source: { redisson: { name: lenient } }, max_lateness: 30m, on_expired: deliver, to: [{ sink: same, stream: out-l }] }
",
    ))
    .await;
    daemon.expect_log("dead letter stored");
    stream_of(&mut redis, "out-s", 40).await;
    stream_of(&mut redis, "out-l", 80).await;
    emptied(&mut redis, &strict).await;
    emptied(&mut redis, &lenient).await;
    let fine = read_stream(&mut redis, "out-s").await;
    assert_eq!(fine.len(), 40);
    assert!(fine.iter().all(|delivery| delivery.payload.starts_with(b"fine")));
    let letters = dead_letters(&mut redis, &strict).await;
    assert_eq!(letters.len(), 40);
    for letter in &letters {
        assert_eq!(letter["reason"], b"expired");
        assert!(Layout::New.unpack(&letter["element"]).unwrap().1.starts_with(b"late"));
    }
    assert!(dead_letters(&mut redis, &lenient).await.is_empty());
}
