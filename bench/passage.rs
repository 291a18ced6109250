//! Overdue elements through the daemon into a broker, timed in Redis: from the first claim to the last settling.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use delaybridge::source::redisson::SCRIPTS;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use crate::daemon::Daemon;
use crate::oracle::{Delivery, Oracle, Report};
use crate::process::Usage;
use crate::redis_server::RedisServer;
use crate::redisson::{Element, Layout, RedissonQueue, redis_now_ms};

/// The mapped name of the queue.
pub const QUEUE: &str = "passage";
/// A daemon that has settled nothing new for so long has got stuck.
const PATIENCE: Duration = Duration::from_secs(60);

/// A Redis of its own, full of elements.
pub struct Stock {
    /// The server.
    pub server: RedisServer,
    /// The queue in it.
    pub queue: RedissonQueue,
    /// How many elements.
    pub count: usize,
    oracle: Oracle,
}

impl Stock {
    /// Elements of 256 bytes, all overdue, whose due times have nothing to do with the order of the offers.
    pub async fn of(count: usize) -> Stock {
        let server = RedisServer::start().await;
        let mut redis = server.client().await;
        let (queue, mut oracle) = (RedissonQueue::new(QUEUE), Oracle::new());
        let now = redis_now_ms(&mut redis).await;
        for start in (0..count).step_by(50_000) {
            let some: Vec<Element> = (start..count.min(start + 50_000))
                .map(|n| Element::new(Layout::New, now - fastrand::i64(1_000..3_600_000), payload(n)))
                .collect();
            oracle.offered(&some);
            queue.offer_bulk(&mut redis, &some).await;
        }
        Stock { server, queue, count, oracle }
    }

    /// Every id once, nothing else, no byte changed; the error says what is wrong.
    pub fn judge(&self, deliveries: &[Delivery]) -> Result<()> {
        let report: Report = self.oracle.judge(deliveries);
        match report.is_complete() && report.duplicates == 0 {
            true => Ok(()),
            false => bail!("not every id once: {report}"),
        }
    }

    /// Elements that are not settled.
    async fn left(&self, redis: &mut MultiplexedConnection) -> Result<usize> {
        let (scheduled, in_flight, retry): (usize, usize, usize) = redis::pipe()
            .zcard(&self.queue.timeouts)
            .zcard(self.queue.bridge_key("inflight"))
            .zcard(self.queue.bridge_key("retry"))
            .query_async(redis)
            .await?;
        Ok(scheduled + in_flight + retry)
    }

    /// Lets the daemon take all of it to this sink and destination (YAML), beside the broker with these processes.
    pub async fn pass(&mut self, sink: &str, to: &str, broker: &[u32]) -> Result<Passage> {
        let mut redis = self.server.client().await;
        log_scripts(&mut redis).await?;
        let mut daemon = Daemon::spawn(
            &self.server.url(),
            &format!(
                "sinks: {{ out: {sink} }}\nqueues:\n  q: {{ source: {{ redisson: {{ name: {QUEUE} }} }}, to: [{{ sink: out, {to} }}] }}\n"
            ),
        )?;
        // From the first claim on: how long a start takes is another row.
        while redis.zcard::<_, usize>(&self.queue.timeouts).await? == self.count {
            if let Some(status) = daemon.process.exit_status() {
                bail!("the daemon ended with {status}");
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let (started, before) = (Instant::now(), self.cpu(&daemon, broker));
        let (mut left, mut moved_at) = (self.count, started);
        while left > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let now = self.left(&mut redis).await?;
            if now < left {
                (left, moved_at) = (now, Instant::now());
            } else if moved_at.elapsed() > PATIENCE {
                bail!("{left} elements are not settled, and nothing was for {PATIENCE:?}");
            }
        }
        let (seconds, after) = (started.elapsed().as_secs_f64(), self.cpu(&daemon, broker));
        daemon.stop().await;
        let us = |n: usize| after[n].saturating_sub(before[n]).as_secs_f64() * 1e6 / self.count as f64;
        Ok(Passage {
            rate: self.count as f64 / seconds,
            cpu_us: [us(0), us(1), us(2)],
            busy: us(3) * self.count as f64 / 1e6 / seconds,
            scripts: by_script(&mut redis, self.count).await?,
        })
    }

    /// CPU time of daemon, Redis, broker, machine.
    fn cpu(&mut self, daemon: &Daemon, broker: &[u32]) -> [Duration; 4] {
        let broker = broker.iter().map(|pid| Usage::of(*pid).cpu).sum();
        [daemon.process.usage().cpu, self.server.running().usage().cpu, broker, machine()]
    }
}

/// What one run of the daemon took.
#[derive(Debug, Clone)]
pub struct Passage {
    /// Elements a second.
    pub rate: f64,
    /// Microseconds of CPU for each element: daemon, Redis, broker.
    pub cpu_us: [f64; 3],
    /// Cores in use, by whoever.
    pub busy: f64,
    /// What [`by_script`] says.
    pub scripts: String,
}

/// Lets Redis note how long each script takes. Not what is shorter: scripts' own commands would be noted as well.
pub async fn log_scripts(redis: &mut MultiplexedConnection) -> Result<()> {
    for (name, value) in [("slowlog-log-slower-than", 300), ("slowlog-max-len", 100_000)] {
        let () = redis::cmd("CONFIG").arg("SET").arg(name).arg(value).query_async(redis).await?;
    }
    Ok(())
}

/// Microseconds of Redis's time in each script for each of `count` elements; times without a CPU are in it.
pub async fn by_script(redis: &mut MultiplexedConnection, count: usize) -> Result<String> {
    let log: Vec<Vec<redis::Value>> = redis::cmd("SLOWLOG").arg("GET").arg(-1).query_async(redis).await?;
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for entry in &log {
        let [_, _, took, redis::Value::Array(words), ..] = &entry[..] else { continue };
        let sha: Option<String> = words.get(1).and_then(|word| redis::from_redis_value(word.clone()).ok());
        let script = SCRIPTS.all().into_iter().find(|script| Some(script.sha1()) == sha.as_deref());
        let Some(script) = script else { continue };
        *sums.entry(script.name()).or_default() += redis::from_redis_value::<u64>(took.clone())?;
    }
    let each: Vec<String> =
        sums.iter().map(|(name, us)| format!("{name} {:.1} us", *us as f64 / count as f64)).collect();
    Ok(each.join(", "))
}

/// The body of element `n`: 256 bytes.
pub fn payload(n: usize) -> String {
    format!("{n:0256}")
}

/// CPU time of everything on the machine.
fn machine() -> Duration {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks: Vec<u64> =
        stat.lines().next().unwrap_or("").split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
    // The fourth and fifth are idle; guests are in the first already.
    let busy: u64 = ticks.iter().take(8).enumerate().filter(|(place, _)| !matches!(place, 3 | 4)).map(|(_, n)| n).sum();
    Duration::from_millis(busy * 10)
}

/// The middle one, or the mean of the two in the middle.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_unstable_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n => (values[(n - 1) / 2] + values[n / 2]) / 2.0,
    }
}

/// Medians of what the runs took, for the table.
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
