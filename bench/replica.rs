//! The bytes that a replica gets for an element, from its claim until its entry has left Redisson's list: the commands of a
//! daemon, those of its sweeps included.

use std::time::Duration;

use anyhow::{Result, bail};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use crate::daemon::Daemon;
use crate::observed::Counters;
use crate::report::Table;
use crate::settings::{number, said};
use harness::fill::{Load, Order, fill, payload};
use harness::redis_server::RedisServer;
use harness::redisson::{Element, Layout, RedissonQueue, redis_now_ms};

const QUEUE: &str = "copied";
/// The time within which elements fall due where they are not overdue.
const SPAN_MS: i64 = 20_000;
/// The time until the last of these elements is offered, and until the list is swept after the last delivery.
const PATIENCE: Duration = Duration::from_secs(120);

const COLUMNS: &[&str] = &["due times", "elements", "B each", "bar", "B each until delivered", "B each of sweeps"];

/// The due times of a measurement.
#[derive(Clone, Copy)]
enum Due {
    /// All are overdue at the start of the daemon.
    Overdue(Order),
    /// They fall due while it runs, at random or in the order of the offers.
    Falling { random: bool },
}

impl Due {
    fn name(self) -> String {
        match self {
            Due::Overdue(order) => format!("overdue, {}", order.name()),
            Due::Falling { random: true } => "falling due, random".to_owned(),
            Due::Falling { random: false } => "falling due, order of offers".to_owned(),
        }
    }

    fn bar(self) -> &'static str {
        match self {
            Due::Overdue(Order::Offers | Order::Reverse) => "<= 5",
            Due::Overdue(Order::Random | Order::OneMillisecond) => "<= 40",
            Due::Falling { .. } => "",
        }
    }
}

/// Measures the table of `ROWS=replica`.
pub async fn measure() -> Result<Table> {
    let count = number("ELEMENTS", 100_000)?;
    let size = number("SIZE", 256)?;
    let mut table = Table::new(format!("Bytes to a replica for an element of {size} B, delivered elsewhere"), COLUMNS);
    let overdue = Order::ALL.map(Due::Overdue);
    for due in overdue.into_iter().chain([true, false].map(|random| Due::Falling { random })) {
        said(&format!("replica: {}", due.name()));
        let [delivered, swept] = of(due, count, size).await?;
        table.lines.push(vec![
            due.name(),
            count.to_string(),
            format!("{:.1}", delivered + swept),
            due.bar().to_owned(),
            format!("{delivered:.1}"),
            format!("{swept:.1}"),
        ]);
    }
    table.notes = vec![
        "One daemon, to a list of another Redis. Growth of master_repl_offset, without the producer's commands where all are \
         overdue, and with the pings and looks of a daemon at rest."
            .into(),
        "until delivered: until the last confirmation, with the sweeps before it. of sweeps: from there until nothing is in \
         Redisson's list."
            .into(),
        format!("falling due: within {} s, so that sweeps meet elements that wait, and move them.", SPAN_MS / 1_000),
    ];
    Ok(table)
}

/// The bytes for each element until all are delivered, and from there until the list is empty.
async fn of(due: Due, count: usize, size: usize) -> Result<[f64; 2]> {
    let (server, sink) = (RedisServer::start().await, RedisServer::start().await);
    let mut redis = server.client().await;
    let queue = RedissonQueue::new(QUEUE);
    match due {
        Due::Overdue(order) => {
            fill(&mut redis, &queue, Load { count, size, order, last_in_ms: -1_000 }, |_| ()).await?;
        }
        Due::Falling { random } => fall(&mut redis, &queue, count, size, random).await,
    }
    server.keep_backlog().await.map_err(anyhow::Error::msg)?;
    let before = Counters::read(&mut redis).await?;
    let daemon = Daemon::spawn(
        &server.url(),
        &format!(
            "sinks: {{ out: {{ redis: {{ url: {} }} }} }}\nqueues:\n  q: {{ source: {{ redisson: {{ name: {QUEUE} }} }}, to: [{{ sink: out, list: out }}] }}\n",
            sink.url()
        ),
    )?;
    until("everything is delivered", async || {
        let (scheduled, in_flight): (usize, usize) = redis::pipe()
            .zcard(&queue.timeouts)
            .add_command(queue.count_in_flight())
            .query_async(&mut redis.clone())
            .await?;
        Ok(scheduled + in_flight == 0)
    })
    .await?;
    let delivered = Counters::read(&mut redis).await?;
    until("the list is swept", async || Ok(redis.clone().llen::<_, usize>(&queue.list).await? == 0)).await?;
    let swept = Counters::read(&mut redis).await?;
    daemon.stop().await;
    let each = |from: &Counters, to: &Counters| (to.replicated - from.replicated) as f64 / count as f64;
    Ok([each(&before, &delivered), each(&delivered, &swept)])
}

/// Offers elements that fall due from three seconds from now on.
async fn fall(redis: &mut MultiplexedConnection, queue: &RedissonQueue, count: usize, size: usize, random: bool) {
    let first = redis_now_ms(redis).await + 3_000;
    let mut elements: Vec<Element> = (0..count)
        .map(|n| Element::new(Layout::New, first + n as i64 * SPAN_MS / count as i64, payload(n, size)))
        .collect();
    if random {
        fastrand::shuffle(&mut elements);
    }
    for some in elements.chunks(10_000) {
        queue.offer_bulk(redis, some).await;
    }
}

async fn until(what: &str, is_so: impl AsyncFn() -> Result<bool>) -> Result<()> {
    let began = std::time::Instant::now();
    while !is_so().await? {
        if began.elapsed() > PATIENCE {
            bail!("wait until {what}: not within {PATIENCE:?}");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
