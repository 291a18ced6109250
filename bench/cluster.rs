//! The same queues on one Redis and on three masters of a cluster: the cost of an element on each.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use redis::AsyncCommands;

use crate::daemon::Daemon;
use crate::passage::median;
use crate::report::{Table, middle};
use crate::settings::{number, rounds, said};
use harness::cluster::RedisCluster;
use harness::fill::{Load, Order, fill};
use harness::oracle::{Oracle, read_stream};
use harness::redis_server::{RedisServer, ServerOptions};
use harness::redisson::{RedissonQueue, redis_now_ms};

const QUEUES: usize = 12;
const MASTERS: usize = 3;
/// Number of elements in all queues together.
const ELEMENTS: usize = 120_000;
/// Time from the first offer until the elements fall due, for each 100,000 of them.
const AHEAD_MS: usize = 20_000;
const PATIENCE: Duration = Duration::from_secs(300);
/// Minimum time for which idle servers are measured, and the time before the due time at which that ends.
const REST_MS: i64 = 3_000;
const AWAKE_MS: i64 = 200;

const COLUMNS: &[&str] = &[
    "12 queues on",
    "daemon CPU us each",
    "Redis CPU us each",
    "daemon to one Redis",
    "Redis to one Redis",
    "bar",
    "elements/s",
    "share of each master",
    "Redis CPU at rest, each",
];

/// The servers of the queues; each master has a replica.
enum Servers {
    One(Box<RedisServer>, #[expect(dead_code, reason = "it only follows")] Box<RedisServer>),
    Cluster(RedisCluster),
}

/// The costs of one run.
struct Ran {
    daemon_us: f64,
    redis_us: f64,
    cells: Vec<String>,
}

/// Measures the table of `ROWS=cluster`.
pub async fn measure() -> Result<Table> {
    let elements = number("ELEMENTS", ELEMENTS)?;
    let mut runs: [Vec<Ran>; 2] = Default::default();
    for _ in 0..rounds()? {
        for (runs, is_cluster) in runs.iter_mut().zip([false, true]) {
            said(if is_cluster { "cluster: three masters" } else { "cluster: one Redis" });
            runs.push(run(is_cluster, elements).await?);
        }
    }
    let mut table = Table::new("Queues on one Redis and on a cluster, to a stream elsewhere, 256 B", COLUMNS);
    for (of_mode, name) in runs.iter().zip(["one Redis", "three masters"]) {
        let to_one = |figure: fn(&Ran) -> f64| {
            let [this, one] = [of_mode, &runs[0]].map(|runs| median(runs.iter().map(figure)));
            format!("{:.2}x", this / one)
        };
        let mut line = middle(&of_mode.iter().map(|ran| ran.cells.clone()).collect::<Vec<_>>());
        line.insert(0, name.to_owned());
        let ratios = [to_one(|ran| ran.daemon_us), to_one(|ran| ran.redis_us), "<= 1.05x".to_owned()];
        line.splice(3..3, ratios);
        table.lines.push(line);
    }
    table.notes = vec![
        "Each master has a replica, whose CPU is left out. All of it runs on one machine: more cores gain nothing here.".into(),
        "to one Redis: medians of all runs (ROUNDS), in turns.".into(),
        "CPU of each element: less what the same process takes at rest, seen before the elements fall due.".into(),
    ];
    Ok(table)
}

impl Servers {
    async fn start(is_cluster: bool) -> Servers {
        if is_cluster {
            return Servers::Cluster(RedisCluster::start().await);
        }
        let master = RedisServer::start().await;
        let follows = format!("127.0.0.1 {}", master.port());
        let replica = RedisServer::start_with(ServerOptions::default().line("replicaof", &follows)).await;
        Servers::One(Box::new(master), Box::new(replica))
    }

    /// The value of `redis:` in the configuration.
    fn yaml(&self) -> String {
        match self {
            Servers::One(master, _) => format!("{{ url: {} }}", master.url()),
            Servers::Cluster(cluster) => cluster.yaml(),
        }
    }

    async fn at(&self, key: &str) -> redis::aio::MultiplexedConnection {
        match self {
            Servers::One(master, _) => master.client().await,
            Servers::Cluster(cluster) => cluster.at(key).await,
        }
    }

    /// The CPU time used by each master.
    fn cpu(&mut self) -> Vec<Duration> {
        let masters = match self {
            Servers::One(master, _) => std::slice::from_mut(master.as_mut()),
            Servers::Cluster(cluster) => &mut cluster.nodes[..MASTERS],
        };
        masters.iter_mut().map(|master| master.running().usage().cpu).collect()
    }
}

async fn run(is_cluster: bool, elements: usize) -> Result<Ran> {
    let mut servers = Servers::start(is_cluster).await;
    let done = RedisServer::start().await;
    let mut out = done.client().await;
    let queues: Vec<_> = (0..QUEUES).map(|n| RedissonQueue::new(&format!("queue-{n}"))).collect();
    let of_queue = |queue: &RedissonQueue| {
        let name = &queue.name;
        format!("  {name}: {{ source: {{ redisson: {{ name: {name} }} }}, to: [{{ sink: out, stream: out }}] }}\n")
    };
    let sinks = format!("sinks: {{ out: {{ redis: {{ url: {} }} }} }}\nqueues:\n", done.url());
    let yaml = sinks + &queues.iter().map(of_queue).collect::<String>();
    let mut daemon = Daemon::spawn_at(&servers.yaml(), &yaml)?;
    daemon.ready().await?;

    // All elements are offered before the first falls due; the due time is the same in every queue.
    let mut oracle = Oracle::new();
    let mut due_ms = None;
    for queue in &queues {
        let mut redis = servers.at(&queue.timeouts).await;
        let now_ms = redis_now_ms(&mut redis).await;
        let ahead_ms = i64::try_from((elements * AHEAD_MS).div_ceil(100_000))?;
        let last_in_ms = *due_ms.get_or_insert(now_ms + ahead_ms) - now_ms;
        let load = Load { last_in_ms, order: Order::OneMillisecond, ..Load::overdue(elements / QUEUES) };
        fill(&mut redis, queue, load, |some| oracle.offered(some)).await?;
    }
    ensure!(out.xlen::<_, usize>("out").await? == 0, "{elements} could not be offered before they fell due");
    // The work of an idle cluster server, such as pings to the others, is not charged to elements.
    let rest = Instant::now();
    let servers_before = servers.cpu();
    let daemon_before = daemon.process.usage().cpu;
    let left_ms = due_ms.expect("there are queues") - redis_now_ms(&mut servers.at(&queues[0].timeouts).await).await;
    ensure!(left_ms > REST_MS, "only {left_ms} ms were left to see what the servers take at rest");
    tokio::time::sleep(Duration::from_millis(u64::try_from(left_ms - AWAKE_MS)?)).await;
    let servers_at = servers.cpu();
    let daemon_at = daemon.process.usage().cpu;
    let rest = rest.elapsed();
    let share_at_rest =
        |before: Duration, after: Duration| after.saturating_sub(before).as_secs_f64() / rest.as_secs_f64();
    let servers_at_rest: Vec<f64> =
        servers_before.iter().zip(&servers_at).map(|(before, after)| share_at_rest(*before, *after)).collect();
    let daemon_at_rest = share_at_rest(daemon_before, daemon_at);
    let waited = Instant::now();
    while out.xlen::<_, usize>("out").await? == 0 {
        ensure!(waited.elapsed() < PATIENCE, "nothing arrived in {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let began = Instant::now();
    let offered = elements / QUEUES * QUEUES;
    let mut arrived = 0;
    while arrived < offered {
        ensure!(began.elapsed() < PATIENCE, "{arrived} of {offered} had arrived after {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
        arrived = out.xlen("out").await?;
    }
    let seconds = began.elapsed().as_secs_f64();
    let took = waited.elapsed().as_secs_f64();
    let above_rest = |before: Duration, after: Duration, at_rest: f64| {
        (after.saturating_sub(before).as_secs_f64() - at_rest * took).max(0.0)
    };
    let each = |seconds: f64| seconds * 1e6 / offered as f64;
    let daemon_us = each(above_rest(daemon_at, daemon.process.usage().cpu, daemon_at_rest));
    let of_masters: Vec<f64> = servers
        .cpu()
        .iter()
        .zip(servers_at)
        .zip(&servers_at_rest)
        .map(|((after, before), at_rest)| above_rest(before, *after, *at_rest))
        .collect();
    let of_all: f64 = of_masters.iter().sum();
    let report = oracle.judge(&read_stream(&mut out, "out").await);
    ensure!(report.is_complete(), "not everything arrived as it was: {report}");
    daemon.stop().await;

    let shares: Vec<_> = of_masters.iter().map(|cpu| format!("{:.0} %", cpu / of_all * 100.0)).collect();
    let redis_us = each(of_all);
    let cells = vec![
        format!("{daemon_us:.1}"),
        format!("{redis_us:.1}"),
        format!("{:.0}", offered as f64 / seconds),
        shares.join(", "),
        format!("{:.2} %", servers_at_rest.iter().sum::<f64>() / servers_at_rest.len() as f64 * 100.0),
    ];
    Ok(Ran { daemon_us, redis_us, cells })
}
