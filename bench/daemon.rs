//! The release binary as a process, with its log and its metrics.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use tempfile::TempDir;

use harness::logs::Lines;
use harness::metrics::Metrics;
use harness::process::{Process, command};
use harness::{http, ports};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Build {
    /// The build of this repository.
    This,
    /// Another build to compare with; the variable `DELAYBRIDGE_BENCH_BESIDE` has the path of its binary.
    Beside,
}

/// The variable with the path of the other binary.
const BESIDE: &str = "DELAYBRIDGE_BENCH_BESIDE";

impl Build {
    /// All available builds.
    pub fn all() -> Vec<Build> {
        let beside = std::env::var_os(BESIDE).map(|_| Build::Beside);
        [Build::This].into_iter().chain(beside).collect()
    }

    /// The name in the tables.
    pub fn name(self) -> &'static str {
        match self {
            Build::This => "delaybridge",
            Build::Beside => "the other build",
        }
    }

    fn binary(self) -> Result<PathBuf> {
        match self {
            Build::This => binary(),
            Build::Beside => std::env::var_os(BESIDE).map(PathBuf::from).with_context(|| format!("read {BESIDE}")),
        }
    }
}

pub struct Daemon {
    pub process: Process,
    log: Lines,
    http_port: u16,
    _config: TempDir,
}

impl Daemon {
    /// Starts this build on a Redis, with these sinks and queues.
    pub fn spawn(redis_url: &str, sinks_and_queues: &str) -> Result<Self> {
        Daemon::spawn_of(Build::This, redis_url, sinks_and_queues)
    }

    /// The same with another build.
    pub fn spawn_of(build: Build, redis_url: &str, sinks_and_queues: &str) -> Result<Self> {
        Daemon::spawn_with(build, &format!("{{ url: {redis_url} }}"), sinks_and_queues)
    }

    /// The same with this value of `redis:`.
    pub fn spawn_at(redis: &str, sinks_and_queues: &str) -> Result<Self> {
        Daemon::spawn_with(Build::This, redis, sinks_and_queues)
    }

    fn spawn_with(build: Build, redis: &str, sinks_and_queues: &str) -> Result<Self> {
        let http_port = ports::free_port();
        let config = TempDir::with_prefix("delaybridge-bench-").context("make a directory")?;
        let path = config.path().join("delaybridge.yaml");
        let yaml = format!("http: {{ listen: 127.0.0.1:{http_port} }}\nredis: {redis}\n{sinks_and_queues}");
        std::fs::write(&path, yaml).context("write the configuration")?;
        let mut command = command(build.binary()?);
        command.arg("run").arg("--config").arg(&path).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = Process::spawn("delaybridge", command).context("start the daemon")?;
        let log = Lines::collect(process.child_mut().stderr.take().context("take the daemon's log")?);
        Ok(Daemon { process, log, http_port, _config: config })
    }

    /// Waits until the daemon is ready.
    pub async fn ready(&mut self) -> Result<()> {
        let until = Instant::now() + Duration::from_secs(20);
        while Instant::now() < until {
            if let Ok(answer) = http::get(self.http_port, "/readyz", Duration::from_secs(2)).await
                && answer.status == 200
            {
                return Ok(());
            }
            if let Some(status) = self.process.exit_status() {
                bail!("the daemon ended with {status}: {}", self.said());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        bail!("the daemon was not ready within 20 s: {}", self.said())
    }

    /// The log.
    pub fn said(&self) -> String {
        self.log.all().join("\n")
    }

    /// Number of logged lines.
    pub fn log_lines(&self) -> usize {
        self.log.count()
    }

    /// Scrapes the metrics once.
    pub async fn metrics(&self) -> Result<Metrics> {
        let answer = http::get(self.http_port, "/metrics", Duration::from_secs(10)).await;
        Ok(Metrics::parse(&answer.map_err(anyhow::Error::msg)?.body))
    }

    pub async fn stop(mut self) {
        self.process.signal(Signal::TERM);
        // A daemon that does not end is killed when it is dropped.
        let _ = self.process.wait(Duration::from_secs(30)).await;
    }
}

/// The path of the binary: Cargo puts examples into a folder beside the binaries of the same profile.
fn binary() -> Result<PathBuf> {
    let own = std::env::current_exe().context("find this program")?;
    let binary = own.ancestors().nth(2).map(|dir| dir.join("delaybridge")).filter(|binary| binary.exists());
    binary.with_context(|| format!("find the daemon beside {}: build it first, `make bench` does", own.display()))
}
