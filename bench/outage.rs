//! An outage of Kafka of an hour, with very many elements due.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use redis::AsyncCommands;

use crate::daemon::Daemon;
use crate::report::{Row, at};
use crate::settings::{number, said};
use crate::steady::sink;
use crate::to_kafka;
use harness::fill::{Load, fill};
use harness::oracle::Oracle;
use harness::redis_server::RedisServer;
use harness::redisson::RedissonQueue;

const SECONDS: u64 = 3_600;
const DUE: usize = 1_000_000;
/// Number of elements delivered before the outage, so that all code and buffers are in memory.
const BEFORE: usize = 100_000;
/// Time-out after the end of the outage.
const PATIENCE: Duration = Duration::from_secs(600);
const TOPIC: &str = "outage";

/// Measures the rows of `ROWS=outage`.
pub async fn measure() -> Result<Vec<Row>> {
    let length = Duration::from_secs(number("OUTAGE_SECONDS", SECONDS)?);
    let due = number("ELEMENTS", DUE)?;
    let broker = to_kafka::start().await?;
    to_kafka::create(&broker, TOPIC).await?;
    let mut server = RedisServer::start().await;
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("outage");
    let mut oracle = Oracle::new();
    fill(&mut redis, &queue, Load::overdue(due + BEFORE), |some| oracle.offered(some)).await?;
    let mut daemon = Daemon::spawn(
        &server.url(),
        &format!(
            "sinks: {{ out: {} }}\nqueues:\n  q: {{ source: {{ redisson: {{ name: outage }} }}, to: [{{ sink: out, topic: {TOPIC} }}] }}\n",
            sink(&broker)
        ),
    )?;
    let mut resident = Vec::new();
    while redis.zcard::<_, usize>(&queue.timeouts).await? > due {
        ensure!(daemon.process.exit_status().is_none(), "the daemon ended: {}", daemon.said());
        tokio::time::sleep(Duration::from_millis(20)).await;
        resident.push(daemon.process.usage().resident);
    }
    broker.kill(1);
    said(&format!("outage: Kafka is gone for {} s", length.as_secs()));
    let load = mb(&resident, 1.0);

    let mut resident = Vec::new();
    let gone = Instant::now();
    let before = daemon.process.usage().cpu;
    let redis_before = server.running().usage().cpu;
    let lines = daemon.log_lines();
    while gone.elapsed() < length {
        ensure!(daemon.process.exit_status().is_none(), "the daemon ended: {}", daemon.said());
        tokio::time::sleep(Duration::from_secs(1)).await;
        resident.push(daemon.process.usage().resident);
    }
    let share = |used: Duration| used.as_secs_f64() / gone.elapsed().as_secs_f64() * 100.0;
    let cpu = share(daemon.process.usage().cpu.saturating_sub(before));
    let redis_cpu = share(server.running().usage().cpu.saturating_sub(redis_before));
    let logged = daemon.log_lines() - lines;
    let minute = resident.len().min(60);
    let first = mb(&resident[..minute], 0.5);
    let last = mb(&resident[resident.len() - minute..], 0.5);
    let most = mb(&resident, 1.0);

    let again = broker.clone();
    tokio::task::spawn_blocking(move || again.restart(1)).await?.context("start Kafka again")?;
    let back = Instant::now();
    let left = async |redis: &mut redis::aio::MultiplexedConnection| -> Result<usize> {
        let (scheduled, in_flight, retry): (usize, usize, usize) = redis::pipe()
            .zcard(&queue.timeouts)
            .add_command(queue.count_in_flight())
            .zcard(queue.bridge_key("retry"))
            .query_async(redis)
            .await?;
        Ok(scheduled + in_flight + retry)
    };
    let mut resumed = None;
    let at_return = left(&mut redis).await?;
    loop {
        let left = left(&mut redis).await?;
        if left < at_return && resumed.is_none() {
            resumed = Some(back.elapsed());
        }
        if left == 0 {
            break;
        }
        ensure!(back.elapsed() < PATIENCE, "{left} elements were left {PATIENCE:?} after Kafka's return");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let drained = back.elapsed();
    let dead: usize = redis.xlen(queue.bridge_key("dead")).await?;
    let report = oracle.judge(&to_kafka::read(&broker, TOPIC).await?);
    ensure!(report.is_complete(), "not everything arrived as it was: {report}");
    daemon.stop().await;
    let row = |what: &str, found: String, bar| Row {
        what: format!("{} s without Kafka, {due} due: {what}", length.as_secs()),
        found,
        bar,
    };
    Ok(vec![
        row(
            "memory",
            format!("{first} MB in the first minute, {last} in the last, {most} at most; {load} at full load before"),
            "flat, <= 60 MB",
        ),
        row("CPU meanwhile", format!("{cpu:.2} % of a core, Redis {redis_cpu:.2} %; {logged} lines logged"), ""),
        row(
            "after Kafka's return",
            format!(
                "first settled after {:.1} s, all after {:.1} s; came twice: {}; dead letters: {dead}",
                resumed.unwrap_or(drained).as_secs_f64(),
                drained.as_secs_f64(),
                report.duplicates
            ),
            "every id, no dead letter",
        ),
    ])
}

/// A quantile of the resident memory, in megabytes.
fn mb(resident: &[u64], share: f64) -> i64 {
    let mut sorted: Vec<i64> = resident.iter().map(|&bytes| bytes as i64).collect();
    sorted.sort_unstable();
    at(&sorted, share) / 1_000_000
}
