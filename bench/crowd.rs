//! Many daemons that share one queue, compared with a single one.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use redis::AsyncCommands;

use crate::daemon::Daemon;
use crate::lateness::{arrive, late, offer};
use crate::observed::Counters;
use crate::passage::median;
use crate::report::{Table, middle, quantiles};
use crate::settings::{number, numbers, rounds, said};
use harness::fill::{Load, fill};
use harness::oracle::{Oracle, read_stream};
use harness::redis_server::RedisServer;
use harness::redisson::RedissonQueue;

const CROWDS: &[usize] = &[1, 20];
const ELEMENTS: usize = 200_000;
const WATCH: Duration = Duration::from_secs(20);
const PATIENCE: Duration = Duration::from_secs(300);

const COLUMNS: &[&str] = &[
    "daemons",
    "Redis to the first line's",
    "bar",
    "Redis CPU to the same",
    "Redis, idle",
    "lateness at 1,000/s",
    "Redis us each",
    "Redis CPU us each",
    "backlog of",
    "elements/s",
    "Redis us each, of the backlog",
    "came twice",
];

/// Measures the table of `ROWS=crowd`.
pub async fn measure() -> Result<Table> {
    let crowds = numbers("CROWDS", CROWDS)?;
    let elements = number("ELEMENTS", ELEMENTS)?;
    let mut table = Table::new("Daemons that share one queue, to a stream of the same Redis, 256 B", COLUMNS);
    let mut runs: Vec<Vec<Ran>> = crowds.iter().map(|_| Vec::new()).collect();
    for _ in 0..rounds()? {
        for (crowd, runs) in crowds.iter().zip(&mut runs) {
            said(&format!("crowd: {crowd}"));
            runs.push(run(*crowd, elements).await?);
        }
    }
    for (n, of_crowd) in runs.iter().enumerate() {
        let to_first = |figure: fn(&Ran) -> f64| {
            let [this, first] = [of_crowd, &runs[0]].map(|runs| median(runs.iter().map(figure)));
            format!("{:.2}x", this / first)
        };
        let bar = if n == 0 { "-" } else { "<= 2x" };
        let mut line = middle(&of_crowd.iter().map(|ran| ran.cells.clone()).collect::<Vec<_>>());
        line.splice(1..1, [to_first(|ran| ran.us), bar.to_owned(), to_first(|ran| ran.cpu_us)]);
        table.lines.push(line);
    }
    table.notes = vec![
        "Redis, idle: its CPU while nothing falls due.".into(),
        "Redis us each: its time in scripts, UNLINK and XADD. Looks are plain reads, which only the CPU has in it."
            .into(),
        "to the first line's: Redis us each at 1,000/s; medians of all runs (ROUNDS).".into(),
    ];
    Ok(table)
}

struct Ran {
    /// Microseconds of Redis for each element at 1,000/s: of scripts, UNLINK and XADD; below, of CPU.
    us: f64,
    cpu_us: f64,
    cells: Vec<String>,
}

async fn run(crowd: usize, elements: usize) -> Result<Ran> {
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
    let us = |before: &Counters, after: &Counters| after.daemon_us_since(before) + after.us_since(before, &["xadd"]);
    let before = server.running().usage().cpu;
    let began = Instant::now();
    tokio::time::sleep(WATCH).await;
    let used = server.running().usage().cpu.saturating_sub(before);
    let idle = used.as_secs_f64() / began.elapsed().as_secs_f64() * 100.0;

    let count = offer(&mut redis, std::slice::from_ref(&queue)).await?;
    let before = Counters::read(&mut redis).await?;
    arrive(&mut redis, false, count).await?;
    let after = Counters::read(&mut redis).await?;
    let [late_us, late_cpu_us] = [us(&before, &after), after.cpu_us_since(&before)].map(|us| us / count as f64);
    let late = quantiles(late(&mut redis).await);

    // The backlog is complete before any daemon can claim from it.
    let () = redis.del("out").await?;
    let mut oracle = Oracle::new();
    let load = Load { last_in_ms: 20_000, order: harness::fill::Order::OneMillisecond, ..Load::overdue(elements) };
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
    let cells = vec![
        crowd.to_string(),
        format!("{idle:.2} %"),
        late,
        format!("{late_us:.1}"),
        format!("{late_cpu_us:.1}"),
        elements.to_string(),
        format!("{:.0}", elements as f64 / seconds),
        format!("{drain_us:.1}"),
        report.duplicates.to_string(),
    ];
    Ok(Ran { us: late_us, cpu_us: late_cpu_us, cells })
}
