//! `make bench`: the figures that the project promises, measured on the release binary and a private redis-server.
//!
//! Prints a table beside the bars and never fails: a figure on a machine that does other things as well is no verdict.
//! `make bench ROWS="idle start"` measures only these. On a machine that is busy with other things, run the tool itself
//! as `chrt -r 10 target/release/examples/bench`: lateness is then the daemon's and not the scheduler's.
//! (The kernel pauses real-time tasks that use all of the CPU for 50 ms a second: scripts in `drain` show that.)

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result};

// The tools of the integration tests: no second redis-server starter, no second Redisson writer.
macro_rules! tools {
    ($($name:ident $path:literal),* $(,)?) => {
        $(
            #[path = $path]
            #[allow(dead_code, reason = "the tests use the rest")]
            mod $name;
        )*
    };
}
tools! {
    http "../tests/it/harness/http.rs",
    kafka "../tests/it/harness/kafka.rs",
    logs "../tests/it/harness/logs.rs",
    metrics "../tests/it/harness/metrics.rs",
    oracle "../tests/it/harness/oracle.rs",
    ports "../tests/it/harness/ports.rs",
    process "../tests/it/harness/process.rs",
    redis_server "../tests/it/harness/redis_server.rs",
    redisson "../tests/it/harness/redisson.rs",
    tls "../tests/it/harness/tls.rs",
}
mod daemon;
mod drain;
mod idle;
mod lateness;
mod passage;
mod scripts;
mod start;
mod to_amqp;
mod to_kafka;

/// One line of the table.
pub struct Row {
    /// What was measured.
    pub what: String,
    /// The figures.
    pub found: String,
    /// What is promised, if anything is.
    pub bar: &'static str,
}

/// The names that `ROWS` may hold, in the order of the table.
const NAMES: [&str; 7] = ["start", "idle", "lateness", "fairness", "drain", "kafka", "amqp"];

#[tokio::main]
async fn main() -> Result<()> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if let Some(unknown) = wanted.iter().find(|name| !NAMES.contains(&name.as_str())) {
        anyhow::bail!("measure {unknown}: there is no such row; there are {}", NAMES.join(", "));
    }
    let mut table = heading().await;
    print!("{table}");
    for name in NAMES.iter().filter(|name| wanted.is_empty() || wanted.iter().any(|wanted| wanted == *name)) {
        let measured = match *name {
            "start" => start::measure().await,
            "idle" => idle::measure().await,
            "lateness" => lateness::measure().await,
            "fairness" => lateness::fairness().await,
            "drain" => drain::measure().await,
            "kafka" => to_kafka::measure().await,
            _ => to_amqp::measure().await,
        };
        let rows = measured.unwrap_or_else(|error| {
            vec![Row { what: (*name).to_owned(), found: format!("not measured: {error:#}"), bar: "" }]
        });
        for Row { what, found, bar } in rows {
            let line = format!("{what:<58} {found:<74} {bar}\n");
            print!("{line}");
            table += &line;
        }
    }
    table += &format!("load at the end: {}\n", load());
    let path = results().join("latest.tmp");
    std::fs::write(&path, table).with_context(|| format!("write {}", path.display()))?;
    println!("\nwritten to {}", path.display());
    Ok(())
}

fn results() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/bench/results"))
}

/// The machine, so that figures of two runs can be compared.
async fn heading() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(": unknown");
    let server = redis_server::RedisServer::start().await;
    let info: String =
        redis::cmd("INFO").arg("server").query_async(&mut server.client().await).await.unwrap_or_default();
    let version = info.lines().find_map(|line| line.strip_prefix("redis_version:")).unwrap_or("unknown");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(text, "delaybridge {}, release binary; everything on one machine", env!("CARGO_PKG_VERSION"));
    let _ = writeln!(text, "{cores} x{}; Redis {version}; load {}", model.replace('\t', ""), load());
    let _ = writeln!(text, "\n{:<58} {:<74} bar", "measured", "found");
    text
}

fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

/// Half, 99 in 100, and all of the values are at most this.
pub fn quantiles(mut values: Vec<i64>) -> String {
    values.sort_unstable();
    let at = |share: f64| values.get(((values.len() as f64 - 1.0) * share).round() as usize).copied().unwrap_or(0);
    format!("p50 {} ms, p99 {} ms, max {} ms", at(0.5), at(0.99), at(1.0))
}
