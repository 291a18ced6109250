//! The job queue of the real binary: over HTTP, with foreign clients, and with consumers that are killed.

pub mod clients;
mod crowd;
mod descriptors;
mod https;
mod leaving;

use std::time::Duration;

use harness::RedisServer;
use harness::daemon::Daemon;
use harness::eventually;
use harness::ports::free_port;

/// Starts a daemon with the job queue; returns it with its port.
pub async fn start(redis: &RedisServer, jobs: &str, http: &str) -> (Daemon, u16) {
    let port = free_port();
    let yaml = format!("redis: {{ url: \"{}\" }}\njobs:\n  listen: \"127.0.0.1:{port}\"\n{http}{jobs}", redis.url());
    let daemon = Daemon::start(&yaml).await;
    eventually("the job queue's port", Duration::from_secs(10), async || {
        tokio::net::TcpStream::connect(("127.0.0.1", port)).await.map(drop).map_err(|error| error.to_string())
    })
    .await;
    (daemon, port)
}
