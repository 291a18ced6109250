//! The time from the start of the process to the first delivery of an overdue element.

use std::time::Duration;

use anyhow::Result;
use redis::AsyncCommands;

use crate::daemon::Daemon;
use crate::oracle::read_stream;
use crate::redis_server::RedisServer;
use crate::redisson::{RedissonQueue, redis_now_ms};
use crate::report::{Row, quantiles};

const RUNS: usize = 10;

/// Measures the rows of `ROWS=start`.
pub async fn measure() -> Result<Vec<Row>> {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("start");
    let mut took = Vec::new();
    for _ in 0..RUNS {
        let _: () = redis.del("out").await?;
        let now = redis_now_ms(&mut redis).await;
        queue.offer(&mut redis, now, "due").await;
        // Both times are of Redis's clock.
        let spawned = redis_now_ms(&mut redis).await;
        let daemon = Daemon::spawn(
            &server.url(),
            "sinks: { same: { redis: {} } }\nqueues:\n  q: { source: { redisson: { name: start } }, to: [{ sink: same, stream: out }] }\n",
        )?;
        while redis.xlen::<_, usize>("out").await? == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let arrived = read_stream(&mut redis, "out").await[0].arrived_ms.unwrap_or(0);
        took.push(arrived - spawned);
        daemon.stop().await;
    }
    Ok(vec![Row {
        what: "start of the process to first delivery (10 runs)".to_owned(),
        found: quantiles(took),
        bar: "first claim < 100 ms",
    }])
}
