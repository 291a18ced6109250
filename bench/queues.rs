//! Very many queues, of which few have anything to do.

use std::time::Instant;

use anyhow::Result;
use redis::aio::MultiplexedConnection;

use crate::daemon::Daemon;
use crate::idle::watch;
use crate::lateness::to_stream;
use crate::redis_server::RedisServer;
use crate::redisson::RedissonQueue;
use crate::report::Row;
use crate::settings::{number, said};

const MANY: usize = 10_000;
const BUSY: usize = 10;

/// The rows of `ROWS=queues`.
pub async fn measure() -> Result<Vec<Row>> {
    let many = number("MANY", MANY)?.max(BUSY);
    let mut rows = Vec::new();
    for count in [BUSY, many] {
        said(&format!("queues: {count}"));
        let mut server = RedisServer::start().await;
        let mut redis = server.client().await;
        let queues: String = (0..count)
            .map(|n| {
                format!(
                    "  q{n}: {{ source: {{ redisson: {{ name: many-{n} }} }}, to: [{{ sink: same, stream: out }}] }}\n"
                )
            })
            .collect();
        let began = Instant::now();
        let mut daemon =
            Daemon::spawn(&server.url(), &format!("sinks: {{ same: {{ redis: {{}} }} }}\nqueues:\n{queues}"))?;
        daemon.ready().await?;
        let ready = began.elapsed();
        let [all, subscribed] = connections(&mut redis).await?;
        let before = series(&daemon).await?;
        let mut row = |what: &str, found: String, bar| {
            rows.push(Row { what: format!("{count} queues, {what}"), found, bar });
        };
        row(
            "until ready",
            format!("{} ms; {all} connections, {subscribed} of them subscribed", ready.as_millis()),
            "< 1 s, one",
        );
        row("idle for 60 s", watch(&daemon, &mut server).await, "< 1 %, < 40 MB");
        let busy: Vec<RedissonQueue> = (0..BUSY).map(|n| RedissonQueue::new(&format!("many-{n}"))).collect();
        row("lateness of ten at 1,000/s in all", to_stream(&mut redis, &busy).await?, "the same");
        row("series, idle and after that", format!("{before} and {}", series(&daemon).await?), "at first use");
        daemon.stop().await;
    }
    Ok(rows)
}

/// Connections of others than the bench, and how many of them listen.
async fn connections(redis: &mut MultiplexedConnection) -> Result<[usize; 2]> {
    let list: String = redis::cmd("CLIENT").arg("LIST").query_async(redis).await?;
    let listens = |line: &&str| !line.contains(" sub=0 ") || !line.contains(" ssub=0 ") && line.contains(" ssub=");
    Ok([list.lines().count().saturating_sub(1), list.lines().filter(listens).count()])
}

async fn series(daemon: &Daemon) -> Result<usize> {
    Ok(daemon.metrics().await?.names().len())
}
