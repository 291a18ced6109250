//! The job queue compared with others in the same run: over a network with faktory, lmstfy and beanstalkd, by its library
//! with asynq. Adding one job per call, then taking and finishing one per call; the lateness of delayed jobs; a server that
//! is killed.

mod asynq;
mod client;
mod crash;
mod depth;
mod library;
mod network;
mod servers;

use std::time::Duration;

use anyhow::{Context, Result};

use crate::passage::median;
use crate::report::{Findings, Table};
use crate::settings::{number, rounds, said, words};
use crash::Fate;
use harness::redis_server::{RedisServer, ServerOptions};
use servers::Peer;

const JOBS: usize = 50_000;
const PRODUCERS: usize = 4;
const CONSUMERS: usize = 20;
const BODY: usize = 256;

const RATES: &[&str] = &[
    "job queue",
    "kept in",
    "added/s",
    "p99 ms",
    "taken and finished/s",
    "p99 ms",
    "server's CPU s for 100,000",
    "its Redis's",
    "both",
    "clients'",
    "MB with all jobs",
];
const LATENESS: &[&str] = &["job queue", "kept in", "p50 ms late", "p99", "max", "min", "of jobs too early"];
const CRASHES: &[&str] =
    &["job queue", "added", "lost", "handed out after a confirmed finish", "handed out again", "s until the last came"];

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
    /// The CPU time of the server that stores the jobs, in microseconds a job.
    server_us: f64,
    /// That of the program between it and the clients.
    daemon_us: Option<f64>,
    client_us: f64,
    /// Resident megabytes of both while all jobs wait.
    memory: Option<f64>,
}

/// A line of the table of rates.
#[derive(Clone, Copy)]
enum Contender {
    Network(Peer),
    Library,
    Asynq,
}

impl Contender {
    const ALL: [Contender; 6] = [
        Contender::Network(Peer::Ours),
        Contender::Network(Peer::Faktory),
        Contender::Network(Peer::Lmstfy),
        Contender::Network(Peer::Beanstalkd),
        Contender::Library,
        Contender::Asynq,
    ];

    fn name(self) -> &'static str {
        match self {
            Contender::Network(peer) => peer.name(),
            Contender::Library => "delaybridge, library on Redis",
            Contender::Asynq => "asynq 0.24.1, library on Redis",
        }
    }

    fn stored_by(self) -> &'static str {
        if let Contender::Network(peer) = self { peer.stored_by() } else { "Redis" }
    }

    async fn run(self, jobs: usize, kept: Kept) -> Result<Ran> {
        let ran = match self {
            Contender::Network(peer) => network::run(peer, jobs, kept).await,
            Contender::Library => library::run(jobs, kept).await,
            Contender::Asynq => asynq::run(jobs, kept).await,
        };
        ran.context(self.name())
    }
}

/// Measures the tables of `ROWS=jobs`.
pub async fn measure() -> Result<Findings> {
    let parts = words("JOB_PARTS", &["rates", "lateness", "crash", "depth"]);
    let mut tables = Vec::new();
    for part in &parts {
        tables.push(match part.as_str() {
            "rates" => rates().await?,
            "lateness" => lateness().await?,
            "crash" => crashes().await?,
            "depth" => deep().await?,
            other => anyhow::bail!("measure {other}: JOB_PARTS are rates, lateness, crash and depth"),
        });
    }
    Ok(Findings { tables, ..Findings::default() })
}

async fn rates() -> Result<Table> {
    let jobs = number("JOBS", JOBS)?;
    let title = format!("{jobs} jobs of {BODY} B, {PRODUCERS} producers and {CONSUMERS} consumers, one job a call");
    let mut table = Table::new(title, RATES);
    for kept in [Kept::Memory, Kept::Log] {
        let mut all: [Vec<Ran>; Contender::ALL.len()] = Default::default();
        for round in 1..=rounds()? {
            for (contender, runs) in Contender::ALL.iter().zip(&mut all) {
                said(&format!("jobs: round {round}, {}, {}", contender.name(), kept.name(contender.stored_by())));
                runs.push(contender.run(jobs, kept).await?);
            }
        }
        for (contender, runs) in Contender::ALL.iter().zip(&all) {
            table.lines.push(line(contender.name(), &kept.name(contender.stored_by()), runs));
        }
    }
    table.notes = [
        "Over a network: a connection for each client, one request after the other; consumers are ready to wait 2 s. They take",
        "from a full queue, and finish a job before the next. CPU: an add, a take and a finish for each job. The two libraries",
        "do the server's part in the process of the clients, asynq in one written in Go. MB: resident, server and Redis.",
        "p99 of a job taken and finished: both calls. asynq takes jobs in a task of its own, so there it is the time of its two",
        "scripts for a job, without what the job waits for in between.",
        "faktory starts its Redis itself and asks it by a socket; here it has the log of the others, not faktory's snapshots.",
        "What is in Redis can have replicas. beanstalkd has none: with its machine its jobs are gone.",
        "Medians of all runs (ROUNDS), which take turns.",
    ]
    .map(String::from)
    .to_vec();
    Ok(table)
}

fn line(name: &str, kept: &str, runs: &[Ran]) -> Vec<String> {
    let middle = |figure: fn(&Ran) -> f64| median(runs.iter().map(figure));
    let one = |figure: fn(&Ran) -> Option<f64>, show: fn(f64) -> String| {
        runs.iter().map(figure).collect::<Option<Vec<f64>>>().map_or("-".to_owned(), |all| show(median(all)))
    };
    // Microseconds a job are tenths of a second for 100,000.
    let cpu = |us: f64| format!("{:.1}", us / 10.0);
    let (server, redis) = match runs.first().and_then(|ran| ran.daemon_us) {
        Some(_) => (one(|ran| ran.daemon_us, |us| format!("{:.1}", us / 10.0)), cpu(middle(|ran| ran.server_us))),
        None if name == Peer::Beanstalkd.name() => (cpu(middle(|ran| ran.server_us)), "-".to_owned()),
        None => ("-".to_owned(), cpu(middle(|ran| ran.server_us))),
    };
    vec![
        name.to_owned(),
        kept.to_owned(),
        format!("{:.0}", middle(|ran| ran.add_rate)),
        format!("{:.2}", middle(|ran| ran.add_p99)),
        format!("{:.0}", middle(|ran| ran.take_rate)),
        format!("{:.2}", middle(|ran| ran.take_p99)),
        server,
        redis,
        cpu(middle(|ran| ran.server_us + ran.daemon_us.unwrap_or_default())),
        cpu(middle(|ran| ran.client_us)),
        one(|ran| ran.memory, |megabytes| format!("{megabytes:.0}")),
    ]
}

async fn lateness() -> Result<Table> {
    let mut table = Table::new("Jobs with a delay of 3 s, 200/s, to consumers that wait", LATENESS);
    for kept in [Kept::Memory, Kept::Log] {
        let mut all: [Vec<Vec<f64>>; Peer::ALL.len()] = Default::default();
        for round in 1..=rounds()? {
            for (peer, runs) in Peer::ALL.into_iter().zip(&mut all) {
                said(&format!("jobs: lateness, round {round}, {}", peer.name()));
                runs.push(network::lateness(peer, kept).await.context(peer.name())?);
            }
        }
        for (peer, runs) in Peer::ALL.into_iter().zip(&all) {
            let figure = |figure: &dyn Fn(&[f64]) -> f64| median(runs.iter().map(|late| figure(late)));
            let at = |share: f64| figure(&|late| late[((late.len() - 1) as f64 * share).round() as usize]);
            let early = figure(&|late| late.iter().filter(|late| **late < 0.0).count() as f64 / late.len() as f64);
            let mut cells = vec![peer.name().to_owned(), kept.name(peer.stored_by())];
            cells.extend([0.5, 0.99, 1.0, 0.0].map(|share| format!("{:.1}", at(share))));
            cells.push(format!("{:.0} %", early * 100.0));
            table.lines.push(cells);
        }
    }
    table.notes = [
        "From the instant before the add is sent, and 3 s, to the arrival at a consumer. Medians of all runs (ROUNDS).",
        "faktory looks for due jobs every 5 s. lmstfy counts whole seconds, drops the fraction, and looks every second.",
    ]
    .map(String::from)
    .to_vec();
    Ok(table)
}

async fn crashes() -> Result<Table> {
    let title = format!(
        "kill -9 of the program that answers clients, {} times, while {PRODUCERS} producers and {CONSUMERS} consumers work",
        Fate::KILLS
    );
    let mut table = Table::new(title, CRASHES);
    for peer in Peer::ALL {
        said(&format!("jobs: kills, {}", peer.name()));
        let fate = crash::run(peer).await.context(peer.name())?;
        let mut cells = vec![peer.name().to_owned()];
        cells.extend([fate.added, fate.lost, fate.after_finish, fate.again].map(|count| count.to_string()));
        cells.push(format!("{:.0}", fate.seconds));
        table.lines.push(cells);
    }
    table.notes = [
        "added: confirmed adds. lost: nobody has sent its finish, and it did not come within 85 s of the last kill. Handed out",
        "again: a job whose take or finish got no answer, which is allowed. The time to run is 60 s, the least of faktory.",
        "Logs are flushed each second. faktory's Redis ends with it, after it has written its log.",
        "A take is two commands of faktory and of lmstfy: a job that is between them at a kill is lost.",
    ]
    .map(String::from)
    .to_vec();
    Ok(table)
}

async fn deep() -> Result<Table> {
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
    Ok(deep)
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
