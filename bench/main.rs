//! `make bench`: measures the figures that the project promises, on the release binary and servers of its own.
//!
//! Prints tables, draws charts, and never fails because of a figure: on a shared machine a figure is no verdict.
//! `bench/README.md` describes each name of `ROWS`, its duration and its settings.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result};

mod bare;
mod chart;
mod cluster;
mod crowd;
mod daemon;
mod depth;
mod drain;
mod end_to_end;
mod floor;
mod from_amqp;
mod from_kafka;
mod histogram;
mod idle;
mod intake;
mod jobs;
mod lateness;
mod neighbour;
mod observed;
mod ordered;
mod outage;
mod passage;
mod peer;
mod peers;
mod plugin;
mod pools;
mod queues;
mod range;
mod rate;
mod replica;
mod report;
mod scripts;
mod settings;
mod start;
mod steady;
mod to_amqp;
mod to_kafka;
mod to_nats;
mod to_ours;
mod to_webhook;
mod trickle;
mod yardstick;
mod zset;

use report::{Findings, Table};

/// The allowed names in `ROWS`, in the order of the report.
const NAMES: [&str; 30] = [
    "start",
    "idle",
    "lateness",
    "fairness",
    "neighbour",
    "queues",
    "crowd",
    "cluster",
    "drain",
    "order",
    "kafka",
    "amqp",
    "nats",
    "inputs",
    "plugin",
    "sqs",
    "amqp1",
    "rocketmq",
    "depth",
    "pools",
    "zset",
    "range",
    "replica",
    "rate",
    "trickle",
    "outage",
    "end_to_end",
    "steady",
    "jobs",
    "peers",
];

/// Measures the rows of `ROWS=inputs`.
async fn inputs() -> Result<Vec<report::Row>> {
    let mut rows = from_amqp::measure().await?;
    rows.extend(from_kafka::measure().await?);
    Ok(rows)
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // The daemon's runtime, also for the loop that is compared with it.
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(4);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    match arguments.split_first() {
        Some((first, rest)) if first == floor::NAME => runtime.block_on(floor::run(rest)),
        _ => runtime.block_on(measure(arguments)),
    }
}

/// Measures the rows with these names, or all.
async fn measure(wanted: Vec<String>) -> Result<()> {
    if let Some(unknown) = wanted.iter().find(|name| !NAMES.contains(&name.as_str())) {
        anyhow::bail!("measure {unknown}: there is no such row; there are {}", NAMES.join(", "));
    }
    let mut report = heading().await;
    print!("{report}");
    for name in NAMES.iter().filter(|name| wanted.is_empty() || wanted.iter().any(|wanted| wanted == *name)) {
        let measured: Result<Findings> = match *name {
            "start" => start::measure().await.map(Findings::from),
            "idle" => idle::measure().await.map(Findings::from),
            "lateness" => lateness::measure().await.map(Findings::from),
            "fairness" => lateness::fairness().await.map(Findings::from),
            "neighbour" => neighbour::measure().await.map(Findings::from),
            "queues" => queues::measure().await.map(Findings::from),
            "crowd" => crowd::measure().await.map(Findings::from),
            "cluster" => cluster::measure().await.map(Findings::from),
            "outage" => outage::measure().await.map(Findings::from),
            "drain" => drain::measure().await.map(Findings::from),
            "order" => ordered::measure().await.map(Findings::from),
            "kafka" => to_kafka::measure().await.map(Findings::from),
            "amqp" => to_amqp::measure().await.map(Findings::from),
            "nats" => to_nats::measure().await.map(Findings::from),
            "inputs" => inputs().await.map(Findings::from),
            "plugin" => plugin::measure().await.map(Findings::from),
            "sqs" => to_ours::to_sqs().await.map(Findings::from),
            "amqp1" => to_ours::to_amqp1().await.map(Findings::from),
            "rocketmq" => to_ours::to_rocketmq().await.map(Findings::from),
            "depth" => depth::measure().await,
            "pools" => pools::measure().await.map(Findings::from),
            "zset" => zset::measure().await.map(Findings::from),
            "range" => range::measure().await.map(Findings::from),
            "replica" => replica::measure().await.map(Findings::from),
            "rate" => rate::measure().await.map(Findings::from),
            "trickle" => trickle::measure().await.map(Findings::from),
            "end_to_end" => end_to_end::measure().await.map(Findings::from),
            "steady" => steady::measure().await.map(Findings::from),
            "jobs" => jobs::measure().await,
            _ => peers::measure().await,
        };
        let findings = measured.unwrap_or_else(|error| {
            let mut table = Table::new("", &["measured", "found"]);
            table.lines.push(vec![(*name).to_owned(), format!("not measured: {error:#}")]);
            table.into()
        });
        for table in &findings.tables {
            let text = format!("\n{}", table.text());
            print!("{text}");
            report += &text;
        }
        for (file, chart) in &findings.charts {
            if let Some(svg) = chart.svg() {
                write(file, &svg)?;
            }
        }
        let _ = writeln!(report, "  load after {name}: {}", load());
    }
    write("latest.txt", &report)
}

/// Writes a file of the last results, which are not in the repository.
fn write(file: &str, text: &str) -> Result<()> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/bench/results/latest"));
    let path = folder.join(file);
    std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::write(&path, text))
        .with_context(|| format!("write {}", path.display()))?;
    settings::said(&format!("written: {}", path.display()));
    Ok(())
}

/// Describes the machine and the versions, so that two runs can be compared.
async fn heading() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(": unknown");
    let server = harness::RedisServer::start().await;
    let info: String =
        redis::cmd("INFO").arg("server").query_async(&mut server.client().await).await.unwrap_or_default();
    let version = info.lines().find_map(|line| line.strip_prefix("redis_version:")).unwrap_or("unknown");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let git = std::process::Command::new("git")
        .args(["-C", env!("CARGO_MANIFEST_DIR"), "describe", "--always", "--dirty", "--abbrev=12"])
        .output();
    let commit = git.map(|git| String::from_utf8_lossy(&git.stdout).trim().to_owned()).unwrap_or_default();
    let build = if cfg!(debug_assertions) { "DEBUG build: no figure of it means anything" } else { "release build" };
    format!(
        "delaybridge {} ({commit}), {build}; everything on one machine\n{cores} x{}; load {}\nRedis {version}, {}\n",
        env!("CARGO_PKG_VERSION"),
        model.replace('\t', ""),
        load(),
        brokers::versions().join(", ")
    )
}

fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}
