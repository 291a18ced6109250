//! The tools of the integration tests: real servers, a proxy that causes faults, a writer that behaves like Redisson,
//! the daemon as a process, and the oracle that judges the deliveries.
//!
//! Nothing in here uses the library's code for keys, layouts or scripts: that would only prove that the library agrees
//! with itself.

#[cfg(feature = "amqp")]
pub mod amqp;
pub mod amqp1;
pub mod cluster;
pub mod daemon;
pub mod eventually;
pub mod failovers;
pub mod fill;
pub mod http;
pub mod java;
#[cfg(feature = "kafka")]
pub mod kafka;
pub mod least;
pub mod logs;
pub mod metrics;
pub mod monitor;
pub mod nats;
pub mod oracle;
pub mod prometheus;
pub mod proxy;
#[cfg(feature = "amqp")]
pub mod publisher;
pub mod redis_server;
pub mod redisson;
pub mod resp;
pub mod rocketmq;
pub mod sentinels;
pub mod servers;
pub mod sqs;
pub mod tls;
pub mod toxic;
pub mod turn;
pub mod vectors;

pub use brokers::{Stopwatch, ports, process};
pub use cluster::RedisCluster;
pub use daemon::Daemon;
pub use eventually::eventually;
pub use java::JavaClient;
pub use oracle::{Delivery, Oracle};
pub use prometheus::Prometheus;
pub use proxy::{Cut, Mode, Proxy};
pub use redis_server::{RedisServer, ServerOptions};
pub use redisson::{Element, Layout, RedissonQueue};
pub use sentinels::Sentinels;
pub use tls::write_secret;
pub use vectors::{Vector, vectors};
