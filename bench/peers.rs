//! The same elements, the same Redis and the same Kafka with the alternatives: Redisson and a Java producer, and
//! Redpanda Connect if a binary is given.

use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use brokers::Kafka;

use crate::chart::Chart;
use crate::daemon::Build;
use crate::observed::{Counters, REDISSON, log_scripts, longest_scripts};
use crate::passage::{QUEUE, Stock};
use crate::report::{Findings, Table};
use crate::settings::{number, numbers, said};
use crate::steady::{Client, Forwarder, add, alone, run, sink, spawn, table};
use crate::to_kafka;
use harness::fill::{Load, Order};
use harness::process::{Process, command};

const DEPTHS: &[usize] = &[10_000, 100_000, 500_000];
const FORWARDERS: [Forwarder; 3] = [Forwarder::Delaybridge(Build::This), Forwarder::Take, Forwarder::DrainTo];

const COLUMNS: &[&str] = &[
    "forwarded by",
    "pending",
    "due times",
    "forwarded",
    "elements/s",
    "to Redisson's",
    "CPU s per 100,000",
    "memory MB",
    "Redis us each",
    "longest script",
];

/// The results of one alternative.
pub struct Ran {
    count: usize,
    /// Elements per second.
    pub rate: f64,
    /// Microseconds of CPU for each element.
    pub cpu_us: f64,
    /// Resident memory in bytes: the maximum of a daemon, the value at the end of a Java program.
    pub resident: u64,
    /// Microseconds of Redis for each element.
    pub redis_us: f64,
    longest_ms: f64,
}

/// Measures the tables of `ROWS=peers`.
pub async fn measure() -> Result<Findings> {
    let broker = to_kafka::start().await?;
    let depths = numbers("DEPTHS", DEPTHS)?;
    let cap = number("PEER_SECONDS", 60)?;
    let bare = to_kafka::bare(&broker, "limit", number("ELEMENTS", 100_000)?, 256).await?;
    let title = format!("To Kafka beside its peers, 256 B; a bare producer: {bare:.0}/s");
    let mut drains = Table::new(title, COLUMNS);
    let mut lines: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    // The last load is Redisson's best case: the elements are at the head of the list.
    let loads = depths.iter().map(|&depth| (depth, Order::Random)).chain(depths.last().map(|&d| (d, Order::Offers)));
    for (depth, order) in loads {
        let mut ran = Vec::new();
        for forwarder in FORWARDERS {
            said(&format!("peers: {} with {depth} pending, {}", forwarder.name(), order.name()));
            let load = Load { order, ..Load::overdue(depth) };
            match drain(&broker, forwarder, load, cap).await {
                Ok(found) => ran.push((forwarder.name().to_owned(), found)),
                // A failed line does not prevent the others.
                Err(error) => drains.notes.push(format!("not measured: {} with {depth}: {error:#}", forwarder.name())),
            }
        }
        if let Some(binary) = std::env::var_os("RPCONNECT").filter(|_| order == Order::Random) {
            said(&format!("peers: Redpanda Connect with {depth} on the ready list"));
            let found = connect(&broker, &binary, depth, cap).await.context("Redpanda Connect")?;
            ran.push(("Redpanda Connect, ready list".to_owned(), found));
        }
        let redisson = ran.iter().filter(|(name, _)| name.starts_with("Redisson")).map(|(_, ran)| ran.rate);
        let best = redisson.fold(0.0, f64::max);
        for (name, ran) in ran {
            if order == Order::Random {
                match lines.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, points)) => points.push((depth as f64, ran.rate)),
                    None => lines.push((name.clone(), vec![(depth as f64, ran.rate)])),
                }
            }
            drains.lines.push(ran.cells(name, depth, order, best));
        }
    }
    drains.notes.extend([
        format!(
            "Redisson is given {cap} s (PEER_SECONDS) from the start of its transfer task on; what it forwarded counts."
        ),
        "to Redisson's: beside the faster of its two loops with the same elements.".into(),
        "Redis us each, longest script: of the scripts of the forwarder.".into(),
        "Redpanda Connect (RPCONNECT=/path/to/binary) cannot read a delayed queue: it is given a full ready list."
            .into(),
    ]);
    let mut steady = table("The same peers at 2,000/s".to_owned());
    for forwarder in FORWARDERS {
        add(&mut steady, run(&broker, forwarder, 2_000, Client::Live).await);
    }
    add(&mut steady, alone(&broker, 2_000).await);
    let chart = Chart {
        title: "To Kafka, random due times, 256 B: delaybridge and what is run today".to_owned(),
        x: "pending",
        y: "elements/s",
        lines,
    };
    Ok(Findings { tables: vec![drains, steady], charts: vec![("peers.svg", chart)] })
}

impl Ran {
    fn cells(&self, name: String, depth: usize, order: Order, best: f64) -> Vec<String> {
        vec![
            name,
            depth.to_string(),
            order.name().to_owned(),
            self.count.to_string(),
            format!("{:.0}", self.rate),
            if best > 0.0 { format!("{:.1}x", self.rate / best) } else { "-".to_owned() },
            format!("{:.2}", self.cpu_us / 10.0),
            format!("{:.0}", self.resident as f64 / 1e6),
            format!("{:.1}", self.redis_us),
            format!("{:.1} ms", self.longest_ms),
        ]
    }
}

/// Forwards a load with one alternative, a Java program for at most `cap` seconds.
pub async fn drain(broker: &Arc<Kafka>, forwarder: Forwarder, load: Load, cap: u64) -> Result<Ran> {
    let topic = format!("peers-{}-{:?}-{}", forwarder.mode().unwrap_or("bridge"), load.order, load.count);
    to_kafka::create(broker, &topic).await?;
    let mut stock = Stock::with(load, 1).await?;
    let mut redis = stock.server.client().await;
    log_scripts(&mut redis).await?;
    let before = Counters::read(&mut redis).await?;
    let (count, rate, cpu_us, resident) = match forwarder {
        Forwarder::Delaybridge(build) => {
            let to = format!("topic: {topic}");
            let passage = stock.pass_with(build, &sink(broker), &to, &broker.pids()).await?;
            let records = to_kafka::read(broker, &topic).await?;
            stock.judge(&records)?;
            (stock.count, passage.rate, passage.cpu_us[0], passage.resident)
        }
        Forwarder::Take | Forwarder::DrainTo => {
            let mode = forwarder.mode().context("find the argument of the Java program")?;
            let url = stock.server.url().trim_end_matches("/0").to_owned();
            let count = stock.count.to_string();
            let most = cap.to_string();
            let arguments = ["forward", &url, &broker.bootstrap(), QUEUE, &topic, mode, &count, &most];
            let mut peer = spawn(arguments.map(str::to_owned).to_vec()).await?;
            let done = peer.done(Duration::from_secs(cap + 60)).await?;
            ensure!(done.count > 0, "it forwarded nothing in {cap} s");
            let cpu_us = done.cpu * 1e6 / done.count as f64;
            (done.count, done.count as f64 / done.seconds, cpu_us, peer.process.usage().resident)
        }
    };
    let after = Counters::read(&mut redis).await?;
    let redis_us = match forwarder.mode() {
        None => after.daemon_us_since(&before),
        Some(_) => after.scripts_us_since(&before),
    } / count as f64;
    let longest = longest_scripts(&mut redis).await?;
    let by_forwarder = |name: &str| (name == REDISSON) == forwarder.mode().is_some();
    let longest_ms = longest.iter().filter(|(name, _)| by_forwarder(name)).map(|(_, ms)| *ms).fold(0.0, f64::max);
    to_kafka::delete(broker, &topic).await?;
    Ok(Ran { count, rate, cpu_us, resident, redis_us, longest_ms })
}

/// Forwards the ready list to Kafka with Redpanda Connect.
async fn connect(broker: &Arc<Kafka>, binary: &std::ffi::OsStr, count: usize, cap: u64) -> Result<Ran> {
    let topic = format!("peers-connect-{count}");
    to_kafka::create(broker, &topic).await?;
    let stock = Stock::with(Load { count: 1, ..Load::overdue(1) }, 1).await?;
    let mut redis = stock.server.client().await;
    stock.push_ready(&mut redis, count).await?;
    let before = Counters::read(&mut redis).await?;
    let mut command = command(binary);
    command.args(["run", concat!(env!("CARGO_MANIFEST_DIR"), "/bench/peers/redpanda-connect.yaml")]);
    command.env("REDIS", stock.server.url()).env("KAFKA", broker.bootstrap()).env("QUEUE", QUEUE).env("TOPIC", &topic);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut process = Process::spawn("Redpanda Connect", command)?;
    let mut began = Instant::now();
    let mut resident = 0;
    let mut first = 0;
    let mut now = 0;
    while now < count && began.elapsed() < Duration::from_secs(cap) {
        ensure!(process.exit_status().is_none(), "it ended: {:?}", process.exit_status());
        tokio::time::sleep(Duration::from_millis(50)).await;
        now = to_kafka::count_records(broker, &topic).await?;
        resident = resident.max(process.usage().resident);
        if first == 0 {
            // The time begins with the first records; the start is not measured.
            (first, began) = (now, Instant::now());
        }
    }
    ensure!(now > first, "it forwarded nothing in {cap} s");
    let seconds = began.elapsed().as_secs_f64();
    let cpu_us = process.usage().cpu.as_secs_f64() * 1e6 / now as f64;
    let pops = Counters::read(&mut redis).await?.us_since(&before, &["blpop", "lpop", "brpop"]);
    to_kafka::delete(broker, &topic).await?;
    let rate = (now - first) as f64 / seconds;
    Ok(Ran { count: now, rate, cpu_us, resident, redis_us: pops / now as f64, longest_ms: 0.0 })
}
