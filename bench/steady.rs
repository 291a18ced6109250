//! The time from the due time to Kafka at a steady rate, with elements offered by a real Redisson client, whose
//! transfer task competes with the forwarder.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use brokers::Kafka;
use futures_util::future::{BoxFuture, join_all};
use redis::aio::MultiplexedConnection;

use crate::daemon::{Build, Daemon};
use crate::histogram::Histogram;
use crate::passage::Stock;
use crate::peer::{Done, Peer, REDISSON};
use crate::report::{Table, at, middle};
use crate::settings::{number, numbers, rounds, said};
use crate::to_kafka;
use harness::redis_server::RedisServer;
use harness::redisson::{RedissonQueue, redis_now_ms};

/// Default number of elements of the passage that finds the limit.
const PASSED: usize = 100_000;
const RATES: &[usize] = &[20, 500, 2_000];
const QUEUE: &str = "steady";

const COLUMNS: &[&str] = &[
    "forwarded by",
    "offered/s",
    "arrived",
    "p50 ms",
    "p99 ms",
    "p99.9 ms",
    "max ms",
    "PING p50/p99 ms",
    "first by Redisson",
    "claim",
    "Kafka's ack",
    "settle",
    "due to ack",
];

/// The forwarder of the elements to Kafka.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forwarder {
    /// The daemon.
    Delaybridge(Build),
    /// Redisson and a Kafka producer, with one `take()` after the other.
    Take,
    /// The same with `drainTo(100)`.
    DrainTo,
}

impl Forwarder {
    /// The name in the tables.
    pub fn name(self) -> &'static str {
        match self {
            Forwarder::Delaybridge(build) => build.name(),
            Forwarder::Take => "Redisson take()",
            Forwarder::DrainTo => "Redisson drainTo(100)",
        }
    }

    /// The argument of `Peer forward`; `None` for the daemon.
    pub fn mode(self) -> Option<&'static str> {
        match self {
            Forwarder::Delaybridge(_) => None,
            Forwarder::Take => Some("take"),
            Forwarder::DrainTo => Some("drainTo"),
        }
    }
}

/// The producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Client {
    /// A Redisson client, whose transfer task competes with the forwarder.
    Live,
    /// This tool, with Redisson's offer script but without a transfer task.
    Gone,
}

/// Measures the table of `ROWS=steady`.
pub async fn measure() -> Result<Table> {
    let broker = to_kafka::start().await?;
    said("steady: the limit");
    let limit = limit(&broker).await.context("find the limit")?;
    let mut table =
        table(format!("Lateness to Kafka, 256 B; everything at once: {limit:.0}/s (the last rate is half)"));
    for rate in numbers("RATES", RATES)? {
        add(&mut table, median_run(&broker, rate, Client::Live).await);
        add(&mut table, median_run(&broker, rate, Client::Gone).await);
        add(&mut table, alone(&broker, rate).await);
    }
    if std::env::var_os("RATES").is_none() {
        let rate = limit as usize / 2;
        add(&mut table, median_run(&broker, rate, Client::Gone).await);
        add(&mut table, alone(&broker, rate).await);
    }
    table.notes.push(
        "no client: offered by Redisson's script without Redisson. A live client's own transfer task walks the list for \
         each element; at the last rate it would take all of Redis."
            .into(),
    );
    Ok(table)
}

/// An empty table for the lines of [`run`].
pub fn table(title: String) -> Table {
    let mut table = Table::new(title, COLUMNS);
    table.notes = vec![
        format!(
            "A Redisson {REDISSON} client offers with delays at random between 1 and 10 s; the payload carries the due \
             time of its clock, the record the time of the broker's: same machine, whole milliseconds."
        ),
        "first by Redisson: moved to the ready list by the client's own transfer task before it was claimed.".into(),
        "claim, Kafka's ack, settle, due to ack: p50 / p99 of the daemon's histograms; due to ack without what Redisson \
         moved first. Bar of due to ack at 2,000/s: 4 / 15 ms."
            .into(),
    ];
    table
}

async fn limit(broker: &Arc<Kafka>) -> Result<f64> {
    to_kafka::create(broker, "limit").await?;
    let mut stock = Stock::of(number("ELEMENTS", PASSED)?).await?;
    let passage = stock.pass(&sink(broker), "topic: limit", &broker.pids()).await?;
    to_kafka::delete(broker, "limit").await?;
    Ok(passage.rate)
}

/// The sink of the daemon, in YAML.
pub fn sink(broker: &Kafka) -> String {
    format!("{{ kafka: {{ brokers: ['{}'] }} }}", broker.bootstrap())
}

/// Adds a line, or the reason why there is none, which does not prevent the others.
pub fn add(table: &mut Table, line: Result<Vec<String>>) {
    match line {
        Ok(line) => table.lines.push(line),
        Err(error) => table.notes.push(format!("not measured: {error:#}")),
    }
}

/// Measures the limit of all forwarders: Kafka's latency for a bare producer alone.
pub async fn alone(broker: &Arc<Kafka>, rate: usize) -> Result<Vec<String>> {
    said(&format!("steady: a bare producer at {rate}/s"));
    let seconds = number("STEADY_SECONDS", 30)?.min(10);
    let found = to_kafka::bare_ack_ms(broker, rate, seconds).await;
    let [half, most] = found.with_context(|| format!("a bare producer at {rate}/s"))?;
    let cell = |name: &str| match name {
        "forwarded by" => "a bare producer".to_owned(),
        "offered/s" => rate.to_string(),
        "arrived" => (rate * seconds).to_string(),
        "Kafka's ack" => format!("{half:.1} / {most:.1}"),
        _ => "-".to_owned(),
    };
    Ok(COLUMNS.iter().copied().map(cell).collect())
}

/// Measures the daemon several times; returns the median cells.
async fn median_run(broker: &Arc<Kafka>, rate: usize, client: Client) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for _ in 0..rounds()? {
        lines.push(run(broker, Forwarder::Delaybridge(Build::This), rate, client).await?);
    }
    Ok(middle(&lines))
}

/// Measures one line of the table.
pub async fn run(broker: &Arc<Kafka>, forwarder: Forwarder, rate: usize, client: Client) -> Result<Vec<String>> {
    said(&format!("steady: {} at {rate}/s", forwarder.name()));
    run_once(broker, forwarder, rate, client).await.with_context(|| format!("{} at {rate}/s", forwarder.name()))
}

async fn run_once(broker: &Arc<Kafka>, forwarder: Forwarder, rate: usize, client: Client) -> Result<Vec<String>> {
    let seconds = number("STEADY_SECONDS", 30)?;
    let server = RedisServer::start().await;
    let topic = format!("steady-{}-{rate}", forwarder.mode().unwrap_or("bridge"));
    to_kafka::create_stamped(broker, &topic).await?;
    let redis_url = server.url().trim_end_matches("/0").to_owned();
    let count = rate * seconds;
    // Either forwards until it is dropped.
    let (daemon, _peer) = match forwarder.mode() {
        None => {
            let queues = format!(
                "sinks: {{ out: {} }}\nqueues:\n  q: {{ source: {{ redisson: {{ name: {QUEUE} }} }}, to: [{{ sink: out, topic: {topic} }}] }}\n",
                sink(broker)
            );
            let mut daemon = Daemon::spawn(&server.url(), &queues)?;
            daemon.ready().await?;
            (Some(daemon), None)
        }
        Some(mode) => {
            let count = count.to_string();
            let most = (seconds + 60).to_string();
            let arguments =
                ["forward", &redis_url, &broker.bootstrap(), QUEUE, &topic, mode, &count, &most].map(str::to_owned);
            (None, Some(spawn(arguments.to_vec()).await?))
        }
    };
    let mut peer = None;
    let offering: BoxFuture<'_, Result<Done>> = match client {
        Client::Live => {
            let rate = rate.to_string();
            let seconds = seconds.to_string();
            let offer = ["offer", &redis_url, QUEUE, &rate, &seconds, "1000", "10000", "256"].map(str::to_owned);
            // The client lives until all elements have arrived, and its transfer task with it.
            let peer = peer.insert(spawn(offer.to_vec()).await?);
            Box::pin(peer.done(Duration::from_secs(600)))
        }
        Client::Gone => Box::pin(offer(server.client().await, rate, seconds)),
    };
    let until = Instant::now() + Duration::from_secs(seconds as u64 * 3 + 60);
    let mut pings = Vec::new();
    let offered = with_pings(offering, server.client().await, &mut pings).await?;
    loop {
        let arrived = to_kafka::count_records(broker, &topic).await?;
        if arrived >= offered.count {
            break;
        }
        ensure!(Instant::now() < until, "{arrived} of {} had arrived when the time was up", offered.count);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let records = to_kafka::read(broker, &topic).await?;
    let due = |payload: &[u8]| std::str::from_utf8(payload.get(..13)?).ok()?.parse::<i64>().ok();
    let mut late: Vec<i64> = records.iter().filter_map(|r| Some(r.arrived_ms? - due(&r.payload)?)).collect();
    ensure!(late.len() == offered.count, "{} records of {} offers", late.len(), offered.count);
    late.sort_unstable();
    pings.sort_unstable();
    let mut cells = vec![
        match client {
            Client::Live => forwarder.name().to_owned(),
            Client::Gone => format!("{}, no client", forwarder.name()),
        },
        format!("{:.0}", offered.count as f64 / offered.seconds),
        late.len().to_string(),
    ];
    cells.extend([0.5, 0.99, 0.999, 1.0].map(|share| at(&late, share).to_string()));
    cells.push(format!("{:.2} / {:.2}", at(&pings, 0.5) as f64 / 1e3, at(&pings, 0.99) as f64 / 1e3));
    match daemon {
        None => cells.extend(["-", "-", "-", "-", "-"].map(str::to_owned)),
        Some(daemon) => {
            let metrics = daemon.metrics().await?;
            let share = metrics.sum("delaybridge_claimed_messages_total{from=\"ready\"}") / late.len() as f64;
            cells.push(format!("{:.0} %", share * 100.0));
            for selector in [
                "delaybridge_script_duration_seconds{script=\"claim\"}",
                "delaybridge_sink_ack_duration_seconds",
                "delaybridge_script_duration_seconds{script=\"settle\"}",
                "delaybridge_delivery_lateness_seconds",
            ] {
                let found = Histogram::of(&metrics, selector);
                let ms = |share| found.at_most_ms(share).map_or("more".to_owned(), |ms| format!("{ms:.1}"));
                cells.push(format!("{} / {}", ms(0.5), ms(0.99)));
            }
            daemon.stop().await;
        }
    }
    drop(peer);
    to_kafka::delete(broker, &topic).await?;
    Ok(cells)
}

/// Offers like a client, one element after the other, with random delays of 1 to 10 s.
async fn offer(redis: MultiplexedConnection, rate: usize, seconds: usize) -> Result<Done> {
    let queue = RedissonQueue::new(QUEUE);
    let count = rate * seconds;
    let began = Instant::now();
    let mut offered = 0;
    while offered < count {
        tokio::time::sleep(Duration::from_millis(5)).await;
        let by_now = ((began.elapsed().as_secs_f64() * rate as f64) as usize).min(count);
        let now = redis_now_ms(&mut redis.clone()).await;
        join_all((offered..by_now).map(|_| {
            let mut redis = redis.clone();
            let queue = &queue;
            let due = now + fastrand::i64(1_000..10_000);
            async move { queue.offer(&mut redis, due, format!("{due:013}{:0>243}", "")).await }
        }))
        .await;
        offered = by_now;
    }
    Ok(Done { count, seconds: began.elapsed().as_secs_f64(), cpu: 0.0 })
}

/// Pings Redis five times a second until the work is done; returns the latencies in microseconds.
async fn with_pings(
    mut work: BoxFuture<'_, Result<Done>>,
    mut redis: MultiplexedConnection,
    pings: &mut Vec<i64>,
) -> Result<Done> {
    loop {
        // Order does not matter: the work continues where it stopped.
        tokio::select! {
            done = &mut work => return done,
            () = tokio::time::sleep(Duration::from_millis(200)) => {
                let asked = Instant::now();
                let () = redis::cmd("PING").query_async(&mut redis).await?;
                pings.push(asked.elapsed().as_micros() as i64);
            }
        }
    }
}

/// Starts a peer, which is compiled the first time.
pub async fn spawn(arguments: Vec<String>) -> Result<Peer> {
    tokio::task::spawn_blocking(move || Peer::spawn(&arguments.iter().map(String::as_str).collect::<Vec<_>>())).await?
}
