//! The cost of `order`: the same backlog into a Redis stream and into Kafka without order, by key, and by queue.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use brokers::Kafka;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use crate::daemon::Daemon;
use crate::observed::Counters;
use crate::report::{Table, middle};
use crate::settings::{number, rounds, said};
use crate::to_kafka;
use harness::redis_server::RedisServer;
use harness::redisson::{Element, Layout, RedissonQueue, redis_now_ms};

/// Number of due elements.
const ELEMENTS: usize = 200_000;
const KEYS: usize = 1_000;
/// Size of each payload, in bytes; the payload is its key.
const SIZE: usize = 256;
const STREAM: &str = "out";

struct OrderLine {
    name: &'static str,
    to: Target,
    /// The addition to the queue's configuration.
    settings: &'static str,
}

/// The destination of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Stream,
    /// A topic, records with their keys.
    Keyed,
    /// The same, all records with one key: in runs.
    OnePartition,
    /// The same without a key: a record may go to any partition, so one is sent at a time.
    AnyPartition,
}

const BY_KEY: &str = ", order: key, order_key: \"${payload}\"";
const BY_QUEUE: &str = ", order: queue";
const LINES: [OrderLine; 7] = [
    OrderLine { name: "stream, none", to: Target::Stream, settings: "" },
    OrderLine { name: "stream, key", to: Target::Stream, settings: BY_KEY },
    OrderLine { name: "stream, queue", to: Target::Stream, settings: BY_QUEUE },
    OrderLine { name: "Kafka, none", to: Target::Keyed, settings: "" },
    OrderLine { name: "Kafka, key", to: Target::Keyed, settings: BY_KEY },
    OrderLine { name: "Kafka, queue", to: Target::OnePartition, settings: BY_QUEUE },
    OrderLine { name: "Kafka, queue, one at a time", to: Target::AnyPartition, settings: BY_QUEUE },
];

/// Measures the table of `ROWS=order`.
pub async fn measure() -> Result<Table> {
    let elements = number("ELEMENTS", ELEMENTS)?;
    let rounds = rounds()?;
    let columns = ["order", "elements/s", "us of the daemon's CPU each", "us of scripts each"];
    let title = format!("Order: {elements} due elements of {KEYS} keys, {SIZE} B");
    let mut table = Table::new(title, &columns);
    let mut lines: [Vec<Vec<String>>; 7] = Default::default();
    let broker = to_kafka::start().await?;
    for round in 0..rounds {
        for (line, results) in LINES.iter().zip(&mut lines) {
            said(&format!("order: {}, round {}", line.name, round + 1));
            results.push(drain(line, &broker, elements).await?);
        }
    }
    table.lines = lines.iter().map(|lines| middle(lines)).collect();
    table.notes = vec![
        "By queue one run of a claim's elements is at the sink at a time, by key one of each key.".into(),
        "Without a key a record may go to any partition of Kafka, so elements go one at a time.".into(),
    ];
    Ok(table)
}

impl Target {
    /// The sink and the destination, in the configuration's words.
    fn settings(self, target: &RedisServer, broker: &Kafka, topic: &str) -> (String, String) {
        let kafka = || format!("kafka: {{ brokers: [\"{}\"] }}", broker.bootstrap());
        match self {
            Target::Stream => (format!("redis: {{ url: \"{}\" }}", target.url()), format!("stream: {STREAM}")),
            Target::Keyed => (kafka(), format!("topic: {topic}, key: \"${{payload}}\"")),
            Target::OnePartition => (kafka(), format!("topic: {topic}, key: one")),
            Target::AnyPartition => (kafka(), format!("topic: {topic}")),
        }
    }
}

async fn drain(line: &OrderLine, broker: &Arc<Kafka>, elements: usize) -> Result<Vec<String>> {
    let server = RedisServer::start().await;
    let target = RedisServer::start().await;
    let mut redis = server.client().await;
    let mut sink = target.client().await;
    let queue = RedissonQueue::new("ordered");
    let first_ms = redis_now_ms(&mut redis).await - 3_600_000;
    for start in (0..elements).step_by(5_000) {
        let offers = start..elements.min(start + 5_000);
        let offers: Vec<Element> =
            offers.map(|n| Element::new(Layout::New, first_ms + n as i64, format!("{:0SIZE$}", n % KEYS))).collect();
        queue.offer_bulk(&mut redis, &offers).await;
    }
    let topic = "ordered";
    if line.to != Target::Stream {
        to_kafka::create(broker, topic).await?;
    }
    let (to, destination) = line.to.settings(&target, broker, topic);
    let before = Counters::read(&mut redis).await?;
    let mut daemon = Daemon::spawn(
        &server.url(),
        &format!(
            "sinks: {{ out: {{ {to} }} }}\nqueues:\n  q: {{ source: {{ redisson: {{ name: ordered }} }}, \
             codec: string, to: [{{ sink: out, {destination} }}]{} }}\n",
            line.settings
        ),
    )?;
    // The time begins with the first claim; the start is measured elsewhere.
    while redis.zcard::<_, usize>(&queue.timeouts).await? == elements {
        ensure!(daemon.process.exit_status().is_none(), "the daemon ended: {}", daemon.said());
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
    let started = Instant::now();
    let used = daemon.process.usage().cpu;
    while left(&mut redis, &queue).await? > 0 {
        ensure!(daemon.process.exit_status().is_none(), "the daemon ended: {}", daemon.said());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let seconds = started.elapsed().as_secs_f64();
    let used = daemon.process.usage().cpu.saturating_sub(used);
    let after = Counters::read(&mut redis).await?;
    let arrived = match line.to {
        Target::Stream => sink.xlen::<_, usize>(STREAM).await?,
        _ => to_kafka::count_records(broker, topic).await?,
    };
    ensure!(arrived == elements, "not every element arrived once: {arrived}");
    daemon.stop().await;
    if line.to != Target::Stream {
        to_kafka::delete(broker, topic).await?;
    }
    let each = |us: f64| format!("{:.1}", us / elements as f64);
    Ok(vec![
        line.name.into(),
        format!("{:.0}", elements as f64 / seconds),
        each(used.as_secs_f64() * 1e6),
        each(after.scripts_us_since(&before)),
    ])
}

/// Number of elements without a verdict.
async fn left(redis: &mut MultiplexedConnection, queue: &RedissonQueue) -> Result<usize> {
    let (scheduled, in_flight): (usize, usize) =
        redis::pipe().zcard(&queue.timeouts).add_command(queue.count_in_flight()).query_async(redis).await?;
    Ok(scheduled + in_flight)
}
