//! Delayed messages through RabbitMQ's plugin and through an input, one after the other in the same run: lateness, memory, and what
//! is left after a kill of the node while they wait.
//!
//! The plugin is not part of this repository: the variable `DELAYBRIDGE_BENCH_PLUGIN` has the folder in which it is.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use brokers::{Rabbit, RabbitOptions};
use futures_util::StreamExt;
use lapin::options::{BasicConsumeOptions, ExchangeDeclareOptions, QueueBindOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, ExchangeKind};

use crate::daemon::Daemon;
use crate::report::{Table, quantiles};
use crate::settings::{number, said};
use crate::to_amqp::{Publication, declare, publish};
use harness::redis_server::{RedisServer, ServerOptions};

const MESSAGES: usize = 10_000;
/// The shortest and the longest delay, in ms.
const DELAYS: std::ops::Range<u64> = 10_000..40_000;
/// The silence after which no further message is waited for, beside the longest delay.
const SILENCE: Duration = Duration::from_secs(20);
/// The variable with the folder of the plugin.
const FOLDER: &str = "DELAYBRIDGE_BENCH_PLUGIN";
const PLUGIN: &str = "rabbitmq_delayed_message_exchange";
/// The header with the due time, in ms since the begin of the run.
const DUE: &str = "due";

const COLUMNS: &[&str] = &["by", "messages", "lateness", "memory while they wait", "after a kill of the node"];

/// Measures the table of `ROWS=plugin`.
pub async fn measure() -> Result<Table> {
    let count = number("MESSAGES", MESSAGES)?;
    let mut table = Table::new(format!("{count} delayed messages of 256 B, 10 to 40 s, persistent"), COLUMNS);
    match std::env::var_os(FOLDER).map(PathBuf::from) {
        Some(folder) => {
            said("plugin: the plugin");
            table.lines.push(plugin(folder, count).await.context("the plugin")?);
        }
        None => table.notes.push(format!("The plugin was not measured: {FOLDER} has the folder in which it is.")),
    }
    said("plugin: delaybridge");
    table.lines.push(ours(count, false).await.context("delaybridge")?);
    table.lines.push(ours(count, true).await.context("delaybridge, by due times")?);
    table.notes.push("Lateness: from the publication and the delay to a consumer, every message counted.".into());
    table.notes.push(
        "A delay counts from the arrival at the daemon, behind the queue of the input; a due time does not.".into(),
    );
    table.notes.push("Memory: resident, above what the same processes have without messages.".into());
    table.notes.push(
        "A kill: of the broker with SIGKILL behind the last confirmation, of Redis and the daemon too; all start again."
            .into(),
    );
    Ok(table)
}

/// A broker, with the time of the run.
struct DelayBench {
    rabbit: Arc<Rabbit>,
    begin: Instant,
    /// The begin of the run in ms since 1970, for due times instead of delays.
    begin_ms: Option<u64>,
    /// Where messages are published: exchange and routing key.
    to: (&'static str, &'static str),
}

impl DelayBench {
    async fn start(options: RabbitOptions, to: (&'static str, &'static str)) -> Result<DelayBench> {
        let rabbit =
            tokio::task::spawn_blocking(move || Rabbit::start_with(options)).await?.context("start RabbitMQ")?;
        Ok(DelayBench { rabbit: Arc::new(rabbit), begin: Instant::now(), begin_ms: None, to })
    }

    fn url(&self) -> String {
        format!("amqp://127.0.0.1:{}", self.rabbit.port())
    }

    async fn channel(&self) -> Result<(Connection, Channel)> {
        let connection = Connection::connect(&self.url(), ConnectionProperties::default()).await.context("connect")?;
        let channel = connection.create_channel().await?;
        Ok((connection, channel))
    }

    /// Publishes messages with random delays, and waits for their confirmations.
    async fn publish(&self, count: usize) -> Result<()> {
        let (exchange, key) = self.to;
        // The plugin returns mandatory messages at once.
        let to = Publication { exchange, key, mandatory: false };
        let properties = |n: usize| {
            let delay = fastrand::u64(DELAYS);
            let due = u64::try_from(self.begin.elapsed().as_millis()).unwrap_or(u64::MAX) + delay;
            let mut headers = FieldTable::default();
            let (name, value) = match self.begin_ms {
                Some(begin) => ("x-due", AMQPValue::LongString((begin + due).to_string().into())),
                None => ("x-delay", AMQPValue::LongInt(i32::try_from(delay).unwrap_or(i32::MAX))),
            };
            headers.insert(name.into(), value);
            headers.insert(DUE.into(), AMQPValue::LongString(due.to_string().into()));
            headers.insert("x-delay-to".into(), AMQPValue::LongString("out".into()));
            BasicProperties::default()
                .with_delivery_mode(2)
                .with_message_id(format!("m-{}-{n}", fastrand::u64(..)).into())
                .with_headers(headers)
        };
        publish(&self.url(), to, (count, 256), properties).await?;
        Ok(())
    }

    /// Takes messages until there are so many, or no more come; returns the lateness of each, in ms.
    async fn take(&self, count: usize) -> Result<Vec<i64>> {
        let (_connection, channel) = self.channel().await?;
        let no_ack = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
        let mut consumer = channel.basic_consume("out".into(), "".into(), no_ack, FieldTable::default()).await?;
        let mut late = Vec::with_capacity(count);
        let silence = SILENCE + Duration::from_millis(DELAYS.end);
        while late.len() < count {
            let Ok(Some(message)) = tokio::time::timeout(silence, consumer.next()).await else { break };
            let message = message?;
            let now = i64::try_from(self.begin.elapsed().as_millis()).unwrap_or(i64::MAX);
            let headers = message.properties.headers().as_ref().context("a message without headers")?;
            let due = match headers.inner().get(DUE) {
                Some(AMQPValue::LongString(text)) => text.to_string().parse::<i64>().context("a due time")?,
                other => bail!("the due time is {other:?}"),
            };
            late.push(now - due);
        }
        Ok(late)
    }

    /// Kills the node and starts it again.
    async fn kill(&self) -> Result<()> {
        let rabbit = self.rabbit.clone();
        let again = move || {
            rabbit.kill();
            rabbit.restart()
        };
        tokio::task::spawn_blocking(again).await?.context("restart RabbitMQ")
    }
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// The resident memory of a broker, when it has stopped growing.
async fn settled(of: impl Fn() -> u64) -> u64 {
    tokio::time::sleep(Duration::from_secs(2)).await;
    of()
}

async fn plugin(folder: PathBuf, count: usize) -> Result<Vec<String>> {
    let options =
        RabbitOptions { plugins: vec![PLUGIN.to_owned()], plugins_folder: Some(folder), ..RabbitOptions::default() };
    let bench = DelayBench::start(options, ("delayed", "out")).await?;
    let (_connection, channel) = bench.channel().await?;
    declare(&channel, "out", "classic").await?;
    let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
    let mut arguments = FieldTable::default();
    arguments.insert("x-delayed-type".into(), AMQPValue::LongString("direct".into()));
    let kind = ExchangeKind::Custom("x-delayed-message".to_owned());
    channel.exchange_declare("delayed".into(), kind, durable, arguments).await.context("declare the exchange")?;
    let bound = QueueBindOptions::default();
    channel.queue_bind("out".into(), "delayed".into(), "out".into(), bound, FieldTable::default()).await?;
    let idle = settled(|| bench.rabbit.resident_memory()).await;
    bench.publish(count).await?;
    let waiting = settled(|| bench.rabbit.resident_memory()).await;
    let late = bench.take(count).await?;
    let found = late.len();
    bench.publish(count).await?;
    bench.kill().await?;
    let after = bench.take(count).await?.len();
    Ok(line("the plugin 3.10.2", (found, count), late, &format!("{:.0} MiB", mib(waiting) - mib(idle)), after))
}

fn line(by: &str, (found, count): (usize, usize), late: Vec<i64>, memory: &str, after: usize) -> Vec<String> {
    let early = late.iter().filter(|late| **late < 0).count();
    let messages = format!("{found} of {count}, {early} early");
    vec![by.to_owned(), messages, quantiles(late), memory.to_owned(), format!("{after} of {count}")]
}

async fn ours(count: usize, by_due_time: bool) -> Result<Vec<String>> {
    let mut bench = DelayBench::start(RabbitOptions::default(), ("", "in")).await?;
    let (_connection, channel) = bench.channel().await?;
    for queue in ["in", "out"] {
        declare(&channel, queue, "classic").await?;
    }
    let mut server = RedisServer::start_with(ServerOptions::default().append_only()).await;
    if by_due_time {
        let mut redis = server.client().await;
        // Before the answer, so that nothing looks early.
        bench.begin = Instant::now();
        let (seconds, micros): (u64, u64) = redis::cmd("TIME").query_async(&mut redis).await?;
        bench.begin_ms = Some(seconds * 1_000 + micros.div_ceil(1_000));
    }
    let url = bench.url();
    let yaml = format!(
        "sinks: {{ out: {{ amqp: {{ url: '{url}' }} }} }}\n\
         inputs: {{ late: {{ amqp: {{ url: '{url}', queue: in, dead_letter_exchange: policy }}, topic: late, \
         to: {{ sink: out }} }} }}\n"
    );
    let mut daemon = Daemon::spawn(&server.url(), &yaml)?;
    daemon.ready().await?;
    let memory = |server: &mut RedisServer, daemon: &mut Daemon| {
        [bench.rabbit.resident_memory(), server.running().usage().resident, daemon.process.usage().resident]
    };
    tokio::time::sleep(Duration::from_secs(2)).await;
    let idle = memory(&mut server, &mut daemon);
    bench.publish(count).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let waiting = memory(&mut server, &mut daemon);
    let [broker, redis, own]: [f64; 3] = std::array::from_fn(|n| mib(waiting[n]) - mib(idle[n]));
    let late = bench.take(count).await?;
    let found = late.len();
    bench.publish(count).await?;
    server.kill();
    drop(daemon);
    bench.kill().await?;
    server.restart().await;
    let daemon = Daemon::spawn(&server.url(), &yaml)?;
    let after = bench.take(count).await?.len();
    daemon.stop().await;
    let memory = format!("broker {broker:.0} MiB, Redis {redis:.0} MiB, daemon {own:.0} MiB");
    let by = if by_due_time { "delaybridge, x-due" } else { "delaybridge, x-delay" };
    Ok(line(by, (found, count), late, &memory, after))
}
