//! Pools of jobs: the daemon is the built binary, Redis a real server, the programs are those in common use.

mod arriving;
mod forwarding;
mod leaving;
mod port;
mod programs;
mod shadow;
mod timers;

use std::time::Duration;

use redis::aio::MultiplexedConnection;

use harness::{RedisServer, eventually};

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A configuration with these queues, and a sink on the same server.
pub(crate) fn on(server: &RedisServer, queues: &str) -> String {
    format!("redis: {{ url: {} }}\nsinks: {{ out: {{ redis: {{}} }} }}\nqueues:\n{queues}", server.url())
}

/// Waits until none of these keys exists.
pub(crate) async fn gone(redis: &mut MultiplexedConnection, keys: &[&str]) {
    eventually("the keys to be gone", PATIENCE, async || {
        let mut exists = redis::cmd("EXISTS");
        exists.arg(keys);
        match exists.query_async::<i64>(&mut redis.clone()).await {
            Ok(0) => Ok(()),
            other => Err(format!("{other:?} of {keys:?}")),
        }
    })
    .await;
}
