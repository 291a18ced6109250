//! The daemon into a real Kafka, beside a bare producer at the same settings and beside its scripts alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
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
use crate::passage::{Stock, costs, each, median};
use crate::report::Row;
use crate::settings::number;

/// Elements of one run, unless the environment says otherwise.
const ELEMENTS: usize = 200_000;
const PARTITIONS: i32 = 4;
/// Each of the three once in a round.
const ROUNDS: usize = 3;

/// What the daemon sets with its defaults.
const SETTINGS: [(&str, &str); 8] = [
    ("enable.idempotence", "true"),
    ("acks", "all"),
    ("linger.ms", "1"),
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
    let (mut bares, mut alone, mut passages) = (Vec::new(), Vec::new(), Vec::new());
    let mut alone_by_script = String::new();
    for round in 0..ROUNDS {
        bares.push(bare(&broker, &format!("bare-{round}"), elements, 256).await?);

        let topic = format!("passage-{round}");
        create(&broker, &topic).await?;
        let mut stock = Stock::of(elements).await?;
        let sink = format!("{{ kafka: {{ brokers: ['{}'] }} }}", broker.bootstrap());
        passages.push(stock.pass(&sink, &format!("topic: {topic}"), &broker.pids()).await?);
        let records = read(&broker, &topic).await?;
        stock.judge(&records)?;
        delete(&broker, &topic).await?;
        drop(stock);

        let stock = Stock::of(elements).await?;
        let (rate, by_script) = stock.scripts_alone().await?;
        alone.push(rate);
        alone_by_script = by_script;
    }
    let rates = || passages.iter().map(|passage| passage.rate);
    let (rate, bare, scripts) = (median(rates()), median(bares.clone()), median(alone.clone()));
    let what = |of: &str| format!("{elements} to Kafka{of}");
    let row = |of: &str, found: String, bar| Row { what: what(of), found, bar };
    Ok(vec![
        row("", format!("{rate:.0}/s ({}), every id once", each(rates())), "every id once"),
        row(", bare producer", format!("{bare:.0}/s ({})", each(bares)), ""),
        row(", claim and settle alone", format!("{scripts:.0}/s ({})", each(alone)), ""),
        row(", share", format!("{:.0} % of the lower limit", rate / bare.min(scripts) * 100.0), ">= 80 %"),
        row(", CPU each", costs(&passages, "Kafka"), ""),
        row(", Redis's time each", passages.last().map_or(String::new(), |last| last.scripts.clone()), ""),
        row(", Redis's time each, alone", alone_by_script, ""),
    ])
}

/// Makes a topic.
pub async fn create(broker: &Arc<Kafka>, topic: &str) -> Result<()> {
    create_with(broker, topic, &[]).await
}

/// Makes a topic whose records carry the time at which the broker wrote them.
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
    create(broker, topic).await?;
    let (bootstrap, name) = (broker.bootstrap(), topic.to_owned());
    let rate = tokio::task::spawn_blocking(move || produce(&bootstrap, &name, count, size)).await??;
    delete(broker, topic).await?;
    Ok(rate)
}

/// Counts the reports.
#[derive(Default)]
struct Reports {
    written: AtomicUsize,
    failed: AtomicUsize,
}

impl ClientContext for Reports {}

impl ProducerContext for Reports {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let count = if result.is_ok() { &self.written } else { &self.failed };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

fn produce(bootstrap: &str, topic: &str, elements: usize, size: usize) -> Result<f64> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap);
    for (name, value) in SETTINGS {
        config.set(name, value);
    }
    let producer: BaseProducer<Reports> = config.create_with_context(Reports::default())?;
    producer.client().fetch_metadata(Some(topic), Duration::from_secs(30)).context("connect a bare producer")?;
    let ended = AtomicBool::new(false);
    let seconds = std::thread::scope(|scope| {
        // A thread of its own for the reports, as the daemon has it.
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                producer.poll(Duration::from_millis(50));
            }
        });
        let started = Instant::now();
        let sent = (0..elements).try_for_each(|n| send(&producer, topic, n, size));
        while sent.is_ok() && count(&producer) < elements && started.elapsed() < Duration::from_secs(120) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let seconds = started.elapsed().as_secs_f64();
        ended.store(true, Ordering::Relaxed);
        sent.map(|()| seconds)
    })?;
    let written = producer.context().written.load(Ordering::Relaxed);
    ensure!(written == elements, "a bare producer wrote {written} of {elements} records");
    Ok(elements as f64 / seconds)
}

fn count(producer: &BaseProducer<Reports>) -> usize {
    let reports = producer.context();
    reports.written.load(Ordering::Relaxed) + reports.failed.load(Ordering::Relaxed)
}

fn send(producer: &BaseProducer<Reports>, topic: &str, n: usize, size: usize) -> Result<()> {
    let body = payload(n, size);
    let headers = OwnedHeaders::new_with_capacity(4)
        .insert(Header { key: "delaybridge-id", value: Some(&format!("{n:016x}")) })
        .insert(Header { key: "delaybridge-queue", value: Some("q") })
        .insert(Header { key: "delaybridge-due-ms", value: Some("1700000000000") })
        .insert(Header { key: "delaybridge-attempt", value: Some("1") });
    let mut record = BaseRecord::<(), str>::to(topic).payload(&body).headers(headers);
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
