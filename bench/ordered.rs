//! The cost of `order`: the same backlog into a Redis stream without order, by key, and by queue.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use crate::daemon::Daemon;
use crate::observed::Counters;
use crate::redis_server::RedisServer;
use crate::redisson::{Element, Layout, RedissonQueue, redis_now_ms};
use crate::report::{Table, middle};
use crate::settings::{number, rounds, said};

/// Number of due elements.
const ELEMENTS: usize = 200_000;
/// Number of different keys.
const KEYS: usize = 1_000;
/// Size of each payload, in bytes; the payload is its key.
const SIZE: usize = 256;
const STREAM: &str = "out";

/// The compared lines: the name, and the addition to the queue's configuration.
const ORDERS: [(&str, &str); 3] =
    [("none", ""), ("key", ", order: key, order_key: \"${payload}\""), ("queue", ", order: queue")];

/// Measures the table of `ROWS=order`.
pub async fn measure() -> Result<Table> {
    let (elements, rounds) = (number("ELEMENTS", ELEMENTS)?, rounds()?);
    let columns = ["order", "elements/s", "us of the daemon's CPU each", "us of scripts each"];
    let title = format!("Order: {elements} due elements of {KEYS} keys, {SIZE} B, into a Redis stream");
    let mut table = Table::new(title, &columns);
    let mut lines: [Vec<Vec<String>>; 3] = Default::default();
    for round in 0..rounds {
        for ((name, settings), lines) in ORDERS.iter().zip(&mut lines) {
            said(&format!("order: {name}, round {}", round + 1));
            lines.push(drain(name, settings, elements).await?);
        }
    }
    table.lines = lines.iter().map(|lines| middle(lines)).collect();
    table.notes =
        vec!["By queue one run of a claim's elements is at the sink at a time, by key one of each key.".into()];
    Ok(table)
}

async fn drain(name: &str, settings: &str, elements: usize) -> Result<Vec<String>> {
    let (server, target) = (RedisServer::start().await, RedisServer::start().await);
    let (mut redis, mut sink) = (server.client().await, target.client().await);
    let queue = RedissonQueue::new("ordered");
    let first_ms = redis_now_ms(&mut redis).await - 3_600_000;
    for start in (0..elements).step_by(5_000) {
        let offers = start..elements.min(start + 5_000);
        let offers: Vec<Element> =
            offers.map(|n| Element::new(Layout::New, first_ms + n as i64, format!("{:0SIZE$}", n % KEYS))).collect();
        queue.offer_bulk(&mut redis, &offers).await;
    }
    let before = Counters::read(&mut redis).await?;
    let mut daemon = Daemon::spawn(
        &server.url(),
        &format!(
            "sinks: {{ out: {{ redis: {{ url: \"{}\" }} }} }}\nqueues:\n  q: {{ source: {{ redisson: {{ name: ordered }} }}, \
             codec: string, to: [{{ sink: out, stream: {STREAM} }}]{settings} }}\n",
            target.url()
        ),
    )?;
    // The time begins with the first claim; the start is measured elsewhere.
    while redis.zcard::<_, usize>(&queue.timeouts).await? == elements {
        ensure!(daemon.process.exit_status().is_none(), "the daemon ended: {}", daemon.said());
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
    let (started, used) = (Instant::now(), daemon.process.usage().cpu);
    while left(&mut redis, &queue).await? > 0 {
        ensure!(daemon.process.exit_status().is_none(), "the daemon ended: {}", daemon.said());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let (seconds, used) = (started.elapsed().as_secs_f64(), daemon.process.usage().cpu.saturating_sub(used));
    let after = Counters::read(&mut redis).await?;
    ensure!(sink.xlen::<_, usize>(STREAM).await? == elements, "not every element arrived once");
    daemon.stop().await;
    let each = |us: f64| format!("{:.1}", us / elements as f64);
    Ok(vec![
        name.into(),
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
