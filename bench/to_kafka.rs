//! The daemon into a real Kafka, compared with a bare producer with the same settings and with its scripts alone.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use brokers::{Kafka, KafkaOptions};
use rdkafka::error::KafkaError;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{
    BaseProducer, BaseRecord, DefaultProducerContext, DeliveryResult, Producer as _, ProducerContext, ThreadedProducer,
};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{ClientConfig, ClientContext};

use crate::daemon::Build;
use crate::passage::{Stock, each, median};
use crate::peers::{Ran, drain};
use crate::report::{Table, at};
use crate::settings::{number, rounds, said};
use crate::steady::Forwarder;
use harness::fill::{Load, Order, payload};
use harness::kafka;
use harness::oracle::Delivery;

/// Default number of elements of one run.
const ELEMENTS: usize = 100_000;
const PARTITIONS: i32 = 4;
/// The daemon's default.
const LINGER_MS: u32 = 1;

const COLUMNS: &[&str] = &[
    "due times",
    "forwarded by",
    "delaybridge to it",
    "bar",
    "elements/s",
    "each run",
    "CPU s per 100,000",
    "bar",
    "memory MiB",
    "bar",
    "Redis us each",
];

/// The producer's settings of the daemon, except for the linger.
const SETTINGS: [(&str, &str); 7] = [
    ("enable.idempotence", "true"),
    ("acks", "all"),
    ("batch.size", "1048576"),
    ("compression.type", "none"),
    ("partitioner", "murmur2_random"),
    ("queue.buffering.max.messages", "100000"),
    ("queue.buffering.max.kbytes", "262144"),
];

/// Starts a broker with the full JIT compiler: otherwise its code would be slow, and the limit low.
pub async fn start() -> Result<Arc<Kafka>> {
    let start = || Kafka::start_with(KafkaOptions { fast_jit: false, ..KafkaOptions::default() });
    let broker = Arc::new(tokio::task::spawn_blocking(start).await?.context("start Kafka")?);
    bare(&broker, "warm", number("ELEMENTS", ELEMENTS)?, 256).await?;
    Ok(broker)
}

/// A forwarder, or a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Forwarder(Forwarder),
    /// librdkafka alone, with the same settings.
    Producer,
    /// Claims and settlings without a delivery.
    Scripts,
}

/// The results of one run.
#[derive(Debug, Clone, Copy)]
struct Found {
    rate: f64,
    /// Microseconds of CPU for each element, and resident memory in bytes, of the forwarder.
    cpu_us: f64,
    resident: f64,
    redis_us: f64,
}

/// Measures the table of `ROWS=kafka`.
pub async fn measure() -> Result<Table> {
    let broker = start().await?;
    let elements = number("ELEMENTS", ELEMENTS)?;
    let cap = number("PEER_SECONDS", 60)?;
    let rounds = rounds()?;
    let title = format!("{elements} pending to Kafka, 256 B, every id once, medians of {rounds}");
    let mut table = Table::new(title, COLUMNS);
    let builds = Build::all().into_iter().map(Forwarder::Delaybridge);
    let all: Vec<By> =
        builds.chain([Forwarder::DrainTo]).map(By::Forwarder).chain([By::Producer, By::Scripts]).collect();
    for order in [Order::Offers, Order::Random] {
        let load = Load { order, ..Load::overdue(elements) };
        let mut runs: Vec<Vec<Found>> = vec![Vec::new(); all.len()];
        for round in 0..rounds {
            for at in 0..all.len() {
                let n = (at + round) % all.len();
                said(&format!("kafka: {}, {}", all[n].name(), order.name()));
                runs[n].push(all[n].run(&broker, load, cap).await.context(all[n].name())?);
            }
        }
        for (by, of_it) in all.iter().zip(&runs) {
            table.lines.push(by.cells(order, of_it, &runs[0]));
        }
    }
    table.notes = vec![
        "delaybridge to it: elements/s of delaybridge beside those of this line. Without a bar: a limit of it.".into(),
        format!("Redisson's loop is given {cap} s (PEER_SECONDS); what it forwarded counts. It acknowledges nothing."),
        "The other build: DELAYBRIDGE_BENCH_BESIDE=/path/to/delaybridge. Memory: of the process, at most.".into(),
    ];
    Ok(table)
}

impl By {
    fn name(self) -> &'static str {
        match self {
            By::Forwarder(forwarder) => forwarder.name(),
            By::Producer => "librdkafka alone",
            By::Scripts => "scripts alone, sent nowhere",
        }
    }

    async fn run(self, broker: &Arc<Kafka>, load: Load, cap: u64) -> Result<Found> {
        let limit = |rate: f64| Found { rate, cpu_us: f64::NAN, resident: f64::NAN, redis_us: f64::NAN };
        Ok(match self {
            By::Forwarder(forwarder) => {
                let Ran { rate, cpu_us, resident, redis_us, .. } = drain(broker, forwarder, load, cap).await?;
                Found { rate, cpu_us, resident: resident as f64, redis_us }
            }
            By::Producer => limit(bare(broker, "bare", load.count, load.size).await?),
            By::Scripts => limit(Stock::with(load, 1).await?.scripts_alone().await?),
        })
    }

    /// The promise of delaybridge compared with this.
    fn bar(self, order: Order) -> &'static str {
        match self {
            By::Forwarder(Forwarder::Delaybridge(Build::Beside)) => ">= 1.6x",
            By::Forwarder(Forwarder::DrainTo) if order == Order::Offers => ">= 1.7x",
            _ => "-",
        }
    }

    fn cells(self, order: Order, runs: &[Found], ours: &[Found]) -> Vec<String> {
        let of = |runs: &[Found], figure: fn(&Found) -> f64| median(runs.iter().map(figure));
        let show =
            |figure: f64, digits: usize| if figure.is_nan() { "-".to_owned() } else { format!("{figure:.digits$}") };
        let this = self == By::Forwarder(Forwarder::Delaybridge(Build::This));
        vec![
            order.name().to_owned(),
            self.name().to_owned(),
            format!("{:.2}x", of(ours, |found| found.rate) / of(runs, |found| found.rate)),
            self.bar(order).to_owned(),
            format!("{:.0}", of(runs, |found| found.rate)),
            each(runs.iter().map(|found| found.rate)),
            show(of(runs, |found| found.cpu_us) / 10.0, 2),
            if this { "<= 0.8 s" } else { "-" }.to_owned(),
            show(of(runs, |found| found.resident) / f64::from(1 << 20), 0),
            if this { "<= 50 MB" } else { "-" }.to_owned(),
            show(of(runs, |found| found.redis_us), 1),
        ]
    }
}

pub async fn create(broker: &Arc<Kafka>, topic: &str) -> Result<()> {
    create_with(broker, topic, &[]).await
}

/// Creates a topic with the broker's write time in its records.
pub async fn create_stamped(broker: &Arc<Kafka>, topic: &str) -> Result<()> {
    create_with(broker, topic, &[("message.timestamp.type", "LogAppendTime")]).await
}

async fn create_with(broker: &Arc<Kafka>, topic: &str, settings: &'static [(&str, &str)]) -> Result<()> {
    let broker = broker.clone();
    let topic = topic.to_owned();
    let create = move || broker.create_topic(&topic, PARTITIONS, settings);
    tokio::task::spawn_blocking(create).await?.context("create a topic")
}

/// Reads all records of a topic.
pub async fn read(broker: &Arc<Kafka>, topic: &str) -> Result<Vec<Delivery>> {
    patiently(async || kafka::read_topic(&broker.bootstrap(), topic).await).await
}

/// Number of records in a topic.
pub async fn count_records(broker: &Arc<Kafka>, topic: &str) -> Result<usize> {
    patiently(async || kafka::count_topic(&broker.bootstrap(), topic).await).await
}

/// Repeats a request until it succeeds: a broker that is short of CPU may change its leaders.
async fn patiently<T>(ask: impl AsyncFn() -> Result<T, String>) -> Result<T> {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        match ask().await {
            Ok(found) => return Ok(found),
            Err(_) if Instant::now() < until => tokio::time::sleep(Duration::from_millis(500)).await,
            Err(error) => return Err(anyhow::Error::msg(error)),
        }
    }
}

pub async fn delete(broker: &Arc<Kafka>, topic: &str) -> Result<()> {
    let broker = broker.clone();
    let topic = topic.to_owned();
    tokio::task::spawn_blocking(move || broker.delete_topic(&topic)).await?.context("delete a topic")
}

/// Measures the records/s of a producer that does nothing else.
pub async fn bare(broker: &Arc<Kafka>, topic: &str, count: usize, size: usize) -> Result<f64> {
    create(broker, topic).await?;
    let bootstrap = broker.bootstrap();
    let name = topic.to_owned();
    let run = tokio::task::spawn_blocking(move || {
        let producer = connected(&bootstrap, &name)?;
        Run::of(&producer, &name, count, size, Duration::ZERO)
    })
    .await??;
    delete(broker, topic).await?;
    Ok(count as f64 / run.seconds)
}

/// Measures the milliseconds until Kafka confirms a record, the median and the 99th percentile, without other load.
pub async fn bare_ack_ms(broker: &Arc<Kafka>, rate: usize, seconds: usize) -> Result<[f64; 2]> {
    let topic = format!("paced-{rate}");
    create(broker, &topic).await?;
    let bootstrap = broker.bootstrap();
    let name = topic.clone();
    let between = Duration::from_secs(1) / rate.max(1) as u32;
    let mut run = tokio::task::spawn_blocking(move || {
        let producer = connected(&bootstrap, &name)?;
        Run::of(&producer, &name, rate * seconds, 256, between)
    })
    .await??;
    delete(broker, &topic).await?;
    // Those of the first second include the request for the producer's id.
    let first = rate.min(run.acks_us.len() / 2);
    run.acks_us.drain(..first);
    run.acks_us.sort_unstable();
    Ok([0.5, 0.99].map(|share| at(&run.acks_us, share) as f64 / 1e3))
}

#[derive(Default)]
struct Reports {
    /// Microseconds from sending to the report, of written records.
    acks_us: Mutex<Vec<i64>>,
    done: AtomicUsize,
}

impl ClientContext for Reports {}

impl ProducerContext for Reports {
    type DeliveryOpaque = Box<Instant>;

    fn delivery(&self, result: &DeliveryResult<'_>, sent: Box<Instant>) {
        if result.is_ok() {
            let mut acks = self.acks_us.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            acks.push(sent.elapsed().as_micros() as i64);
        }
        self.done.fetch_add(1, Ordering::Relaxed);
    }
}

type Bare = BaseProducer<Reports>;

/// The results of a bare producer.
struct Run {
    seconds: f64,
    acks_us: Vec<i64>,
}

impl Run {
    /// Sends records, `between` apart, and waits for their reports.
    fn of(producer: &Bare, topic: &str, elements: usize, size: usize, between: Duration) -> Result<Run> {
        let ended = AtomicBool::new(false);
        let reports = producer.context();
        let done = || reports.done.load(Ordering::Relaxed);
        let seconds = std::thread::scope(|scope| {
            // The reports are polled by a thread of their own, as in the daemon.
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    producer.poll(Duration::from_millis(50));
                }
            });
            let started = Instant::now();
            let sent = (0..elements).try_for_each(|n| {
                std::thread::sleep((between * n as u32).saturating_sub(started.elapsed()));
                send(producer, topic, n, size)
            });
            let patience = between * elements as u32 + Duration::from_secs(120);
            while sent.is_ok() && done() < elements && started.elapsed() < patience {
                std::thread::sleep(Duration::from_millis(1));
            }
            let seconds = started.elapsed().as_secs_f64();
            ended.store(true, Ordering::Relaxed);
            sent.map(|()| seconds)
        })?;
        let acks_us = std::mem::take(&mut *reports.acks_us.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
        ensure!(acks_us.len() == elements, "a bare producer wrote {} of {elements} records", acks_us.len());
        Ok(Run { seconds, acks_us })
    }
}

fn connected(bootstrap: &str, topic: &str) -> Result<Bare> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap).set("linger.ms", LINGER_MS.to_string());
    for (name, value) in SETTINGS {
        config.set(name, value);
    }
    let producer: Bare = config.create_with_context(Reports::default())?;
    producer.client().fetch_metadata(Some(topic), Duration::from_secs(30)).context("connect a bare producer")?;
    Ok(producer)
}

/// A bare producer with a thread that polls it.
pub fn threaded(bootstrap: &str) -> Result<ThreadedProducer<DefaultProducerContext>> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap).set("linger.ms", LINGER_MS.to_string());
    for (name, value) in SETTINGS {
        config.set(name, value);
    }
    config.create().context("start a bare producer")
}

fn send(producer: &Bare, topic: &str, n: usize, size: usize) -> Result<()> {
    let body = payload(n, size);
    let headers = OwnedHeaders::new_with_capacity(4)
        .insert(Header { key: "delaybridge-id", value: Some(&format!("{n:016x}")) })
        .insert(Header { key: "delaybridge-queue", value: Some("q") })
        .insert(Header { key: "delaybridge-due-ms", value: Some("1700000000000") })
        .insert(Header { key: "delaybridge-attempt", value: Some("1") });
    let mut record =
        BaseRecord::<str, String, _>::with_opaque_to(topic, Box::new(Instant::now())).payload(&body).headers(headers);
    loop {
        match producer.send(record) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                record = back;
                std::thread::sleep(Duration::from_millis(1));
            }
            Err((error, _)) => return Err(error).context("send a bare record"),
        }
    }
}
