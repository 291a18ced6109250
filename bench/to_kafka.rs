//! The daemon into a real Kafka, beside a bare producer at the same settings and beside its scripts alone.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use brokers::{Kafka, KafkaOptions};
use rdkafka::error::KafkaError;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer as _, ProducerContext};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{ClientConfig, ClientContext};

use crate::fill::payload;
use crate::kafka;
use crate::oracle::Delivery;
use crate::passage::{Passage, Stock, costs, each, median};
use crate::report::{Row, at};
use crate::settings::number;

/// Elements of one run, unless the environment says otherwise.
const ELEMENTS: usize = 200_000;
const PARTITIONS: i32 = 4;
/// Everything once in a round.
const ROUNDS: usize = 3;
/// The default, and what gives larger batches: milliseconds.
const LINGERS: [u32; 2] = [1, 20];

/// What the daemon sets with its defaults, but for `linger`.
const SETTINGS: [(&str, &str); 7] = [
    ("enable.idempotence", "true"),
    ("acks", "all"),
    ("batch.size", "1048576"),
    ("compression.type", "none"),
    ("partitioner", "murmur2_random"),
    ("queue.buffering.max.messages", "100000"),
    ("queue.buffering.max.kbytes", "262144"),
];

/// A broker that has compiled what it needs: what its virtual machine has not would make a limit low.
pub async fn start() -> Result<Arc<Kafka>> {
    let start = || Kafka::start_with(KafkaOptions { fast_jit: false, ..KafkaOptions::default() });
    let broker = Arc::new(tokio::task::spawn_blocking(start).await?.context("start Kafka")?);
    bare(&broker, "warm", number("ELEMENTS", ELEMENTS)?, 256).await?;
    Ok(broker)
}

/// The rows of `ROWS=kafka`.
pub async fn measure() -> Result<Vec<Row>> {
    let broker = start().await?;
    let elements = number("ELEMENTS", ELEMENTS)?;
    let mut runs = LINGERS.map(|linger_ms| Runs { linger_ms, bare: Vec::new(), passages: Vec::new() });
    let (mut alone, mut alone_by_script) = (Vec::new(), String::new());
    for _ in 0..ROUNDS {
        for runs in &mut runs {
            runs.add(&broker, elements).await?;
        }
        let stock = Stock::of(elements).await?;
        let (rate, by_script) = stock.scripts_alone().await?;
        alone.push(rate);
        alone_by_script = by_script;
    }
    let scripts = median(alone.clone());
    let mut rows = vec![
        Row {
            what: format!("{elements} claimed and settled, sent nowhere"),
            found: format!("{scripts:.0}/s ({})", each(alone)),
            bar: "",
        },
        Row { what: "Redis's time each, sent nowhere".to_owned(), found: alone_by_script, bar: "" },
    ];
    for runs in &runs {
        rows.extend(runs.rows(elements, scripts));
    }
    Ok(rows)
}

/// What was measured with one `linger`.
struct Runs {
    linger_ms: u32,
    bare: Vec<f64>,
    passages: Vec<Passage>,
}

impl Runs {
    /// A bare producer, then the daemon.
    async fn add(&mut self, broker: &Arc<Kafka>, elements: usize) -> Result<()> {
        let linger_ms = self.linger_ms;
        self.bare.push(bare_with(broker, "bare", elements, 256, linger_ms).await?);
        let topic = "passage";
        create(broker, topic).await?;
        let mut stock = Stock::of(elements).await?;
        let sink = format!("{{ kafka: {{ brokers: ['{}'], linger: {linger_ms}ms }} }}", broker.bootstrap());
        self.passages.push(stock.pass(&sink, &format!("topic: {topic}"), &broker.pids()).await?);
        stock.judge(&read(broker, topic).await?)?;
        delete(broker, topic).await
    }

    fn rows(&self, elements: usize, scripts: f64) -> Vec<Row> {
        let rates = || self.passages.iter().map(|passage| passage.rate);
        let (rate, bare) = (median(rates()), median(self.bare.clone()));
        let what = |of: &str| format!("{elements} to Kafka, linger {} ms{of}", self.linger_ms);
        let row = |of: &str, found: String, bar| Row { what: what(of), found, bar };
        let share = rate / bare.min(scripts) * 100.0;
        vec![
            row("", format!("{rate:.0}/s ({}), every id once", each(rates())), "every id once"),
            row(", bare producer", format!("{bare:.0}/s ({})", each(self.bare.clone())), ""),
            row(", share", format!("{share:.0} % of the lower limit"), ">= 80 %"),
            row(", CPU each", costs(&self.passages, "Kafka"), ""),
            row(", Redis's time each", self.passages.last().map_or(String::new(), |last| last.scripts.clone()), ""),
        ]
    }
}

/// Makes a topic.
pub async fn create(broker: &Arc<Kafka>, topic: &str) -> Result<()> {
    create_with(broker, topic, &[]).await
}

/// Makes a topic with the broker's write time in its records.
pub async fn create_stamped(broker: &Arc<Kafka>, topic: &str) -> Result<()> {
    create_with(broker, topic, &[("message.timestamp.type", "LogAppendTime")]).await
}

async fn create_with(broker: &Arc<Kafka>, topic: &str, settings: &'static [(&str, &str)]) -> Result<()> {
    let (broker, topic) = (broker.clone(), topic.to_owned());
    let create = move || broker.create_topic(&topic, PARTITIONS, settings);
    tokio::task::spawn_blocking(create).await?.context("create a topic")
}

/// Every record of a topic.
pub async fn read(broker: &Arc<Kafka>, topic: &str) -> Result<Vec<Delivery>> {
    patiently(async || kafka::read_topic(&broker.bootstrap(), topic).await).await
}

/// How many records a topic holds.
pub async fn count_records(broker: &Arc<Kafka>, topic: &str) -> Result<usize> {
    patiently(async || kafka::count_topic(&broker.bootstrap(), topic).await).await
}

/// Asks until there is an answer: a broker that is short of CPU changes its leaders.
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

/// Takes a topic away.
pub async fn delete(broker: &Arc<Kafka>, topic: &str) -> Result<()> {
    let (broker, topic) = (broker.clone(), topic.to_owned());
    tokio::task::spawn_blocking(move || broker.delete_topic(&topic)).await?.context("delete a topic")
}

/// Records a second of a producer that does nothing else.
pub async fn bare(broker: &Arc<Kafka>, topic: &str, count: usize, size: usize) -> Result<f64> {
    bare_with(broker, topic, count, size, LINGERS[0]).await
}

async fn bare_with(broker: &Arc<Kafka>, topic: &str, count: usize, size: usize, linger_ms: u32) -> Result<f64> {
    create(broker, topic).await?;
    let (bootstrap, name) = (broker.bootstrap(), topic.to_owned());
    let run = tokio::task::spawn_blocking(move || {
        let producer = connected(&bootstrap, &name, linger_ms)?;
        Run::of(&producer, &name, count, size, Duration::ZERO)
    })
    .await??;
    delete(broker, topic).await?;
    Ok(count as f64 / run.seconds)
}

/// Milliseconds until Kafka confirms a record, at half and at 99 % of the records, without other load.
pub async fn bare_ack_ms(broker: &Arc<Kafka>, rate: usize, seconds: usize) -> Result<[f64; 2]> {
    let topic = format!("paced-{rate}");
    create(broker, &topic).await?;
    let (bootstrap, name) = (broker.bootstrap(), topic.clone());
    let between = Duration::from_secs(1) / rate.max(1) as u32;
    let mut run = tokio::task::spawn_blocking(move || {
        let producer = connected(&bootstrap, &name, LINGERS[0])?;
        Run::of(&producer, &name, rate * seconds, 256, between)
    })
    .await??;
    delete(broker, &topic).await?;
    // Those of the first second waited for the producer's id.
    let first = rate.min(run.acks_us.len() / 2);
    run.acks_us.drain(..first);
    run.acks_us.sort_unstable();
    Ok([0.5, 0.99].map(|share| at(&run.acks_us, share) as f64 / 1e3))
}

/// What the reports say.
#[derive(Default)]
struct Reports {
    /// Microseconds from the record's sending on, of those that were written.
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

/// What a bare producer did.
struct Run {
    seconds: f64,
    acks_us: Vec<i64>,
}

impl Run {
    /// Sends so many records, `between` apart, and waits for their reports.
    fn of(producer: &Bare, topic: &str, elements: usize, size: usize, between: Duration) -> Result<Run> {
        let ended = AtomicBool::new(false);
        let reports = producer.context();
        let done = || reports.done.load(Ordering::Relaxed);
        let seconds = std::thread::scope(|scope| {
            // A thread of its own for the reports, as the daemon has it.
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

fn connected(bootstrap: &str, topic: &str, linger_ms: u32) -> Result<Bare> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap).set("linger.ms", linger_ms.to_string());
    for (name, value) in SETTINGS {
        config.set(name, value);
    }
    let producer: Bare = config.create_with_context(Reports::default())?;
    producer.client().fetch_metadata(Some(topic), Duration::from_secs(30)).context("connect a bare producer")?;
    Ok(producer)
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
