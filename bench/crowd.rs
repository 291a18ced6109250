//! Many daemons that share one queue, beside a single one.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use redis::AsyncCommands;

use crate::daemon::Daemon;
use crate::fill::{Load, fill};
use crate::lateness::to_stream;
use crate::observed::Counters;
use crate::oracle::{Oracle, read_stream};
use crate::redis_server::RedisServer;
use crate::redisson::RedissonQueue;
use crate::report::Table;
use crate::settings::{number, numbers, said};

const CROWDS: &[usize] = &[1, 20];
const ELEMENTS: usize = 200_000;
const WATCH: Duration = Duration::from_secs(20);
const PATIENCE: Duration = Duration::from_secs(300);

const COLUMNS: &[&str] = &[
    "daemons",
    "Redis, idle",
    "lateness at 1,000/s",
    "Redis us each",
    "backlog of",
    "elements/s",
    "Redis us each, of the backlog",
    "came twice",
];

/// The rows of `ROWS=crowd`.
pub async fn measure() -> Result<Table> {
    let (crowds, elements) = (numbers("CROWDS", CROWDS)?, number("ELEMENTS", ELEMENTS)?);
    let mut table = Table::new("Daemons that share one queue, to a stream of the same Redis, 256 B", COLUMNS);
    for crowd in crowds {
        said(&format!("crowd: {crowd}"));
        table.lines.push(run(crowd, elements).await?);
    }
    table.notes = vec![
        "Redis, idle: its CPU while nothing falls due.".into(),
        "Redis us each: its time in scripts and in XADD; looks that found nothing are in it.".into(),
    ];
    Ok(table)
}

async fn run(crowd: usize, elements: usize) -> Result<Vec<String>> {
    let mut server = RedisServer::start().await;
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("crowd");
    let yaml = "sinks: { same: { redis: {} } }\nqueues:\n  q: { source: { redisson: { name: crowd } }, to: [{ sink: same, stream: out }] }\n";
    let mut daemons = Vec::new();
    for _ in 0..crowd {
        daemons.push(Daemon::spawn(&server.url(), yaml)?);
    }
    for daemon in &mut daemons {
        daemon.ready().await?;
    }
    let us = |before: &Counters, after: &Counters| after.scripts_us_since(before) + after.us_since(before, &["xadd"]);
    let (before, began) = (server.running().usage().cpu, Instant::now());
    tokio::time::sleep(WATCH).await;
    let used = server.running().usage().cpu.saturating_sub(before);
    let idle = used.as_secs_f64() / began.elapsed().as_secs_f64() * 100.0;

    let before = Counters::read(&mut redis).await?;
    let late = to_stream(&mut redis, std::slice::from_ref(&queue)).await?;
    let late_us = us(&before, &Counters::read(&mut redis).await?) / redis.xlen::<_, f64>("out").await?;

    // The backlog is complete before any daemon may claim from it.
    let () = redis.del("out").await?;
    let mut oracle = Oracle::new();
    let load = Load { last_in_ms: 20_000, order: crate::fill::Order::OneMillisecond, ..Load::overdue(elements) };
    fill(&mut redis, &queue, load, |some| oracle.offered(some)).await?;
    ensure!(redis.xlen::<_, usize>("out").await? == 0, "{elements} could not be offered before they fell due");
    let before = Counters::read(&mut redis).await?;
    while redis.xlen::<_, usize>("out").await? == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let began = Instant::now();
    let mut arrived = 0;
    while arrived < elements {
        ensure!(began.elapsed() < PATIENCE, "{arrived} of {elements} had arrived after {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
        arrived = redis.xlen("out").await?;
    }
    let seconds = began.elapsed().as_secs_f64();
    let drain_us = us(&before, &Counters::read(&mut redis).await?) / elements as f64;
    let report = oracle.judge(&read_stream(&mut redis, "out").await);
    ensure!(report.is_complete(), "not everything arrived as it was: {report}");
    for daemon in daemons {
        daemon.stop().await;
    }
    Ok(vec![
        crowd.to_string(),
        format!("{idle:.2} %"),
        late,
        format!("{late_us:.1}"),
        elements.to_string(),
        format!("{:.0}", elements as f64 / seconds),
        format!("{drain_us:.1}"),
        report.duplicates.to_string(),
    ])
}
