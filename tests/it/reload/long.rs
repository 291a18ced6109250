//! The same at its full length, with the lateness of the untouched queues compared with that of a run without reloads.

use std::time::Instant;

use super::*;
use crate::faults::rig::pass;

/// Elements per second over all queues.
const RATE: i64 = 2_000;
const QUEUES: i64 = 20;
const CHANGES: i64 = 50;
const SECONDS: i64 = 60;

/// The lateness of the deliveries of all queues except the first, in ms, sorted; checked by the oracle.
async fn run(changes: i64) -> Vec<i64> {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let queues: String = (0..QUEUES).map(|n| queue(&format!("q{n}"), "same", "")).collect();
    let yaml = format!("redis: {{ url: {} }}\nsinks: {{ same: {{ redis: }} }}\nqueues:\n{queues}", server.url());
    let mut daemon = Daemon::start(&yaml).await;
    let original = std::fs::read_to_string(daemon.file()).unwrap();
    let mut oracle = Oracle::new();
    let now = redis_now_ms(&mut redis).await;
    let each = RATE * SECONDS / QUEUES;
    let first = now + 5_000;
    let every = SECONDS * 1_000 / each;
    for n in 0..QUEUES {
        let elements = elements(first + n % every.max(1), every, n * each..(n + 1) * each);
        oracle.offered(&elements);
        RedissonQueue::new(&format!("q{n}")).offer_bulk(&mut redis, &elements).await;
    }
    assert!(redis_now_ms(&mut redis).await < first, "offering took too long");
    let until_due = first - redis_now_ms(&mut redis).await;
    pass(Duration::from_millis(until_due.unsigned_abs())).await;
    let mut longest = Duration::ZERO;
    let began = Instant::now();
    for turn in 1..=changes {
        let changed = queue("q0", "same", &format!(", max_in_flight: {}", 500 + turn));
        daemon.rewrite(|_| original.replace(&queue("q0", "same", ""), &changed));
        let asked = Instant::now();
        assert!(daemon.reload().await);
        longest = longest.max(asked.elapsed());
        let next = Duration::from_secs(1) * u32::try_from(turn).unwrap();
        // One change a second is what is measured.
        pass(next.saturating_sub(began.elapsed())).await;
    }
    let patience = Duration::from_secs(120);
    eventually("all deliveries", patience, async || {
        match redis.clone().xlen::<_, usize>(OUT).await.map_err(|e| e.to_string())? {
            length if length >= oracle.count() => Ok(()),
            length => Err(format!("{length}")),
        }
    })
    .await;
    let deliveries = read_stream(&mut redis, OUT).await;
    let report = oracle.judge(&deliveries);
    report.assert_complete(0);
    assert_eq!(daemon.metric(REPEATS).await, 0.0);
    println!("{changes} changes: {report}; the longest reload took {longest:?}");
    let late = |delivery: &harness::Delivery| Some(delivery.arrived_ms? - delivery.due_ms?);
    let of = |changed: bool| {
        let mut late: Vec<i64> = deliveries
            .iter()
            .filter(|delivery| (delivery.queue.as_deref() == Some("q0")) == changed)
            .filter_map(late)
            .collect();
        late.sort_unstable();
        late
    };
    let at = |late: &[i64], share: f64| late[((late.len() - 1) as f64 * share) as usize];
    let own = of(true);
    let others = of(false);
    for (what, late) in [("q0", &own), ("the others", &others)] {
        println!(
            "{what}: p50 {} ms, p99 {} ms, p99.9 {} ms, worst {} ms",
            at(late, 0.5),
            at(late, 0.99),
            at(late, 0.999),
            at(late, 1.0)
        );
    }
    assert_eq!(daemon.stop().await, 0);
    others
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_changes_at_two_thousand_a_second_cost_the_others_no_lateness() {
    if std::env::var_os("DELAYBRIDGE_LONG").is_none() {
        return;
    }
    let p99 = |late: &[i64]| late[(late.len() - 1) * 99 / 100];
    let without = run(0).await;
    let with = run(CHANGES).await;
    let bound = p99(&without) * 3 / 2 + 10;
    assert!(p99(&with) <= bound, "p99 {} ms with reloads, {} ms without", p99(&with), p99(&without));
}
