//! The time from the start of the process to the first delivery of an overdue element.

use std::time::Duration;

use anyhow::Result;
use redis::AsyncCommands;

use crate::daemon::Daemon;
use crate::report::{Row, quantiles};
use crate::settings::number;
use harness::oracle::read_stream;
use harness::redis_server::RedisServer;
use harness::redisson::{RedissonQueue, redis_now_ms};

/// Measured starts with each number of queues.
const RUNS: usize = 10;

/// Measures the rows of `ROWS=start`: with one queue, and with `MANY` queues (10,000 by default).
pub async fn measure() -> Result<Vec<Row>> {
    let many = number("MANY", 10_000)?;
    let row = |queues, took, bar| Row {
        what: format!("start of the process to first delivery, queues: {queues} ({RUNS} runs)"),
        found: quantiles(took),
        bar,
    };
    Ok(vec![row(1, of(1).await?, "first claim < 100 ms"), row(many, of(many).await?, "0.5 s")])
}

/// The times from the start to the delivery of an element that is overdue in one of so many queues, in ms.
async fn of(queues: usize) -> Result<Vec<i64>> {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let lines: String = (0..queues)
        .map(|n| {
            format!(
                "  q{n}: {{ source: {{ redisson: {{ name: start-{n} }} }}, to: [{{ sink: same, stream: out }}] }}\n"
            )
        })
        .collect();
    let config = format!("sinks: {{ same: {{ redis: {{}} }} }}\nqueues:\n{lines}");
    let mut took = Vec::new();
    for run in 0..RUNS {
        let _: () = redis.del("out").await?;
        let now = redis_now_ms(&mut redis).await;
        // Spread over all of them: they are looked at in their order.
        let queue = RedissonQueue::new(&format!("start-{}", (2 * run + 1) * queues / (2 * RUNS)));
        queue.offer(&mut redis, now, "due").await;
        // Both times are of Redis's clock.
        let spawned = redis_now_ms(&mut redis).await;
        let daemon = Daemon::spawn(&server.url(), &config)?;
        while redis.xlen::<_, usize>("out").await? == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let arrived = read_stream(&mut redis, "out").await[0].arrived_ms.unwrap_or(0);
        took.push(arrived - spawned);
        daemon.stop().await;
    }
    Ok(took)
}
