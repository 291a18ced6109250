//! The lateness of a queue with a steady load while another queue of the same daemon drains a backlog.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::daemon::Daemon;
use crate::lateness::{arrive, arrive_in};
use crate::passage::median;
use crate::report::{Row, at};
use crate::settings::{number, rounds, said};
use harness::fill::{Load, fill, payload};
use harness::oracle::read_stream;
use harness::redis_server::RedisServer;
use harness::redisson::{Element, Layout, RedissonQueue, redis_now_ms};

const PER_SECOND: i64 = 2_000;
/// The longest that the backlog takes; the steady load goes on for so long.
const SECONDS: i64 = 90;
/// The time without a backlog, for comparison.
const ALONE_SECONDS: i64 = 10;
const FLOOD: usize = 1_000_000;

/// Measures 2,000 elements/s of one queue to a stream beside a backlog of `ELEMENTS` to another stream.
pub async fn measure() -> Result<Vec<Row>> {
    let count = number("ELEMENTS", FLOOD)?;
    let sinks = [
        ("one sink", "{ same: { redis: {} } }", ["same", "same"]),
        ("two sinks", "{ one: { redis: {} }, other: { redis: {} } }", ["one", "other"]),
    ];
    let mut rows = Vec::new();
    for (name, sinks, of) in sinks {
        let mut runs = Vec::new();
        for run in 1..=rounds()? {
            said(&format!("fairness: {PER_SECOND}/s beside {count}, {name}, run {run}"));
            runs.push(once(count, sinks, of).await?);
        }
        let p99 = |of: fn(&Ran) -> &Vec<i64>| {
            let each: Vec<String> = runs.iter().map(|ran| at(of(ran), 0.99).to_string()).collect();
            each.join(" ")
        };
        let middle = |share| median(runs.iter().map(|ran| at(&ran.beside, share) as f64));
        rows.push(Row {
            what: format!("lateness of {PER_SECOND}/s beside {count} overdue, {name}"),
            found: format!(
                "p50 {} ms, p99 {} ms, max {} ms (p99 each run: {}; alone: {}); backlog {:.0}/s",
                middle(0.5),
                middle(0.99),
                middle(1.0),
                p99(|ran| &ran.beside),
                p99(|ran| &ran.alone),
                median(runs.iter().map(|ran| ran.per_second))
            ),
            bar: "p99 <= 20 ms",
        });
    }
    Ok(rows)
}

/// The results of one run: lateness in ms, sorted.
struct Ran {
    alone: Vec<i64>,
    beside: Vec<i64>,
    /// Elements of the backlog.
    per_second: f64,
}

async fn once(count: usize, sinks: &str, [flood_sink, calm_sink]: [&str; 2]) -> Result<Ran> {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let calm = RedissonQueue::new("calm");
    let flood = RedissonQueue::new("flood");
    // The backlog falls due at once, when the daemon has been at work on the other queue for a while.
    let waiting = RedissonQueue::new("waiting");
    fill(&mut redis, &waiting, Load::overdue(count), |_| ()).await?;
    let start = redis_now_ms(&mut redis).await + 3_000;
    let mut steady: Vec<Element> = (0..PER_SECOND * SECONDS)
        .map(|n| Element::new(Layout::New, start + n * 1_000 / PER_SECOND, payload(n as usize, 256)))
        .collect();
    fastrand::shuffle(&mut steady);
    for some in steady.chunks(10_000) {
        calm.offer_bulk(&mut redis, some).await;
    }
    let mut daemon = Daemon::spawn(
        &server.url(),
        &format!(
            "sinks: {sinks}
queues:
  flood: {{ source: {{ redisson: {{ name: flood }} }}, to: [{{ sink: {flood_sink}, stream: out-flood }}] }}
  calm: {{ source: {{ redisson: {{ name: calm }} }}, to: [{{ sink: {calm_sink}, stream: out }}] }}
"
        ),
    )?;
    daemon.ready().await?;
    let alone_from = start.max(redis_now_ms(&mut redis).await) + 500;
    while redis_now_ms(&mut redis).await < alone_from + 1_000 * ALONE_SECONDS {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let alone_to = redis_now_ms(&mut redis).await;
    let () = redis::pipe()
        .atomic()
        .rename(&waiting.timeouts, &flood.timeouts)
        .rename(&waiting.list, &flood.list)
        .publish(&flood.channel, alone_to)
        .query_async(&mut redis)
        .await?;
    let began = Instant::now();
    arrive_in(&mut redis, "out-flood", count).await?;
    let per_second = count as f64 / began.elapsed().as_secs_f64();
    let last = redis_now_ms(&mut redis).await;
    arrive(&mut redis, false, ((last - start) * PER_SECOND / 1_000) as usize).await?;
    let deliveries = read_stream(&mut redis, "out").await;
    daemon.stop().await;
    let late = |from: i64, to: i64| {
        let due = deliveries.iter().filter(|delivery| delivery.due_ms.is_some_and(|due| (from..to).contains(&due)));
        let mut late: Vec<i64> = due.filter_map(|delivery| Some(delivery.arrived_ms? - delivery.due_ms?)).collect();
        late.sort_unstable();
        late
    };
    Ok(Ran { alone: late(alone_from, alone_to), beside: late(alone_to, last), per_second })
}
