//! Very many queues, few of which have anything to do.

use std::time::Instant;

use anyhow::Result;
use redis::aio::MultiplexedConnection;

use crate::daemon::Daemon;
use crate::idle::watch;
use crate::lateness::to_stream;
use crate::report::{Row, middle};
use crate::settings::{number, rounds, said};
use harness::redis_server::RedisServer;
use harness::redisson::RedissonQueue;

const MANY: usize = 10_000;
const BUSY: usize = 10;

/// The measurements, each with its promise.
const MEASURED: [(&str, &str); 4] = [
    ("until ready", "< 1 s, one"),
    ("idle for 60 s", "<= 1 %, <= 40 MB"),
    ("lateness of ten at 1,000/s in all", "the same"),
    ("series, idle and after that", "at first use"),
];

/// Measures the rows of `ROWS=queues`.
pub async fn measure() -> Result<Vec<Row>> {
    let many = number("MANY", MANY)?.max(BUSY);
    let rounds = rounds()?;
    let mut rows = Vec::new();
    for count in [BUSY, many] {
        let mut lines = Vec::new();
        for _ in 0..rounds {
            said(&format!("queues: {count}"));
            lines.push(run(count).await?);
        }
        let found = middle(&lines).into_iter().zip(MEASURED);
        rows.extend(found.map(|(found, (what, bar))| Row { what: format!("{count} queues, {what}"), found, bar }));
    }
    Ok(rows)
}

/// Measures one daemon; returns the cells in the order of [`MEASURED`].
async fn run(count: usize) -> Result<Vec<String>> {
    let mut server = RedisServer::start().await;
    let mut redis = server.client().await;
    let queue = |n: usize| {
        format!("  q{n}: {{ source: {{ redisson: {{ name: many-{n} }} }}, to: [{{ sink: same, stream: out }}] }}\n")
    };
    let queues: String = (0..count).map(queue).collect();
    let began = Instant::now();
    let mut daemon = Daemon::spawn(&server.url(), &format!("sinks: {{ same: {{ redis: {{}} }} }}\nqueues:\n{queues}"))?;
    daemon.ready().await?;
    let ready = began.elapsed();
    let [all, subscribed] = connections(&mut redis).await?;
    let before = series(&daemon).await?;
    let idle = watch(&daemon, &mut server).await;
    let busy: Vec<RedissonQueue> = (0..BUSY).map(|n| RedissonQueue::new(&format!("many-{n}"))).collect();
    let late = to_stream(&mut redis, &busy).await?;
    let after = series(&daemon).await?;
    daemon.stop().await;
    Ok(vec![
        format!("{} ms; {all} connections, {subscribed} of them subscribed", ready.as_millis()),
        idle,
        late,
        format!("{before} and {after}"),
    ])
}

/// Number of connections other than the bench's, and how many of them are subscribed.
async fn connections(redis: &mut MultiplexedConnection) -> Result<[usize; 2]> {
    let list: String = redis::cmd("CLIENT").arg("LIST").query_async(redis).await?;
    let listens = |line: &&str| !line.contains(" sub=0 ") || !line.contains(" ssub=0 ") && line.contains(" ssub=");
    Ok([list.lines().count().saturating_sub(1), list.lines().filter(listens).count()])
}

async fn series(daemon: &Daemon) -> Result<usize> {
    Ok(daemon.metrics().await?.names().len())
}
