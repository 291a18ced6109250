//! The daemon into a real RabbitMQ, into a classic and a quorum queue, compared with a bare publisher with the same
//! window.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use brokers::Rabbit;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use lapin::message::Delivery as Message;
use lapin::options::{
    BasicConsumeOptions, BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable, LongString};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties};

use crate::passage::{Stock, costs, each, median};
use crate::report::Row;
use harness::fill::payload;
use harness::oracle::Delivery;

const ELEMENTS: usize = 100_000;
/// Maximum number of unconfirmed messages: the daemon's default.
const WINDOW: usize = 1_000;
/// Number of rounds; each measures both.
const ROUNDS: usize = 3;
/// Time without a message after which a queue counts as empty.
const SILENCE: Duration = Duration::from_secs(3);

/// Measures the rows of `ROWS=amqp`.
pub async fn measure() -> Result<Vec<Row>> {
    let rabbit = tokio::task::spawn_blocking(Rabbit::start).await?.context("start RabbitMQ")?;
    let mut rows = Vec::new();
    for kind in ["classic", "quorum"] {
        rows.extend(into(&rabbit, kind).await.with_context(|| format!("measure a {kind} queue"))?);
    }
    Ok(rows)
}

async fn into(rabbit: &Rabbit, kind: &str) -> Result<Vec<Row>> {
    let url = format!("amqp://127.0.0.1:{}", rabbit.port());
    let connection = Connection::connect(&url, ConnectionProperties::default()).await.context("connect")?;
    let channel = connection.create_channel().await?;
    let pids: Vec<u32> = rabbit.pid().into_iter().collect();
    let mut bares = Vec::new();
    let mut passages = Vec::new();
    for round in 0..=ROUNDS {
        let name = format!("{kind}-bare-{round}");
        declare(&channel, &name, kind).await?;
        let rate = bare(&url, &name, ELEMENTS, 256).await?;
        channel.queue_delete(name.as_str().into(), QueueDeleteOptions::default()).await?;
        if round == 0 {
            // The first round is not counted: the broker compiles its code and allocates memory.
            continue;
        }
        bares.push(rate);

        let name = format!("{kind}-{round}");
        declare(&channel, &name, kind).await?;
        let mut stock = Stock::of(ELEMENTS).await?;
        let sink = format!("{{ amqp: {{ url: '{url}', exchange: '' }} }}");
        passages.push(stock.pass(&sink, &format!("routing_key: {name}"), &pids).await?);
        stock.judge(&take_all(&url, &name).await?)?;
        channel.queue_delete(name.as_str().into(), QueueDeleteOptions::default()).await?;
    }
    let rates = || passages.iter().map(|passage| passage.rate);
    let rate = median(rates());
    let bare = median(bares.clone());
    let row = |of: &str, found: String, bar| Row { what: format!("{ELEMENTS} to a {kind} queue{of}"), found, bar };
    Ok(vec![
        row("", format!("{rate:.0}/s ({}), every id once", each(rates())), "every id once"),
        row(", bare publisher", format!("{bare:.0}/s ({})", each(bares)), ""),
        row(", share", format!("{:.0} % of the bare publisher", rate / bare * 100.0), ">= 80 %"),
        row(", CPU each", costs(&passages, "RabbitMQ"), ""),
    ])
}

/// Declares a queue of this type.
pub async fn declare(channel: &Channel, name: &str, kind: &str) -> Result<()> {
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString(kind.into()));
    let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    channel.queue_declare(name.into(), durable, arguments).await.context("declare a queue")?;
    Ok(())
}

/// Measures the messages/s of a publisher that does nothing else.
pub async fn bare(url: &str, queue: &str, count: usize, size: usize) -> Result<f64> {
    publish(url, Publication { exchange: "", key: queue, mandatory: true }, (count, size), properties).await
}

/// The place where messages are published.
pub struct Publication<'a> {
    pub exchange: &'a str,
    pub key: &'a str,
    /// Whether a message that no queue takes is returned.
    pub mandatory: bool,
}

/// The same with these properties of each message.
pub async fn publish(
    url: &str,
    Publication { exchange, key, mandatory }: Publication<'_>,
    (count, size): (usize, usize),
    properties: impl Fn(usize) -> BasicProperties,
) -> Result<f64> {
    let connection = Connection::connect(url, ConnectionProperties::default()).await.context("connect a publisher")?;
    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let mut under_way = FuturesUnordered::new();
    let started = Instant::now();
    for n in 0..count {
        if under_way.len() >= WINDOW {
            confirmed(under_way.next().await)?;
        }
        let options = BasicPublishOptions { mandatory, ..BasicPublishOptions::default() };
        let body = payload(n, size);
        let publish = channel.basic_publish(exchange.into(), key.into(), options, body.as_bytes(), properties(n));
        under_way.push(publish.await.context("publish")?);
    }
    while !under_way.is_empty() {
        confirmed(under_way.next().await)?;
    }
    let seconds = started.elapsed().as_secs_f64();
    Ok(count as f64 / seconds)
}

fn confirmed(answer: Option<lapin::Result<Confirmation>>) -> Result<()> {
    match answer {
        Some(Ok(Confirmation::Ack(None))) => Ok(()),
        other => bail!("a bare message was not confirmed: {other:?}"),
    }
}

/// The properties that the daemon sets.
fn properties(n: usize) -> BasicProperties {
    let mut headers = FieldTable::default();
    for (name, value) in [
        ("delaybridge-id", format!("{n:016x}")),
        ("delaybridge-queue", "q".to_owned()),
        ("delaybridge-due-ms", "1700000000000".to_owned()),
        ("delaybridge-attempt", "1".to_owned()),
    ] {
        headers.insert(name.into(), AMQPValue::LongString(value.into()));
    }
    BasicProperties::default()
        .with_app_id("delaybridge".into())
        .with_delivery_mode(2)
        .with_timestamp(1_700_000_000)
        .with_message_id(format!("{:016x}-{n}", 1).into())
        .with_headers(headers)
}

/// Reads all messages of a queue, with a consumer: 100,000 single gets would take too long.
pub async fn take_all(url: &str, queue: &str) -> Result<Vec<Delivery>> {
    // A connection of its own: the client library may close it when a consumer is cancelled.
    let connection = Connection::connect(url, ConnectionProperties::default()).await.context("connect a consumer")?;
    let channel = connection.create_channel().await?;
    let no_ack = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
    let mut consumer =
        channel.basic_consume(queue.into(), "".into(), no_ack, FieldTable::default()).await.context("consume")?;
    let mut deliveries = Vec::new();
    while let Ok(Some(message)) = tokio::time::timeout(SILENCE, consumer.next()).await {
        deliveries.push(delivery(message.context("take a message")?));
    }
    Ok(deliveries)
}

fn delivery(message: Message) -> Delivery {
    let id = message.properties.headers().as_ref().and_then(|headers| headers.inner().get("delaybridge-id"));
    let id = id.and_then(|id| match id {
        AMQPValue::LongString(id) => Some(LongString::to_string(id)),
        _ => None,
    });
    Delivery { id, payload: message.data, ..Delivery::default() }
}
