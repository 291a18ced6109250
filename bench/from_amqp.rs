//! Messages of a real RabbitMQ through an input: into the job queue, and through it into another queue, compared with a bare
//! consumer, and with one that publishes what it consumes, of the same client library.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use brokers::Rabbit;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use lapin::message::Delivery as Message;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions,
    QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, Consumer};

use crate::daemon::Daemon;
use crate::intake::{Arrived, scheduled, timed};
use crate::passage::{each, median};
use crate::report::Row;
use crate::settings::{number, rounds, said};
use crate::to_amqp::{Publication, declare, publish};
use harness::redis_server::RedisServer;

/// The default number of messages of one run.
const MESSAGES: usize = 100_000;
/// The prefetch and the unconfirmed messages of the bare program, as the daemon has them.
const PREFETCH: u16 = 500;
const WINDOW: usize = 1_000;
/// The delay of messages that are not to leave during the run.
const HOUR: &str = "3600000";

/// Measures the rows of RabbitMQ of `ROWS=inputs`.
pub async fn measure() -> Result<Vec<Row>> {
    let rabbit = tokio::task::spawn_blocking(Rabbit::start).await?.context("start RabbitMQ")?;
    let bench = AmqpBench::connect(&rabbit).await?;
    let count = number("MESSAGES", MESSAGES)?;
    let mut consumers = Vec::new();
    let mut ins = Vec::new();
    let mut relays = Vec::new();
    let mut throughs = Vec::new();
    // The first round is not counted: the broker compiles its code and allocates memory.
    for round in 0..=rounds()? {
        said(&format!("inputs: RabbitMQ, round {round}"));
        let found = [
            bench.consumer(count).await.context("a bare consumer")?,
            bench.add(count).await.context("into the job queue")?,
            bench.relay(count).await.context("a bare consumer that publishes")?,
            bench.through(count).await.context("through the job queue")?,
        ];
        if round > 0 {
            for (all, found) in [&mut consumers, &mut ins, &mut relays, &mut throughs].into_iter().zip(found) {
                all.push(found);
            }
        }
    }
    Ok(rows(&format!("{count} messages of RabbitMQ"), [consumers, ins, relays, throughs]))
}

/// The rows of an input beside the bare programs.
pub fn rows(what: &str, [consumers, ins, relays, throughs]: [Vec<f64>; 4]) -> Vec<Row> {
    let row = |of: &str, rates: &[f64], beside: Option<&[f64]>| {
        let rate = median(rates.iter().copied());
        let share = beside.map(|beside| format!(", {:.0} % of it", rate / median(beside.iter().copied()) * 100.0));
        let found = format!("{rate:.0}/s ({}){}", each(rates.iter().copied()), share.unwrap_or_default());
        Row { what: format!("{what}{of}"), found, bar: "" }
    };
    vec![
        row(", a bare consumer", &consumers, None),
        row(" into the job queue", &ins, Some(&consumers)),
        row(", a bare consumer that publishes them", &relays, None),
        row(" through the job queue", &throughs, Some(&relays)),
    ]
}

/// A broker, with a channel for declarations.
struct AmqpBench {
    url: String,
    channel: Channel,
    _connection: Connection,
}

impl AmqpBench {
    async fn connect(rabbit: &Rabbit) -> Result<AmqpBench> {
        let url = format!("amqp://127.0.0.1:{}", rabbit.port());
        let connection = Connection::connect(&url, ConnectionProperties::default()).await.context("connect")?;
        Ok(AmqpBench { url, channel: connection.create_channel().await?, _connection: connection })
    }

    /// Declares both queues, and fills the first.
    async fn fill(&self, count: usize, delay: Option<&'static str>) -> Result<()> {
        for queue in ["in", "out"] {
            self.channel.queue_delete(queue.into(), QueueDeleteOptions::default()).await?;
            declare(&self.channel, queue, "classic").await?;
        }
        let to = Publication { exchange: "", key: "in", mandatory: true };
        publish(&self.url, to, (count, 256), |n| properties(n, delay)).await?;
        Ok(())
    }

    /// Messages per second of a consumer that acknowledges each, and does nothing else.
    async fn consumer(&self, count: usize) -> Result<f64> {
        self.fill(count, None).await?;
        let (_connection, _channel, mut consumer) = self.consume(PREFETCH).await?;
        let mut started = None;
        for _ in 0..count {
            let message = next(&mut consumer).await?;
            started.get_or_insert_with(Instant::now);
            message.acker.ack(BasicAckOptions::default()).await?;
        }
        Ok(count as f64 / started.context("no message")?.elapsed().as_secs_f64())
    }

    /// Messages per second of a consumer that publishes each, and acknowledges it when that was confirmed.
    async fn relay(&self, count: usize) -> Result<f64> {
        self.fill(count, None).await?;
        let (connection, _channel, mut consumer) = self.consume(WINDOW as u16).await?;
        let publisher = connection.create_channel().await?;
        publisher.confirm_select(ConfirmSelectOptions::default()).await?;
        let mut under_way = FuturesUnordered::new();
        let mut started = None;
        let mut done = 0;
        let mut taken = 0;
        while done < count {
            tokio::select! {
                message = next(&mut consumer), if taken < count && under_way.len() < WINDOW => {
                    let message = message?;
                    started.get_or_insert_with(Instant::now);
                    taken += 1;
                    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
                    let sent = publisher
                        .basic_publish("".into(), "out".into(), options, &message.data, message.properties.clone())
                        .await?;
                    under_way.push(async move { (sent.await, message.acker) });
                }
                Some((confirmed, acker)) = under_way.next() => {
                    let confirmed = confirmed?;
                    ensure!(matches!(confirmed, Confirmation::Ack(None)), "not confirmed: {confirmed:?}");
                    acker.ack(BasicAckOptions::default()).await?;
                    done += 1;
                }
            }
        }
        Ok(count as f64 / started.context("no message")?.elapsed().as_secs_f64())
    }

    /// Messages per second that become jobs.
    async fn add(&self, count: usize) -> Result<f64> {
        self.fill(count, Some(HOUR)).await?;
        let server = RedisServer::start().await;
        let daemon = Daemon::spawn(&server.url(), &self.yaml())?;
        let rate = timed(count, async || scheduled(&daemon).await).await?;
        daemon.stop().await;
        let left = self.length("in").await?;
        ensure!(left == 0, "{left} messages were not acknowledged");
        Ok(rate)
    }

    /// Messages per second that come out again.
    async fn through(&self, count: usize) -> Result<f64> {
        self.fill(count, None).await?;
        let server = RedisServer::start().await;
        let daemon = Daemon::spawn(&server.url(), &self.yaml())?;
        let rate = timed(count, async || Ok(Arrived::At(self.length("out").await? as usize))).await?;
        daemon.stop().await;
        let out = self.length("out").await? as usize;
        ensure!(out == count, "{out} of {count} came out");
        Ok(rate)
    }

    fn yaml(&self) -> String {
        let url = &self.url;
        format!(
            "sinks: {{ out: {{ amqp: {{ url: '{url}' }} }} }}\n\
             inputs: {{ late: {{ amqp: {{ url: '{url}', queue: in, dead_letter_exchange: policy }}, topic: late, \
             to: {{ sink: out, routing_key: out }} }} }}\n"
        )
    }

    async fn length(&self, queue: &str) -> Result<u32> {
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let found = self.channel.queue_declare(queue.into(), passive, FieldTable::default()).await?;
        Ok(found.message_count())
    }

    /// A consumer on a connection of its own.
    async fn consume(&self, prefetch: u16) -> Result<(Connection, Channel, Consumer)> {
        let connection = Connection::connect(&self.url, ConnectionProperties::default()).await.context("connect")?;
        let channel = connection.create_channel().await?;
        channel.basic_qos(prefetch, BasicQosOptions::default()).await?;
        let options = BasicConsumeOptions::default();
        let consumer = channel.basic_consume("in".into(), "".into(), options, FieldTable::default()).await?;
        Ok((connection, channel, consumer))
    }
}

async fn next(consumer: &mut Consumer) -> Result<Message> {
    match tokio::time::timeout(Duration::from_secs(60), consumer.next()).await {
        Ok(Some(message)) => Ok(message?),
        _ => bail!("no message within a minute"),
    }
}

/// The properties of a message with an identity, and a delay.
fn properties(n: usize, delay: Option<&str>) -> BasicProperties {
    let mut headers = FieldTable::default();
    headers.insert("tenant".into(), AMQPValue::LongString("a".into()));
    if let Some(delay) = delay {
        headers.insert("x-delay".into(), AMQPValue::LongString(delay.into()));
    }
    BasicProperties::default()
        .with_delivery_mode(2)
        .with_content_type("application/json".into())
        .with_message_id(format!("m-{n}").into())
        .with_headers(headers)
}
