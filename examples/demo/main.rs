//! `make demo`, `make demo-kafka`, `make demo-amqp`: shows a delivery from end to end, and changes nothing on this
//! machine.
//!
//! Starts a private redis-server and, if asked for, a private broker, offers 1,000 elements in Redisson's format, runs
//! the daemon with a configuration that is shown, and gives a verdict that does not rely on the daemon: the deliveries
//! are read back from their destination.

use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use redis::aio::MultiplexedConnection;
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::sync::oneshot;

mod target;

use harness::logs::Lines;
use harness::oracle::{self, Delivery, Oracle, Report};
use harness::ports;
use harness::process::{self, Process};
use harness::redis_server::RedisServer;
use harness::redisson::{RedissonQueue, redis_now_ms};
use target::Target;

const ELEMENTS: usize = 1000;
/// The first and the last due time after the first offer; the daemon is ready before the first.
const FIRST_DUE_MS: i64 = 1_000;
const LAST_DUE_MS: i64 = 10_000;
/// Time-out after the last due time.
const GRACE: Duration = Duration::from_secs(20);

const QUEUE: &str = "order:timeout";

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let kind = std::env::args().nth(1).unwrap_or_else(|| "redis".to_owned());
    let interrupted = interruption()?;
    // Order does not matter: the first to end ends the demo. Dropping the demo ends its processes and removes its
    // files.
    tokio::select! {
        verdict = demo(&kind) => verdict,
        _ = interrupted => {
            println!("\ninterrupted: the processes are ended, the files are removed");
            Ok(ExitCode::from(130))
        }
    }
}

/// Resolves at the first SIGINT or SIGTERM. The children are in process groups of their own, so Ctrl-C does not reach
/// them.
fn interruption() -> Result<oneshot::Receiver<i32>> {
    let mut signals = signal_hook::iterator::Signals::new([signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM])
        .context("listen for signals")?;
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            // The receiver is gone if the demo has just ended.
            let _ = sender.send(signal);
        }
    });
    Ok(receiver)
}

async fn demo(kind: &str) -> Result<ExitCode> {
    let binary = daemon_binary()?;
    let dir = TempDir::with_prefix("delaybridge-demo-").context("make a directory")?;
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    println!("A private redis-server listens on port {}; it is gone when this is over.", server.port());
    let mut target = Target::start(kind, redis.clone()).await?;

    let http_port = ports::free_port();
    let page_port = ports::free_port();
    let yaml = configuration(&server.url(), http_port, page_port, &target);
    let config = dir.path().join("delaybridge.yaml");
    std::fs::write(&config, &yaml).with_context(|| format!("write {}", config.display()))?;
    println!("The daemon runs on this file:\n");
    yaml.lines().for_each(|line| println!("    {line}"));

    let (oracle, last_due) = offer(&mut redis).await;
    println!("\n{ELEMENTS} elements offered as Redisson does, due within the next ten seconds.\n");

    let mut daemon = Daemon::start(&binary, &config)?;
    println!("$ delaybridge run --config {}\n", config.display());
    println!("    While it runs, its page is at http://127.0.0.1:{page_port}/\n");
    println!("    due (UTC)     late    element");
    let arrived_in_time = daemon.show_until_complete(&mut redis, &target, last_due).await?;
    let exit_code = daemon.stop().await;

    let deliveries = target.read().await;
    let report = oracle.judge(&deliveries);
    let left = left_in_queue(&mut redis).await?;
    target.show(&deliveries);
    print_summary(&report, &daemon.lateness(), left);

    let good =
        arrived_in_time && report.is_complete() && report.arrived == ELEMENTS && left == 0 && exit_code == Some(0);
    if good {
        println!("{NEXT}");
    } else {
        println!("\nThis is not as it should be (exit code of the daemon: {exit_code:?}). Its log:\n");
        daemon.log.all().iter().for_each(|line| println!("    {line}"));
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The path of the daemon: Cargo puts examples into a folder beside the binaries of the same profile.
fn daemon_binary() -> Result<PathBuf> {
    let own = std::env::current_exe().context("find this program")?;
    let binary = own.ancestors().nth(2).map(|dir| dir.join("delaybridge")).filter(|binary| binary.exists());
    binary.with_context(|| format!("find the daemon beside {}: build it first, `make demo` does", own.display()))
}

/// The next steps after the demo.
const NEXT: &str = "
Next, with queues of your own. Until you remove `mode: shadow` from the file, nothing is written:

    delaybridge discover --url redis://127.0.0.1:6379/0 > delaybridge.yaml   # your queues, with their codec
    delaybridge check --live --config delaybridge.yaml
    delaybridge run --config delaybridge.yaml

`make build` builds target/release/delaybridge. docs/tutorials/redisson-team.md goes on to RabbitMQ and Kafka.";

fn configuration(redis_url: &str, http_port: u16, page_port: u16, target: &Target) -> String {
    let sink = target.sink();
    let destination = target.destination();
    format!(
        "\
http: {{ listen: \"127.0.0.1:{http_port}\", admin: {{ listen: \"127.0.0.1:{page_port}\" }} }}   # /metrics and the probes; the page

redis:
  url: {redis_url}

sinks:
  screen: {{ stdout: {{}} }}
  shop: {sink}

queues:
  order_timeout:
    source: {{ redisson: {{ name: \"{QUEUE}\" }} }}
    codec: json
    to:
      - sink: screen
      - {{ sink: shop, {destination} }}
"
    )
}

/// Offers elements in an order that is independent of their due times, as applications do.
async fn offer(redis: &mut MultiplexedConnection) -> (Oracle, i64) {
    let queue = RedissonQueue::new(QUEUE);
    let span = LAST_DUE_MS - FIRST_DUE_MS;
    let mut delays: Vec<i64> = (0..ELEMENTS as i64).map(|n| FIRST_DUE_MS + n * span / (ELEMENTS as i64 - 1)).collect();
    fastrand::shuffle(&mut delays);
    let start = redis_now_ms(redis).await;
    let mut oracle = Oracle::new();
    for (n, delay) in delays.into_iter().enumerate() {
        let payload = format!(r#"{{"orderId":{},"state":"unpaid"}}"#, 70_001 + n);
        let element = queue.offer(redis, start + delay, payload).await;
        oracle.offered([&element]);
    }
    (oracle, start + LAST_DUE_MS)
}

struct Daemon {
    process: Process,
    deliveries: Lines,
    log: Lines,
}

impl Daemon {
    fn start(binary: &std::path::Path, config: &std::path::Path) -> Result<Self> {
        let mut command = process::command(binary);
        command.arg("run").arg("--config").arg(config).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Process::spawn("delaybridge", command).context("start the daemon")?;
        let deliveries = process.child_mut().stdout.take().context("take the daemon's standard output")?;
        let log = process.child_mut().stderr.take().context("take the daemon's standard error")?;
        Ok(Daemon { process, deliveries: Lines::collect(deliveries), log: Lines::collect(log) })
    }

    /// Shows deliveries as they arrive; returns true when all have arrived in both sinks, and false after the time-out.
    async fn show_until_complete(
        &mut self,
        redis: &mut MultiplexedConnection,
        target: &Target,
        last_due: i64,
    ) -> Result<bool> {
        let mut shown = 0;
        loop {
            let lines = self.deliveries.since(shown);
            shown += lines.len();
            lines.iter().for_each(|line| show(&oracle::of_line(line)));
            if shown >= ELEMENTS && target.count().await >= ELEMENTS {
                return Ok(true);
            }
            if let Some(status) = self.process.exit_status() {
                bail!("run the daemon: it ended with {status}:\n{}", self.log.all().join("\n"));
            }
            if redis_now_ms(redis).await > last_due + i64::try_from(GRACE.as_millis())? {
                return Ok(false);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The lateness of each element on the screen, which gets it at the same time as the other sink.
    fn lateness(&self) -> Vec<i64> {
        self.deliveries.all().iter().filter_map(|line| Some(oracle::of_line(line).late_ms? as i64)).collect()
    }

    /// Sends SIGTERM; returns the exit code, or `None` if the daemon had to be killed.
    async fn stop(&mut self) -> Option<i32> {
        self.process.signal(Signal::TERM);
        self.process.wait(Duration::from_secs(30)).await.and_then(|status| status.code())
    }
}

fn show(delivery: &Delivery) {
    let due = delivery.due_ms.unwrap_or(0);
    let late = delivery.late_ms.unwrap_or(0.0);
    println!("    {}  {late:>4.0} ms  {}", clock(due), String::from_utf8_lossy(&delivery.payload));
}

/// The time of day in UTC.
fn clock(ms: i64) -> String {
    let hours = ms / 3_600_000 % 24;
    let minutes = ms / 60_000 % 60;
    let seconds = ms / 1000 % 60;
    format!("{hours:02}:{minutes:02}:{seconds:02}.{:03}", ms % 1000)
}

/// Number of elements that are still in any structure of the queue.
async fn left_in_queue(redis: &mut MultiplexedConnection) -> Result<usize> {
    let queue = RedissonQueue::new(QUEUE);
    let (scheduled, in_flight, retry, dead): (usize, usize, usize, usize) = redis::pipe()
        .zcard(&queue.timeouts)
        .add_command(queue.count_in_flight())
        .zcard(queue.bridge_key("retry"))
        .xlen(queue.bridge_key("dead"))
        .query_async(redis)
        .await
        .context("count what is left in the queue")?;
    Ok(scheduled + in_flight + retry + dead)
}

fn print_summary(report: &Report, late: &[i64], left: usize) {
    let mut late = late.to_vec();
    late.sort_unstable();
    let at = |share: f64| late.get(((late.len() as f64 - 1.0) * share).round() as usize).copied().unwrap_or(0);
    println!("\n    offered      {:>6}", report.offered);
    println!("    delivered    {:>6}", report.arrived);
    println!("    lost         {:>6}", report.missing.len());
    println!("    duplicates   {:>6}", report.duplicates);
    println!("    left behind  {left:>6}");
    println!("    late         p50 {} ms, p99 {} ms, max {} ms", at(0.5), at(0.99), at(1.0));
}
