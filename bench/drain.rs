//! Claim, delivery, settling and sweep at four depths, with due times in another order than the offers.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use crate::daemon::Daemon;
use crate::observed::{Counters, log_scripts, longest_scripts, show_longest};
use crate::report::Row;
use harness::fill::{Load, fill};
use harness::redis_server::RedisServer;
use harness::redisson::RedissonQueue;

const DEPTHS: [usize; 4] = [1_000, 20_000, 100_000, 1_000_000];

struct Drained {
    seconds: f64,
    /// Microseconds of Redis in the daemon's scripts, for each element.
    scripts_us: f64,
    /// Microseconds of Redis in the sink's commands, for each element.
    sink_us: f64,
    swept: f64,
    slowest: String,
}

/// Measures the rows of `ROWS=drain`.
pub async fn measure() -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (name, to) in
        [("list, exactly once", "list: \"{deep}:out\", exactly_once: true"), ("stream", "stream: \"{deep}:out\"")]
    {
        let mut costs = Vec::new();
        for depth in DEPTHS {
            let drained = drain(depth, to).await?;
            let Drained { seconds, scripts_us, sink_us, swept, slowest } = drained;
            costs.push(scripts_us + sink_us);
            rows.push(Row {
                what: format!("{depth} pending, random due times, to a {name}"),
                found: format!(
                    "{:.0}/s; Redis {scripts_us:.1} + {sink_us:.1} us each; swept after {swept:.1} s; longest {slowest}",
                    depth as f64 / seconds
                ),
                bar: "",
            });
        }
        let (least, most) = costs.iter().fold((f64::MAX, 0.0f64), |(low, high), us| (low.min(*us), high.max(*us)));
        rows.push(Row {
            what: format!("Redis per element at any depth, to a {name}"),
            found: format!("within {:.1}x of each other", most / least),
            bar: "within 3x",
        });
    }
    Ok(rows)
}

async fn drain(depth: usize, to: &str) -> Result<Drained> {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("deep");
    fill(&mut redis, &queue, Load::overdue(depth), |_| ()).await?;
    log_scripts(&mut redis).await?;
    let before = Counters::read(&mut redis).await?;
    let mut daemon = Daemon::spawn(
        &server.url(),
        &format!(
            "sinks: {{ same: {{ redis: {{}} }} }}\nqueues:\n  q: {{ source: {{ redisson: {{ name: deep, ghost_max_age: 1s }} }}, to: [{{ sink: same, {to} }}] }}\n"
        ),
    )?;
    // The time begins with the first claim; the start is measured elsewhere.
    while redis.zcard::<_, usize>(&queue.timeouts).await? == depth {
        if let Some(status) = daemon.process.exit_status() {
            bail!("the daemon ended with {status}");
        }
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
    let started = Instant::now();
    let left = async |redis: &mut MultiplexedConnection| -> Result<(usize, usize)> {
        let (scheduled, in_flight, listed): (usize, usize, usize) = redis::pipe()
            .zcard(&queue.timeouts)
            .add_command(queue.count_in_flight())
            .llen(&queue.list)
            .query_async(redis)
            .await?;
        Ok((scheduled + in_flight, listed))
    };
    while left(&mut redis).await?.0 > 0 {
        tokio::time::sleep(Duration::from_millis(if depth > 1_000 { 20 } else { 1 })).await;
    }
    let seconds = started.elapsed().as_secs_f64();
    while left(&mut redis).await?.1 > 0 {
        if started.elapsed() > Duration::from_secs(300) {
            bail!("ghosts are left after five minutes");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let swept = started.elapsed().as_secs_f64();
    let after = Counters::read(&mut redis).await?;
    // With exactly once the push is part of the settling script, and `evalsha` includes the time of its commands.
    let sink_us = if to.contains("exactly_once") { 0.0 } else { after.us_since(&before, &["xadd"]) };
    let slowest = show_longest(&longest_scripts(&mut redis).await?);
    daemon.stop().await;
    let scripts_us = after.scripts_us_since(&before) / depth as f64;
    Ok(Drained { seconds, scripts_us, sink_us: sink_us / depth as f64, swept, slowest })
}
