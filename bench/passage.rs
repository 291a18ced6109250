//! Overdue elements through the daemon into a broker, timed in Redis: from the first settling to the last.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use redis::aio::MultiplexedConnection;

use crate::daemon::{Build, Daemon};
use crate::observed::log_scripts;
use crate::scripts::Scripts;
use harness::fill::{Load, fill, payload};
use harness::oracle::{Delivery, Oracle, Report};
use harness::process::Usage;
use harness::redis_server::RedisServer;
use harness::redisson::RedissonQueue;

/// The name of the only queue, and the prefix of several ones. Its hash tag puts all of them in one slot, with the list
/// of the sink.
pub const QUEUE: &str = "{passage}";
/// Time without a new settling after which a daemon counts as stuck.
const PATIENCE: Duration = Duration::from_secs(60);

/// A Redis server with elements.
pub struct Stock {
    pub server: RedisServer,
    /// Number of elements in all queues.
    pub count: usize,
    queues: Vec<RedissonQueue>,
    oracle: Oracle,
}

impl Stock {
    /// Creates elements of 256 bytes in one queue, all overdue, with random due times.
    pub async fn of(count: usize) -> Result<Stock> {
        Stock::with(Load::overdue(count), 1).await
    }

    /// Creates this load in `queues` queues, evenly.
    pub async fn with(load: Load, queues: usize) -> Result<Stock> {
        let server = RedisServer::start().await;
        let mut redis = server.client().await;
        let mut oracle = Oracle::new();
        let name = |n: usize| if n == 0 { QUEUE.to_owned() } else { format!("{QUEUE}:{n}") };
        let queues: Vec<RedissonQueue> = (0..queues).map(|n| RedissonQueue::new(&name(n))).collect();
        let share = Load { count: load.count / queues.len(), ..load };
        for queue in &queues {
            fill(&mut redis, queue, share, |elements| oracle.offered(elements)).await?;
        }
        Ok(Stock { server, count: share.count * queues.len(), queues, oracle })
    }

    /// Checks that every id arrived exactly once, nothing else, and no byte changed.
    pub fn judge(&self, deliveries: &[Delivery]) -> Result<()> {
        match self.judge_at_least_once(deliveries)? {
            0 => Ok(()),
            doubled => bail!("{doubled} of {} came twice", self.count),
        }
    }

    /// Checks that every id arrived, nothing else, and no byte changed; returns the number of duplicates. On a shared
    /// machine time-outs may pass, and elements without an answer are sent again.
    pub fn judge_at_least_once(&self, deliveries: &[Delivery]) -> Result<usize> {
        // A list contains only the payloads.
        let with_ids = deliveries.iter().all(|delivery| delivery.id.is_some());
        let report: Report =
            if with_ids { self.oracle.judge(deliveries) } else { self.oracle.judge_payloads(deliveries) };
        if report.is_complete() { Ok(report.duplicates) } else { bail!("not everything arrived as it was: {report}") }
    }

    /// Measures the elements/s that are claimed and settled, without a delivery.
    pub async fn scripts_alone(&self) -> Result<f64> {
        let mut redis = self.server.client().await;
        let mut scripts = Scripts::connect(&self.server, &mut redis, QUEUE, true).await?;
        let drained = scripts.drain(self.count).await?;
        scripts.close().await;
        Ok(self.count as f64 / drained.seconds)
    }

    /// Pushes `count` payloads on the ready list of the first queue, as if Redisson had moved them there.
    pub async fn push_ready(&self, redis: &mut MultiplexedConnection, count: usize) -> Result<()> {
        for start in (0..count).step_by(10_000) {
            let some: Vec<Vec<u8>> = (start..count.min(start + 10_000)).map(|n| payload(n, 256).into_bytes()).collect();
            self.queues[0].push_ready(redis, &some).await;
        }
        Ok(())
    }

    /// Number of elements that were not claimed yet.
    async fn pending(&self, redis: &mut MultiplexedConnection) -> Result<usize> {
        let mut ask = redis::pipe();
        for queue in &self.queues {
            ask.zcard(&queue.timeouts);
        }
        let counts: Vec<usize> = ask.query_async(redis).await?;
        Ok(counts.iter().sum())
    }

    /// Number of elements that are not settled.
    async fn left(&self, redis: &mut MultiplexedConnection) -> Result<usize> {
        let mut ask = redis::pipe();
        for queue in &self.queues {
            ask.zcard(&queue.timeouts).add_command(queue.count_in_flight()).zcard(queue.bridge_key("retry"));
            // The key of builds before claims were keys.
            ask.zcard(queue.bridge_key("inflight"));
        }
        let counts: Vec<usize> = ask.query_async(redis).await?;
        Ok(counts.iter().sum())
    }

    /// Drains the stock with the daemon into this sink and destination (YAML); `broker` has the broker's process ids.
    pub async fn pass(&mut self, sink: &str, to: &str, broker: &[u32]) -> Result<Passage> {
        self.pass_with(Build::This, sink, to, broker).await
    }

    /// The same with another build.
    pub async fn pass_with(&mut self, build: Build, sink: &str, to: &str, broker: &[u32]) -> Result<Passage> {
        let mut redis = self.server.client().await;
        log_scripts(&mut redis).await?;
        let mut yaml = format!("sinks: {{ out: {sink} }}\nqueues:\n");
        for (n, queue) in self.queues.iter().enumerate() {
            let name = &queue.name;
            yaml +=
                &format!("  q{n}: {{ source: {{ redisson: {{ name: '{name}' }} }}, to: [{{ sink: out, {to} }}] }}\n");
        }
        let mut daemon = Daemon::spawn_of(build, &self.server.url(), &yaml)?;
        // Asking for the keys of a thousand queues takes Redis some milliseconds.
        let pause = Duration::from_millis(if self.queues.len() > 10 { 200 } else { 10 });
        // The time begins with the first settling, when the sink is connected, as that of a bare client does; the start
        // is measured elsewhere.
        let from = loop {
            let left = self.left(&mut redis).await?;
            if left < self.count {
                break left;
            }
            if let Some(status) = daemon.process.exit_status() {
                bail!("the daemon ended with {status}: {}", daemon.said());
            }
            tokio::time::sleep(pause / 10).await;
        };
        let started = Instant::now();
        let before = self.cpu(&daemon, broker);
        let mut left = from;
        let mut moved_at = started;
        let mut resident = 0;
        while left > 0 {
            tokio::time::sleep(pause).await;
            resident = resident.max(daemon.process.usage().resident);
            // While any are pending, nothing else is counted: what is in flight takes Redis half a millisecond to count.
            let now = match self.pending(&mut redis).await? {
                0 => self.left(&mut redis).await?,
                pending => pending,
            };
            if now != left {
                (left, moved_at) = (now, Instant::now());
            } else if moved_at.elapsed() > PATIENCE {
                bail!("{left} elements are not settled, and nothing was for {PATIENCE:?}: {}", daemon.said());
            }
        }
        let seconds = started.elapsed().as_secs_f64();
        let after = self.cpu(&daemon, broker);
        daemon.stop().await;
        let us = |n: usize| after[n].saturating_sub(before[n]).as_secs_f64() * 1e6 / from as f64;
        Ok(Passage {
            rate: from as f64 / seconds,
            cpu_us: [us(0), us(1), us(2)],
            busy: us(3) * from as f64 / 1e6 / seconds,
            resident,
        })
    }

    /// The CPU time of the daemon, Redis, the broker and the machine.
    fn cpu(&mut self, daemon: &Daemon, broker: &[u32]) -> [Duration; 4] {
        [daemon.process.usage().cpu, self.server.running().usage().cpu, cpu_of(broker), machine()]
    }
}

/// The results of one run of the daemon.
#[derive(Debug, Clone)]
pub struct Passage {
    /// Elements per second.
    pub rate: f64,
    /// Microseconds of CPU for each element: daemon, Redis, broker.
    pub cpu_us: [f64; 3],
    /// Number of cores in use by all processes.
    pub busy: f64,
    /// Maximum resident memory of the daemon, in bytes.
    pub resident: u64,
}

/// The CPU time of these processes.
pub fn cpu_of(pids: &[u32]) -> Duration {
    pids.iter().map(|pid| Usage::of(*pid).cpu).sum()
}

/// The CPU time of all processes on the machine.
fn machine() -> Duration {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks: Vec<u64> =
        stat.lines().next().unwrap_or("").split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
    // The fourth and fifth values are idle times; guest times are included in the first.
    let busy: u64 = ticks.iter().take(8).enumerate().filter(|(place, _)| !matches!(place, 3 | 4)).map(|(_, n)| n).sum();
    Duration::from_millis(busy * 10)
}

pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_unstable_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n => (values[(n - 1) / 2] + values[n / 2]) / 2.0,
    }
}

/// The medians of the costs, for the table.
pub fn costs(runs: &[Passage], broker: &str) -> String {
    let [daemon, redis, other] = [0, 1, 2].map(|n| median(runs.iter().map(|run| run.cpu_us[n])));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let busy = median(runs.iter().map(|run| run.busy));
    format!("daemon {daemon:.1} us, Redis {redis:.1} us, {broker} {other:.1} us; {busy:.1} of {cores} cores busy")
}

/// The rates of the runs, in their order.
pub fn each(rates: impl IntoIterator<Item = f64>) -> String {
    let rates: Vec<String> = rates.into_iter().map(|rate| format!("{rate:.0}")).collect();
    rates.join(" ")
}
