//! The time from the due time to the confirmation, without other load and beside a flood.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use crate::daemon::Daemon;
use crate::histogram::Histogram;
use crate::report::{Row, quantiles};
use harness::fill::{Load, fill};
use harness::oracle::read_stream;
use harness::redis_server::RedisServer;
use harness::redisson::{Element, Layout, RedissonQueue, redis_now_ms};

const PER_SECOND: i64 = 1_000;
const SECONDS: i64 = 20;
const FLOOD: usize = 1_000_000;

/// Measures 1,000 elements/s to a stream, by the server's time in its entries, and to a list, by the daemon's own
/// histogram.
pub async fn measure() -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (sink, to) in [("stream", "stream: out"), ("list", "list: out")] {
        let server = RedisServer::start().await;
        let mut redis = server.client().await;
        let queue = RedissonQueue::new("steady");
        let mut daemon = Daemon::spawn(
            &server.url(),
            &format!(
                "sinks: {{ same: {{ redis: {{}} }} }}\nqueues:\n  q: {{ source: {{ redisson: {{ name: steady }} }}, to: [{{ sink: same, {to} }}] }}\n"
            ),
        )?;
        daemon.ready().await?;
        let count = offer(&mut redis, std::slice::from_ref(&queue)).await?;
        arrive(&mut redis, sink == "list", count).await?;
        let found = if sink == "stream" {
            quantiles(late(&mut redis).await)
        } else {
            let lateness = Histogram::of(&daemon.metrics().await?, "delaybridge_delivery_lateness_seconds");
            format!("{} (daemon's histogram)", lateness.show(&[0.5, 0.99, 1.0]))
        };
        rows.push(Row {
            what: format!("lateness at 1,000/s for 20 s, to a {sink}"),
            found,
            bar: "p50 <= 3 ms, p99 <= 20 ms",
        });
        daemon.stop().await;
    }
    Ok(rows)
}

/// Measures the lateness in the stream `out` of elements from these queues, 1,000/s in all.
pub async fn to_stream(redis: &mut MultiplexedConnection, queues: &[RedissonQueue]) -> Result<String> {
    let () = redis.del("out").await?;
    let count = offer(redis, queues).await?;
    arrive(redis, false, count).await?;
    Ok(quantiles(late(redis).await))
}

/// Offers elements that fall due from two seconds from now on, evenly, each in the next queue; offered in random order.
pub async fn offer(redis: &mut MultiplexedConnection, queues: &[RedissonQueue]) -> Result<usize> {
    let start = redis_now_ms(redis).await + 2_000;
    let all = (0..PER_SECOND * SECONDS)
        .map(|n| Element::new(Layout::New, start + n * 1_000 / PER_SECOND, format!("{n:0256}")));
    let mut each = vec![Vec::new(); queues.len()];
    for (n, element) in all.enumerate() {
        each[n % queues.len()].push(element);
    }
    for (queue, mut elements) in queues.iter().zip(each) {
        fastrand::shuffle(&mut elements);
        queue.offer_bulk(redis, &elements).await;
    }
    ensure!(
        redis_now_ms(redis).await <= start,
        "offering took longer than two seconds, so the first were late before they were there"
    );
    Ok((PER_SECOND * SECONDS) as usize)
}

/// The milliseconds from the due time to the entry, by Redis's clock.
pub async fn late(redis: &mut MultiplexedConnection) -> Vec<i64> {
    let deliveries = read_stream(redis, "out").await;
    deliveries.iter().filter_map(|delivery| Some(delivery.arrived_ms? - delivery.due_ms?)).collect()
}

/// Measures ten elements/s of one queue, while another queue on the same sink has a million overdue.
pub async fn fairness() -> Result<Vec<Row>> {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let flood = RedissonQueue::new("flood");
    let trickle = RedissonQueue::new("trickle");
    fill(&mut redis, &flood, Load::overdue(FLOOD), |_| ()).await?;
    let now = redis_now_ms(&mut redis).await;
    let drops: Vec<Element> =
        (0..6_000).map(|n| Element::new(Layout::New, now + 500 + n * 100, format!("drop {n}"))).collect();
    trickle.offer_bulk(&mut redis, &drops).await;
    let mut daemon = Daemon::spawn(
        &server.url(),
        "sinks: { same: { redis: {} } }
queues:
  flood: { source: { redisson: { name: flood } }, to: [{ sink: same, list: out }] }
  trickle: { source: { redisson: { name: trickle } }, to: [{ sink: same, stream: out-trickle }] }
",
    )?;
    daemon.ready().await?;
    let first = redis_now_ms(&mut redis).await;
    arrive(&mut redis, true, FLOOD).await?;
    let last = redis_now_ms(&mut redis).await;
    let late: Vec<i64> = read_stream(&mut redis, "out-trickle")
        .await
        .iter()
        .filter(|delivery| delivery.due_ms.is_some_and(|due| (first..last).contains(&due)))
        .filter_map(|delivery| Some(delivery.arrived_ms? - delivery.due_ms?))
        .collect();
    daemon.stop().await;
    Ok(vec![Row {
        what: "lateness of 10/s beside 1,000,000 overdue, same sink".to_owned(),
        found: format!("{} ({} elements in {:.1} s)", quantiles(late.clone()), late.len(), (last - first) as f64 / 1e3),
        bar: "not starved",
    }])
}

pub async fn arrive(redis: &mut MultiplexedConnection, list: bool, count: usize) -> Result<()> {
    let arrived = if list { redis::Cmd::llen("out") } else { redis::Cmd::xlen("out") };
    until_there(redis, &arrived, count).await
}

/// Waits for as many entries of a stream.
pub async fn arrive_in(redis: &mut MultiplexedConnection, stream: &str, count: usize) -> Result<()> {
    until_there(redis, &redis::Cmd::xlen(stream), count).await
}

async fn until_there(redis: &mut MultiplexedConnection, arrived: &redis::Cmd, count: usize) -> Result<()> {
    for _ in 0..30_000 {
        if arrived.query_async::<usize>(redis).await? >= count {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    bail!("not all of {count} arrived within ten minutes")
}
