//! From Redis into each kind of sink, all on this machine: three sizes, few and many queues.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use brokers::{Kafka, Rabbit};
use lapin::options::QueueDeleteOptions;
use lapin::{Channel, Connection, ConnectionProperties};
use redis::AsyncCommands;

use crate::daemon::Build;
use crate::passage::{Passage, Stock};
use crate::report::Table;
use crate::settings::{number, numbers, said, words};
use crate::to_webhook::Webhook;
use crate::{to_amqp, to_kafka};
use harness::fill::{Load, payload};
use harness::oracle::{Delivery, read_list, read_stream};
use harness::redis_server::RedisServer;

const SINKS: &[&str] = &["kafka", "amqp-classic", "amqp-quorum", "list", "stream", "webhook"];
const SIZES: &[usize] = &[100, 1_000, 10_000];
const QUEUES: &[usize] = &[1, 10, 1_000];
const ELEMENTS: usize = 100_000;
/// Maximum number of bytes of one run.
const BYTES: usize = 200_000_000;
/// The destination in every sink.
const OUT: &str = "{passage}:out";

const COLUMNS: &[&str] = &[
    "to",
    "bytes",
    "queues",
    "elements",
    "elements/s",
    "of the lower limit",
    "bare client/s",
    "scripts alone/s",
    "daemon CPU s/100,000",
    "Redis CPU s/100,000",
    "broker CPU s/100,000",
    "cores busy",
    "memory MB",
    "came twice",
];

/// Measures the table of `ROWS=end_to_end`.
pub async fn measure() -> Result<Table> {
    let sizes = numbers("SIZES", SIZES)?;
    let queues = numbers("QUEUES", QUEUES)?;
    let most = number("ELEMENTS", ELEMENTS)?;
    let mut table = Table::new("From Redis to its sinks, random due times, everything overdue", COLUMNS);
    let mut alone = Vec::new();
    for &size in &sizes {
        said(&format!("end_to_end: the scripts alone, {size} B"));
        let stock = Stock::with(Load { size, ..Load::overdue(count(most, size)) }, 1).await?;
        alone.push(stock.scripts_alone().await?);
    }
    for name in words("SINKS", SINKS) {
        let sink = Target::start(&name).await?;
        for (&size, &alone) in sizes.iter().zip(&alone) {
            let count = count(most, size);
            said(&format!("end_to_end: a bare client to {name}, {size} B"));
            let bare = sink.bare(count, size).await.with_context(|| format!("measure a bare client of {name}"))?;
            for (&queues, build) in
                queues.iter().flat_map(|queues| Build::all().into_iter().map(move |build| (queues, build)))
            {
                let to = match build {
                    Build::This => name.clone(),
                    Build::Beside => format!("{name}, {}", build.name()),
                };
                said(&format!("end_to_end: {count} of {size} B from {queues} queues to {to}"));
                let load = Load { size, ..Load::overdue(count) };
                let mut cells = vec![to.clone(), size.to_string(), queues.to_string(), count.to_string()];
                match sink.pass(build, load, queues).await {
                    Ok((passage, doubled)) => cells.extend(figures(&passage, bare, alone, doubled)),
                    // A failed line does not prevent the others.
                    Err(error) => {
                        cells.push("not measured".to_owned());
                        table.notes.push(format!("not measured: {size} B from {queues} queues to {to}: {error:#}"));
                    }
                }
                cells.resize(COLUMNS.len(), String::new());
                table.lines.push(cells);
            }
        }
    }
    table.notes.extend([
        "Every run is read back: all that was offered, nothing else, no byte changed.".into(),
        "bare client: nothing but sending, with the same settings and window; to Redis, 500 RPUSH or XADD a pipeline."
            .into(),
        "scripts alone: claim and settle by one client, one queue, nothing sent anywhere.".into(),
    ]);
    Ok(table)
}

/// The cells after the load.
fn figures(passage: &Passage, bare: f64, alone: f64, doubled: usize) -> Vec<String> {
    let [daemon, redis, broker] = passage.cpu_us.map(|us| format!("{:.2}", us / 10.0));
    vec![
        format!("{:.0}", passage.rate),
        format!("{:.0} %", passage.rate / bare.min(alone) * 100.0),
        format!("{bare:.0}"),
        format!("{alone:.0}"),
        daemon,
        redis,
        broker,
        format!("{:.1}", passage.busy),
        format!("{:.0}", passage.resident as f64 / 1e6),
        doubled.to_string(),
    ]
}

fn count(most: usize, size: usize) -> usize {
    most.min(BYTES / size)
}

/// A sink with its server.
enum Target {
    Kafka(Arc<Kafka>),
    Amqp(Box<Broker>),
    List,
    Stream,
    Webhook(Webhook),
}

/// A RabbitMQ server with a channel to inspect its queues.
struct Broker {
    rabbit: Rabbit,
    /// The connection of `channel`, which is closed when the last owner is dropped.
    _connection: Connection,
    channel: Channel,
    /// The type of the queue: `classic` or `quorum`.
    kind: String,
}

impl Target {
    async fn start(name: &str) -> Result<Target> {
        match name.split_once('-') {
            Some(("amqp", kind)) => {
                let rabbit = tokio::task::spawn_blocking(Rabbit::start).await?.context("start RabbitMQ")?;
                let connection = Connection::connect(&url(&rabbit), ConnectionProperties::default()).await?;
                let channel = connection.create_channel().await?;
                Ok(Target::Amqp(Box::new(Broker { rabbit, _connection: connection, channel, kind: kind.to_owned() })))
            }
            None if name == "kafka" => Ok(Target::Kafka(to_kafka::start().await?)),
            None if name == "list" => Ok(Target::List),
            None if name == "stream" => Ok(Target::Stream),
            None if name == "webhook" => Ok(Target::Webhook(Webhook::start()?)),
            _ => anyhow::bail!("measure sink {name}: there is no such one; there are {}", SINKS.join(", ")),
        }
    }

    /// Measures the elements/s of a client that does nothing else.
    async fn bare(&self, count: usize, size: usize) -> Result<f64> {
        match self {
            Target::Kafka(broker) => to_kafka::bare(broker, "bare", count, size).await,
            Target::Amqp(broker) => {
                let Broker { rabbit, channel, kind, .. } = &**broker;
                to_amqp::declare(channel, "bare", kind).await?;
                // Run once unmeasured, so that the broker's code is compiled and its memory allocated.
                to_amqp::bare(&url(rabbit), "bare", count.min(20_000), size).await?;
                let rate = to_amqp::bare(&url(rabbit), "bare", count, size).await?;
                channel.queue_delete("bare".into(), QueueDeleteOptions::default()).await?;
                Ok(rate)
            }
            Target::Webhook(webhook) => webhook.bare(count, size).await,
            Target::List => {
                push(count, size, |pipe, body| {
                    pipe.rpush(OUT, body).ignore();
                })
                .await
            }
            // The daemon writes fields of its own beside the payload.
            Target::Stream => {
                let fields =
                    [("id", "0123456789abcdef"), ("queue", "q0"), ("due_ms", "1700000000000"), ("attempt", "1")];
                push(count, size, |pipe, body| {
                    let add = pipe.cmd("XADD").arg(OUT).arg("*").arg("payload").arg(body);
                    for (name, value) in fields {
                        add.arg(name).arg(value);
                    }
                    add.ignore();
                })
                .await
            }
        }
    }

    /// Runs the daemon; returns its figures, and the number of elements delivered twice.
    async fn pass(&self, build: Build, load: Load, queues: usize) -> Result<(Passage, usize)> {
        let mut stock = Stock::with(load, queues).await?;
        // A failed run leaves its output behind, so each has a name of its own.
        let out = format!("out-{}-{queues}-{build:?}", load.size);
        match self {
            Target::Kafka(broker) => {
                to_kafka::create(broker, &out).await?;
                let sink = crate::steady::sink(broker);
                let passage = stock.pass_with(build, &sink, &format!("topic: {out}"), &broker.pids()).await?;
                let records = to_kafka::read(broker, &out).await?;
                to_kafka::delete(broker, &out).await?;
                Ok((passage, stock.judge_at_least_once(&records)?))
            }
            Target::Amqp(broker) => {
                let Broker { rabbit, channel, kind, .. } = &**broker;
                to_amqp::declare(channel, &out, kind).await?;
                let sink = format!("{{ amqp: {{ url: '{}', exchange: '' }} }}", url(rabbit));
                let pids: Vec<u32> = rabbit.pid().into_iter().collect();
                let passage = stock.pass_with(build, &sink, &format!("routing_key: {out}"), &pids).await?;
                let messages = to_amqp::take_all(&url(rabbit), &out).await?;
                channel.queue_delete(out.as_str().into(), QueueDeleteOptions::default()).await?;
                Ok((passage, stock.judge_at_least_once(&messages)?))
            }
            // Its CPU is that of this program.
            Target::Webhook(webhook) => {
                let sink = format!("{{ http: {{ url: 'http://127.0.0.1:{}/' }} }}", webhook.port);
                let passage = stock.pass_with(build, &sink, "", &[]).await?;
                Ok((passage, stock.judge_at_least_once(&webhook.take())?))
            }
            Target::List | Target::Stream => {
                let to = match self {
                    Target::List => format!("list: '{OUT}', exactly_once: true"),
                    _ => format!("stream: '{OUT}'"),
                };
                let passage = stock.pass_with(build, "{ redis: {} }", &to, &[]).await?;
                let mut redis = stock.server.client().await;
                let deliveries: Vec<Delivery> = match self {
                    Target::List => read_list(&mut redis, OUT).await,
                    _ => read_stream(&mut redis, OUT).await,
                };
                Ok((passage, stock.judge_at_least_once(&deliveries)?))
            }
        }
    }
}

fn url(rabbit: &Rabbit) -> String {
    format!("amqp://127.0.0.1:{}", rabbit.port())
}

/// Measures the elements/s that one client writes to a Redis, with 500 commands per pipeline.
async fn push(count: usize, size: usize, add: impl Fn(&mut redis::Pipeline, &str)) -> Result<f64> {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let mut seconds = Duration::ZERO;
    for start in (0..count).step_by(500) {
        let mut pipe = redis::pipe();
        (start..count.min(start + 500)).for_each(|n| add(&mut pipe, &payload(n, size)));
        let began = Instant::now();
        let () = pipe.query_async(&mut redis).await?;
        seconds += began.elapsed();
    }
    let there: bool = redis.exists(OUT).await?;
    ensure!(there, "nothing was written");
    Ok(count as f64 / seconds.as_secs_f64())
}
