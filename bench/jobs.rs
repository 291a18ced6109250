//! The job queue compared with beanstalkd and asynq in the same run: adding one job per call, then taking and finishing
//! one per call.

mod asynq;
mod beanstalkd;
mod depth;
mod library;
mod over_http;

use std::time::Duration;

use anyhow::{Context, Result};

use crate::passage::median;
use crate::report::{Findings, Table};
use crate::settings::{number, rounds, said};
use harness::redis_server::{RedisServer, ServerOptions};

const JOBS: usize = 50_000;
const PRODUCERS: usize = 4;
const CONSUMERS: usize = 20;
const BODY: usize = 256;

const COLUMNS: &[&str] = &[
    "job queue",
    "kept in",
    "added/s",
    "p99 ms",
    "taken and finished/s",
    "p99 ms",
    "server CPU us a job",
    "daemon CPU us a job",
    "client CPU us a job",
];

/// The durability of an added job.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// In memory only.
    Memory,
    /// Also in a log, which is flushed to the disk once a second.
    Log,
}

impl Kept {
    /// Starts a Redis with this durability.
    async fn redis(self) -> RedisServer {
        let options = ServerOptions::default();
        RedisServer::start_with(match self {
            Kept::Memory => options,
            Kept::Log => options.line("appendonly", "yes").line("appendfsync", "everysec"),
        })
        .await
    }

    fn name(self, server: &str) -> String {
        match self {
            Kept::Memory => format!("{server}'s memory"),
            Kept::Log => format!("{server}, log flushed each second"),
        }
    }
}

/// The results of one system.
#[derive(Default, Clone)]
struct Ran {
    add_rate: f64,
    add_p99: f64,
    take_rate: f64,
    take_p99: f64,
    server_us: f64,
    daemon_us: Option<f64>,
    client_us: f64,
}

const NAMES: [(&str, &str); 4] = [
    ("delaybridge over HTTP", "Redis"),
    ("delaybridge, library on Redis", "Redis"),
    ("asynq 0.24.1", "Redis"),
    ("beanstalkd", "beanstalkd"),
];

/// Measures the tables of `ROWS=jobs`.
pub async fn measure() -> Result<Findings> {
    let jobs = number("JOBS", JOBS)?;
    let title = format!("{jobs} jobs of {BODY} B, {PRODUCERS} producers and {CONSUMERS} consumers, one job a call");
    let mut table = Table::new(title, COLUMNS);
    for kept in [Kept::Memory, Kept::Log] {
        let mut all: [Vec<Ran>; 4] = Default::default();
        for round in 1..=rounds()? {
            said(&format!("jobs: round {round}, {}", kept.name("each")));
            all[0].push(over_http::run(jobs, kept).await.context("over HTTP")?);
            all[1].push(library::run(jobs, kept).await.context("the library")?);
            all[2].push(asynq::run(jobs, kept).await.context("asynq")?);
            all[3].push(beanstalkd::run(jobs, kept).await.context("beanstalkd")?);
        }
        for ((name, server), runs) in NAMES.iter().zip(&all) {
            table.lines.push(line(name, &kept.name(server), runs));
        }
    }
    table.notes = vec![
        "server: Redis, or beanstalkd. daemon: delaybridge. client: producers and consumers; without HTTP, delaybridge and".into(),
        "asynq do their part there. Consumers take from a full queue, and finish each job before the next.".into(),
        "p99 of a job taken and finished: both calls. asynq takes jobs in a task of its own, so there it is the time of its two".into(),
        "scripts for a job, without what the job waits for in between.".into(),
        "What is in Redis can have replicas. beanstalkd has none: with its machine its jobs are gone.".into(),
        "Medians of all runs (ROUNDS).".into(),
    ];
    let mut deep = Table::new(
        "The same at depth, jobs of 16 B",
        &["jobs that wait", "priorities", "Redis us to add", "Redis us to take and finish", "bytes a job"],
    );
    for depth in [1_000, 100_000, number("DEPTH", 1_000_000)?] {
        said(&format!("jobs: {depth} deep"));
        for priorities in [false, true] {
            deep.lines.push(depth::run(depth, priorities).await?);
        }
    }
    Ok(Findings { tables: vec![table, deep], ..Findings::default() })
}

fn line(name: &str, kept: &str, runs: &[Ran]) -> Vec<String> {
    let middle = |figure: fn(&Ran) -> f64| median(runs.iter().map(figure));
    let daemon = if runs.iter().all(|ran| ran.daemon_us.is_some()) {
        format!("{:.0}", middle(|ran| ran.daemon_us.unwrap_or_default()))
    } else {
        "-".to_owned()
    };
    vec![
        name.to_owned(),
        kept.to_owned(),
        format!("{:.0}", middle(|ran| ran.add_rate)),
        format!("{:.2}", middle(|ran| ran.add_p99)),
        format!("{:.0}", middle(|ran| ran.take_rate)),
        format!("{:.2}", middle(|ran| ran.take_p99)),
        format!("{:.0}", middle(|ran| ran.server_us)),
        daemon,
        format!("{:.0}", middle(|ran| ran.client_us)),
    ]
}

/// The 99th percentile, in milliseconds.
fn p99(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times.get(times.len() * 99 / 100).map_or(0.0, |time| time.as_secs_f64() * 1e3)
}

/// The CPU time of this process.
fn own_cpu() -> Duration {
    brokers::process::Usage::of(std::process::id()).cpu
}

/// The microseconds for each job.
fn each(now: Duration, before: Duration, jobs: usize) -> f64 {
    now.saturating_sub(before).as_secs_f64() * 1e6 / jobs as f64
}

async fn gathered(tasks: Vec<tokio::task::JoinHandle<Vec<Duration>>>) -> Result<Vec<Duration>> {
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await.context("a client")?);
    }
    Ok(all)
}
