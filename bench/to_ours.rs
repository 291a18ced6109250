//! The daemon into brokers whose clients are parts of it: ElasticMQ, Artemis, RocketMQ. Each is compared with the same client
//! alone, and with the scripts alone: no daemon is faster than either. Where all share the cores of one machine, and these are busy,
//! its share of the client alone is that of the CPU time of an element, which is measured too. And its lateness.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use brokers::{Artemis, ArtemisOptions, ElasticMq, RocketMq};
use serde_json::json;
use tempfile::NamedTempFile;

use crate::bare::BareSink;
use crate::daemon::Daemon;
use crate::lateness::offer;
use crate::passage::{Stock, costs, cpu_of, each, median};
use crate::report::{Row, quantiles};
use crate::settings::{number, rounds, said};
use harness::oracle::Delivery;
use harness::redis_server::RedisServer;
use harness::redisson::RedissonQueue;
use harness::{amqp1, rocketmq, sqs};

/// Size of each payload, in bytes.
const SIZE: usize = 256;
/// Queues of the topics of RocketMQ.
const QUEUES: u32 = 4;

/// A running broker, and places of it that elements go to.
trait Broker {
    const NAME: &str;
    /// A place, for a sentence: `a queue of Artemis`.
    const PLACE: &str;
    /// Number of elements of a measurement.
    const ELEMENTS: usize;

    /// The process ids of its servers.
    fn pids(&self) -> Vec<u32>;
    fn sink(&self) -> String;
    /// The destination keys of a place.
    fn to(&self, place: &str) -> String;
    fn make(&self, place: &str) -> Result<()>;
    fn take(&self, place: &str) -> Result<Vec<Delivery>>;
    fn remove(&self, place: &str) -> Result<()>;
}

/// Measures the rows of `ROWS=sqs`.
pub async fn to_sqs() -> Result<Vec<Row>> {
    // On its disk it takes some 600 a second, whoever sends them.
    let server = tokio::task::spawn_blocking(ElasticMq::start_in_memory).await?.context("start ElasticMQ")?;
    measure(&Sqs { server, credentials: sqs::credentials() }).await
}

/// Measures the rows of `ROWS=amqp1`.
pub async fn to_amqp1() -> Result<Vec<Row>> {
    let options = ArtemisOptions { times: true, ..ArtemisOptions::default() };
    let start = move || Artemis::start_with(&options);
    measure(&tokio::task::spawn_blocking(start).await?.context("start Artemis")?).await
}

/// Measures the rows of `ROWS=rocketmq`.
pub async fn to_rocketmq() -> Result<Vec<Row>> {
    measure(&tokio::task::spawn_blocking(RocketMq::start).await?.context("start RocketMQ")?).await
}

async fn measure<B: Broker>(broker: &B) -> Result<Vec<Row>> {
    let elements = number("ELEMENTS", B::ELEMENTS)?;
    let rounds = rounds()?;
    let pids = broker.pids();
    let mut bares = Vec::new();
    let mut scripts = Vec::new();
    let mut passages = Vec::new();
    let mut doubled = 0;
    for round in 0..=rounds {
        said(&format!("{}: round {round} of {rounds}", B::NAME));
        let place = format!("bare-{round}");
        broker.make(&place)?;
        let bare = BareSink::connect(&broker.sink(), &broker.to(&place)).await?;
        let alone = BareRun::of(&bare, elements, &pids).await?;
        bare.close().await;
        broker.remove(&place)?;

        let place = format!("out-{round}");
        broker.make(&place)?;
        let mut stock = Stock::of(elements).await?;
        let passage = stock.pass(&broker.sink(), &broker.to(&place), &pids).await?;
        let twice = stock.judge_at_least_once(&broker.take(&place)?)?;
        // The first round is not counted: the broker compiles its code and allocates memory.
        if round > 0 {
            scripts.push(Stock::of(elements).await?.scripts_alone().await?);
            bares.push(alone);
            passages.push(passage);
            doubled += twice;
        }
    }
    let rates = || passages.iter().map(|passage| passage.rate);
    let bare_rates = || bares.iter().map(|run| run.rate);
    let rate = median(rates());
    let bare = median(bare_rates());
    let client = median(bares.iter().map(|run| run.cpu_us[0]));
    let server = median(bares.iter().map(|run| run.cpu_us[1]));
    let with_daemon = median(passages.iter().map(|passage| passage.cpu_us.iter().sum::<f64>()));
    let row = |of: &str, found: String, bar| Row { what: format!("{elements} to {}{of}", B::PLACE), found, bar };
    Ok(vec![
        row("", format!("{rate:.0}/s ({}), every id, {doubled} twice", each(rates())), "every id once"),
        row(", client alone", format!("{bare:.0}/s ({})", each(bare_rates())), ""),
        row(", client alone, CPU each", format!("client {client:.1} us, {} {server:.1} us", B::NAME), ""),
        row(", scripts alone", format!("{:.0}/s ({})", median(scripts.clone()), each(scripts)), ""),
        row(", share", format!("{:.0} % of the client alone", rate / bare * 100.0), ">= 80 %"),
        row(", share by CPU each", format!("{:.0} %", (client + server) / with_daemon * 100.0), ""),
        row(", CPU each", costs(&passages, B::NAME), ""),
        lateness(broker).await?,
    ])
}

/// A run of the client alone.
struct BareRun {
    rate: f64,
    /// Microseconds of CPU for each element: the client with its loop, the broker.
    cpu_us: [f64; 2],
}

impl BareRun {
    async fn of(bare: &BareSink, elements: usize, broker: &[u32]) -> Result<BareRun> {
        let cpu = || [cpu_of(&[std::process::id()]), cpu_of(broker)];
        let before = cpu();
        let rate = bare.rate(elements, SIZE).await?;
        let after = cpu();
        let us = |n: usize| after[n].saturating_sub(before[n]).as_secs_f64() * 1e6 / elements as f64;
        Ok(BareRun { rate, cpu_us: [us(0), us(1)] })
    }
}

/// Measures 1,000 elements/s, by the broker's time in its messages.
async fn lateness<B: Broker>(broker: &B) -> Result<Row> {
    broker.make("late")?;
    let server = RedisServer::start().await;
    let queue = RedissonQueue::new("steady");
    let sink = broker.sink();
    let to = broker.to("late");
    let mut daemon = Daemon::spawn(
        &server.url(),
        &format!(
            "sinks: {{ out: {sink} }}\nqueues: {{ q: {{ source: {{ redisson: {{ name: steady }} }}, to: [{{ sink: out, {to} }}] }} }}\n"
        ),
    )?;
    daemon.ready().await?;
    let count = offer(&mut server.client().await, std::slice::from_ref(&queue)).await?;
    let until = Instant::now() + Duration::from_secs(600);
    while daemon.metrics().await?.sum("delaybridge_delivered_messages_total") < count as f64 {
        ensure!(Instant::now() < until, "not all of {count} arrived within ten minutes: {}", daemon.said());
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    daemon.stop().await;
    let found = broker.take("late")?;
    let late: Vec<i64> = found.iter().filter_map(|delivery| Some(delivery.arrived_ms? - delivery.due_ms?)).collect();
    ensure!(late.len() >= count, "{} of {count} have a time of their arrival", late.len());
    let what = format!("lateness at 1,000/s for 20 s, to {}", B::PLACE);
    Ok(Row { what, found: quantiles(late), bar: "p50 <= 3 ms, p99 <= 20 ms" })
}

/// A server that behaves as SQS, and a file with credentials.
struct Sqs {
    server: ElasticMq,
    credentials: NamedTempFile,
}

impl Broker for Sqs {
    const NAME: &str = "ElasticMQ";
    const PLACE: &str = "a queue of ElasticMQ";
    const ELEMENTS: usize = 20_000;

    fn pids(&self) -> Vec<u32> {
        self.server.pid().into_iter().collect()
    }

    fn sink(&self) -> String {
        let file = self.credentials.path().display();
        format!(
            "{{ sqs: {{ region: eu-west-1, credentials_file: '{file}', queue_url: '{}' }} }}",
            self.server.queue_url("out")
        )
    }

    fn to(&self, place: &str) -> String {
        format!("queue_url: '{}'", self.server.queue_url(place))
    }

    fn make(&self, place: &str) -> Result<()> {
        sqs::make_queue(&self.server, place);
        Ok(())
    }

    fn take(&self, place: &str) -> Result<Vec<Delivery>> {
        let mut taken = sqs::TakenMessages::default();
        sqs::take(&self.server, place, &mut taken).map_err(|error| anyhow!("take from queue {place}: {error}"))?;
        self.remove(place)?;
        Ok(taken.deliveries)
    }

    fn remove(&self, place: &str) -> Result<()> {
        let url = json!({ "QueueUrl": self.server.queue_url(place) });
        let removed = sqs::ask(&self.server, "DeleteQueue", &url);
        removed.map(drop).map_err(|error| anyhow!("delete queue {place}: {error}"))
    }
}

impl Broker for Artemis {
    const NAME: &str = "Artemis";
    const PLACE: &str = "a queue of Artemis";
    const ELEMENTS: usize = 50_000;

    fn pids(&self) -> Vec<u32> {
        self.pid().into_iter().collect()
    }

    fn sink(&self) -> String {
        format!("{{ amqp1: {{ url: 'amqp://127.0.0.1:{}' }} }}", self.port())
    }

    fn to(&self, place: &str) -> String {
        format!("address: {place}")
    }

    fn make(&self, place: &str) -> Result<()> {
        Ok(self.create(place)?)
    }

    fn take(&self, place: &str) -> Result<Vec<Delivery>> {
        let found = amqp1::read_queue(self, place).map_err(|error| anyhow!("read queue {place}: {error}"))?;
        Broker::remove(self, place)?;
        Ok(found)
    }

    fn remove(&self, place: &str) -> Result<()> {
        Ok(self.delete(place)?)
    }
}

impl Broker for RocketMq {
    const NAME: &str = "RocketMQ";
    const PLACE: &str = "a topic of RocketMQ";
    const ELEMENTS: usize = 100_000;

    fn pids(&self) -> Vec<u32> {
        RocketMq::pids(self)
    }

    fn sink(&self) -> String {
        format!("{{ rocketmq: {{ name_servers: ['{}'] }} }}", self.name_server())
    }

    fn to(&self, place: &str) -> String {
        format!("topic: {place}")
    }

    fn make(&self, place: &str) -> Result<()> {
        Ok(self.create(place, QUEUES)?)
    }

    fn take(&self, place: &str) -> Result<Vec<Delivery>> {
        Ok(self.messages(place)?.into_iter().map(rocketmq::delivery).collect())
    }

    /// Leaves it to the folder of the broker: its messages are on disk.
    fn remove(&self, _place: &str) -> Result<()> {
        Ok(())
    }
}
