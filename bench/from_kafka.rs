//! Records of a real Kafka through an input: into the job queue, and through it into another topic, compared with a bare consumer,
//! and with one that writes what it reads, of the same client library.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use brokers::Kafka;
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
use rdkafka::error::KafkaError;
use rdkafka::message::{Header, Message as _, OwnedHeaders};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer as _, ThreadedProducer};
use rdkafka::types::RDKafkaErrorCode;

use crate::daemon::Daemon;
use crate::from_amqp::rows;
use crate::intake::{Arrived, scheduled, timed};
use crate::report::Row;
use crate::settings::{number, rounds, said};
use crate::to_kafka;
use harness::fill::payload;
use harness::redis_server::RedisServer;

/// The default number of records of one run.
const RECORDS: usize = 100_000;
/// The time for the last records of a bare producer.
const FLUSH: Duration = Duration::from_secs(60);

type Bare = ThreadedProducer<DefaultProducerContext>;

/// Measures the rows of Kafka of `ROWS=inputs`.
pub async fn measure() -> Result<Vec<Row>> {
    let broker = to_kafka::start().await?;
    let count = number("MESSAGES", RECORDS)?;
    let [mut consumers, mut ins, mut relays, mut throughs]: [Vec<f64>; 4] = Default::default();
    for round in 0..=rounds()? {
        said(&format!("inputs: Kafka, round {round}"));
        let plain = format!("plain-{round}");
        let late = format!("late-{round}");
        fill(&broker, &plain, count, None).await?;
        fill(&broker, &late, count, Some("3600000")).await?;
        let found = [
            bare(&broker, &plain, None, count).await.context("a bare consumer")?,
            add(&broker, &late, count).await.context("into the job queue")?,
            bare(&broker, &plain, Some("copied"), count).await.context("a bare consumer that writes")?,
            through(&broker, &plain, count).await.context("through the job queue")?,
        ];
        if round > 0 {
            for (all, found) in [&mut consumers, &mut ins, &mut relays, &mut throughs].into_iter().zip(found) {
                all.push(found);
            }
        }
        to_kafka::delete(&broker, &plain).await?;
        to_kafka::delete(&broker, &late).await?;
    }
    Ok(rows(&format!("{count} records of Kafka"), [consumers, ins, relays, throughs]))
}

/// Creates a topic with records.
async fn fill(broker: &Arc<Kafka>, topic: &str, count: usize, delay: Option<&'static str>) -> Result<()> {
    to_kafka::create(broker, topic).await?;
    let bootstrap = broker.bootstrap();
    let topic = topic.to_owned();
    let write = move || {
        let producer = to_kafka::threaded(&bootstrap)?;
        for n in 0..count {
            let headers = OwnedHeaders::new().insert(Header { key: "tenant", value: Some("a") });
            let headers = match delay {
                Some(delay) => headers.insert(Header { key: "x-delay", value: Some(delay) }),
                None => headers,
            };
            send(&producer, BaseRecord::to(&topic).key(&format!("k-{n}")).payload(&payload(n, 256)).headers(headers))?;
        }
        producer.flush(FLUSH).context("write the records")
    };
    tokio::task::spawn_blocking(write).await?
}

/// Sends a record, and waits while there is no room.
fn send(producer: &Bare, mut record: BaseRecord<'_, String, String>) -> Result<()> {
    loop {
        match producer.send(record) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                record = back;
                std::thread::sleep(Duration::from_millis(1));
            }
            Err((error, _)) => return Err(error).context("send a record"),
        }
    }
}

/// Records per second of a consumer that does nothing else, or writes each into a topic; it commits at the end.
async fn bare(broker: &Arc<Kafka>, topic: &str, to: Option<&'static str>, count: usize) -> Result<f64> {
    if let Some(to) = to {
        to_kafka::create(broker, to).await?;
    }
    let bootstrap = broker.bootstrap();
    let topic = topic.to_owned();
    let read = move || {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", &bootstrap)
            .set("group.id", format!("bare-{topic}-{}", to.unwrap_or("only")))
            .set("enable.auto.commit", "false")
            .set("auto.offset.reset", "earliest")
            .set("queued.max.messages.kbytes", "16384")
            .create()?;
        let producer = to_kafka::threaded(&bootstrap)?;
        consumer.subscribe(&[&topic])?;
        let mut started = None;
        let mut taken = 0;
        let until = Instant::now() + Duration::from_secs(300);
        while taken < count {
            ensure!(Instant::now() < until, "{taken} of {count} records");
            let Some(record) = consumer.poll(Duration::from_millis(100)) else { continue };
            let record = record?;
            started.get_or_insert_with(Instant::now);
            taken += 1;
            if let Some(to) = to {
                let text = |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
                let key = text(record.key());
                let body = text(record.payload());
                let headers = record.headers().map(|headers| headers.detach()).unwrap_or_default();
                send(&producer, BaseRecord::to(to).key(&key).payload(&body).headers(headers))?;
            }
        }
        producer.flush(FLUSH)?;
        consumer.commit_consumer_state(CommitMode::Sync)?;
        Ok(count as f64 / started.context("no record")?.elapsed().as_secs_f64())
    };
    let rate = tokio::task::spawn_blocking(read).await??;
    if let Some(to) = to {
        let written = to_kafka::count_records(broker, to).await?;
        ensure!(written == count, "{written} of {count} records were written");
        to_kafka::delete(broker, to).await?;
    }
    Ok(rate)
}

fn yaml(broker: &Arc<Kafka>, topic: &str) -> String {
    let brokers = broker.bootstrap();
    format!(
        "sinks: {{ out: {{ kafka: {{ brokers: ['{brokers}'] }} }} }}\n\
         inputs: {{ late: {{ kafka: {{ brokers: ['{brokers}'], topics: [{topic}], group: 'ours-{topic}' }}, \
         topic: late, to: {{ sink: out, topic: out }} }} }}\n"
    )
}

/// Records per second that become jobs.
async fn add(broker: &Arc<Kafka>, topic: &str, count: usize) -> Result<f64> {
    to_kafka::create(broker, "out").await?;
    let server = RedisServer::start().await;
    let daemon = Daemon::spawn(&server.url(), &yaml(broker, topic))?;
    let rate = timed(count, async || scheduled(&daemon).await).await?;
    daemon.stop().await;
    to_kafka::delete(broker, "out").await?;
    Ok(rate)
}

/// Records per second that come out again.
async fn through(broker: &Arc<Kafka>, topic: &str, count: usize) -> Result<f64> {
    to_kafka::create(broker, "out").await?;
    let server = RedisServer::start().await;
    let daemon = Daemon::spawn(&server.url(), &yaml(broker, topic))?;
    let rate = timed(count, async || Ok(Arrived::At(to_kafka::count_records(broker, "out").await?))).await?;
    daemon.stop().await;
    let written = to_kafka::count_records(broker, "out").await?;
    ensure!(written == count, "{written} of {count} records came out");
    to_kafka::delete(broker, "out").await?;
    Ok(rate)
}
