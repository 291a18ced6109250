//! Claim, settling and sweep with few and with very many pending elements: the scripts alone, in four orders of due
//! times.

use std::time::Duration;

use anyhow::{Context, Result};
use redis::aio::MultiplexedConnection;

use crate::chart::Chart;
use crate::observed::{Counters, log_scripts, longest_scripts, show_longest};
use crate::report::{Findings, Table};
use crate::scripts::Scripts;
use crate::settings::{number, numbers, said};
use harness::fill::{Load, Order, fill};
use harness::redis_server::RedisServer;
use harness::redisson::RedissonQueue;

const DEPTHS: &[usize] = &[1_000, 10_000, 100_000, 1_000_000, 5_000_000];
/// Number of elements drained at each depth unless `DRAIN` is set. Few, so that the depth does not change much.
const DRAIN: usize = 20_000;
/// Maximum number of times that a small depth is filled and drained to reach that number.
const ROUNDS: usize = 20;
/// Maximum number of elements drained in addition while the server writes a replication stream.
const REPLICATED: usize = 2_000;
const QUEUE: &str = "deep";

const COLUMNS: &[&str] = &[
    "pending",
    "due times",
    "drained",
    "/s of Redis",
    "us each",
    "CPU us each",
    "to limit",
    "to least depth",
    "/s with client",
    "longest scripts",
    "ghosts",
    "sweep us/entry",
    "replicas B each",
    "sweep B/entry",
    "memory B each",
];

/// The results for one depth and order.
struct Found {
    us: f64,
    cells: Vec<String>,
}

/// Measures the tables and charts of `ROWS=depth`.
pub async fn measure() -> Result<Findings> {
    let depths = numbers("DEPTHS", DEPTHS)?;
    let size = number("SIZE", 256)?;
    let limit = bare(size).await.context("measure bare commands")?;
    let mut table = Table::new(format!("Claim, settling and sweep alone, {size} B, list_cleanup: auto"), COLUMNS);
    let mut lines = Vec::new();
    for order in Order::ALL {
        let mut points = Vec::new();
        let mut least = None;
        for &depth in &depths {
            said(&format!("depth: {depth} pending, {}", order.name()));
            let found = at(depth, size, order).await.with_context(|| format!("drain with {depth} pending"))?;
            let least = *least.get_or_insert(found.us);
            points.push((depth as f64, 1e6 / found.us));
            let mut cells = found.cells;
            cells.splice(6..6, [format!("{:.1}x", found.us / limit), format!("{:.1}x", found.us / least)]);
            table.lines.push(cells);
        }
        lines.push((order.name().to_owned(), points));
    }
    lines.push(("bare commands (limit)".into(), depths.iter().map(|&depth| (depth as f64, 1e6 / limit)).collect()));
    table.notes = vec![
        "/s of Redis: in one second of Redis's time in claim, settling and the sweeps that were due meanwhile.".into(),
        "CPU us each: of Redis's main thread, its connections included and waiting for a CPU not.".into(),
        format!("to limit: beside {limit:.2} us, the same moves as bare commands of 500 members each, no script."),
        "to least depth: beside the first row of the same order. Promised: at most 3x at 1,000,000, 4x at 5,000,000."
            .into(),
        "ghosts: at worst, and how old. sweep: one full turn after the drain; under load a turn begins when half of the \
         list is ghosts, so at most two entries are walked for each element."
            .into(),
        "drained: DRAIN=all drains everything, and then the first figures hold all sweeps as well.".into(),
    ];
    let chart = Chart {
        title: format!("Elements a second of Redis's time: claim + settle, {size} B"),
        x: "pending",
        y: "elements/s",
        lines,
    };
    Ok(Findings { tables: vec![table], charts: vec![("depth.svg", chart)] })
}

async fn at(depth: usize, size: usize, order: Order) -> Result<Found> {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let queue = RedissonQueue::new(QUEUE);
    let wanted = if std::env::var("DRAIN").as_deref() == Ok("all") { depth } else { number("DRAIN", DRAIN)? };
    let drain = wanted.min(depth);
    let rounds = (wanted / depth).clamp(1, ROUNDS);
    // Leave a few elements for the measurement after the drain; so few that the depth stays about the same.
    let rest = (depth / 10).clamp(1, REPLICATED);
    let load = Load { count: depth, size, order, last_in_ms: -1_000 };
    log_scripts(&mut redis).await?;
    let mut scripts = Scripts::connect(&server, &mut redis, QUEUE, true).await?;
    let mut us = 0.0;
    let mut cpu_us = 0.0;
    let mut seconds = 0.0;
    let mut ghosts = 0;
    let mut oldest = Duration::ZERO;
    let mut memory = 0;
    for round in 1..=rounds {
        // Leave nothing in the other rounds: it would precede the elements of the next round.
        let count = if round == rounds { depth + rest } else { depth };
        let empty = Counters::read(&mut redis).await?;
        fill(&mut redis, &queue, Load { count, ..load }, |_| ()).await?;
        let before = Counters::read(&mut redis).await?;
        memory = before.memory.saturating_sub(empty.memory) / count as u64;
        let drained = scripts.drain(drain).await?;
        let after = Counters::read(&mut redis).await?;
        us += after.scripts_us_since(&before);
        cpu_us += after.cpu_us_since(&before);
        seconds += drained.seconds;
        (ghosts, oldest) = (drained.ghosts.max(ghosts), drained.oldest.max(oldest));
        if round < rounds {
            scripts.turn().await?;
        }
    }
    let drained = (drain * rounds) as f64;
    let us = us / drained;

    server.keep_backlog().await.map_err(anyhow::Error::msg)?;
    let before = Counters::read(&mut redis).await?;
    scripts.drain(rest).await?;
    let replicated = Counters::read(&mut redis).await?;
    let turn = scripts.turn().await?;
    let swept = Counters::read(&mut redis).await?;
    scripts.close().await;
    let longest = longest_scripts(&mut redis).await?;
    let entries = turn.entries.max(1) as f64;
    let cells = vec![
        depth.to_string(),
        order.name().to_owned(),
        format!("{drained}"),
        format!("{:.0}", 1e6 / us),
        format!("{us:.1}"),
        format!("{:.1}", cpu_us / drained),
        format!("{:.0}", drained / seconds),
        show_longest(&longest),
        format!("{ghosts} ({:.1} s)", oldest.as_secs_f64()),
        format!("{:.2}", swept.scripts_us_since(&replicated) / entries),
        format!("{:.0}", (replicated.replicated - before.replicated) as f64 / rest as f64),
        format!("{:.0}", (swept.replicated - replicated.replicated) as f64 / entries),
        memory.to_string(),
    ];
    Ok(Found { us, cells })
}

/// Measures the microseconds of Redis for the moves of one element without any script: out of the sorted set, into
/// another, out of that, off the list. No claim and settling can be cheaper.
async fn bare(size: usize) -> Result<f64> {
    const COUNT: usize = 50_000;
    let server = RedisServer::start().await;
    let mut redis: MultiplexedConnection = server.client().await;
    let queue = RedissonQueue::new(QUEUE);
    fill(&mut redis, &queue, Load { size, ..Load::overdue(COUNT) }, |_| ()).await?;
    let before = Counters::read(&mut redis).await?;
    for _ in 0..COUNT / 500 {
        let popped: Vec<(Vec<u8>, f64)> =
            redis::cmd("ZPOPMIN").arg(&queue.timeouts).arg(500).query_async(&mut redis).await?;
        let scored: Vec<(f64, &[u8])> = popped.iter().map(|(member, score)| (*score, &member[..])).collect();
        let members: Vec<&[u8]> = popped.iter().map(|(member, _)| &member[..]).collect();
        let () = redis::pipe()
            .zadd_multiple("in-flight", &scored)
            .ignore()
            .zrem("in-flight", members)
            .ignore()
            .cmd("LPOP")
            .arg(&queue.list)
            .arg(500)
            .ignore()
            .query_async(&mut redis)
            .await?;
    }
    let after = Counters::read(&mut redis).await?;
    Ok(after.us_since(&before, &["zpopmin", "zadd", "zrem", "lpop"]) / COUNT as f64)
}
