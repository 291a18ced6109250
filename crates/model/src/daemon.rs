//! The configuration of a daemon.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use redisson_codecs::Classes;

use super::inputs::InputSpec;
use super::listeners::{AdminSpec, ApiSpec};
use super::queue::QueueSpec;
use super::servers::{ONLY, Servers};
use delaybridge_jobs::JobSettings;
use delaybridge_link::RedisTarget;
use delaybridge_settings::Settings;
use delaybridge_sink::SinkSpec;
use delaybridge_spans::OtlpSpec;

/// The configuration of a daemon.
#[derive(Debug, Clone)]
pub struct Config {
    /// Address of `/metrics` and the probes; `None` for `http: none`.
    pub http_listen: Option<SocketAddr>,
    /// The operators' listener.
    pub admin: Option<AdminSpec>,
    /// The longest duration of the ordered drain after SIGTERM.
    pub shutdown_timeout: Duration,
    /// The occasions on which the file is read again.
    pub reload: Reload,
    /// Limits of the whole process.
    pub limits: ProcessLimits,
    /// The collector of traces, if elements are traced.
    pub tracing: Option<OtlpSpec>,
    /// Every Redis that holds queues or jobs.
    pub redis: Servers,
    /// Sinks that at least one queue uses, in the order of the file.
    pub sinks: Vec<Arc<SinkSpec>>,
    /// The application's classes.
    pub classes: Classes,
    /// The job queue, if there is one.
    pub jobs: Option<JobSettings>,
    /// The name of the Redis with the job queue.
    pub jobs_redis: Arc<str>,
    /// The listeners of the job queue's HTTP API.
    pub api: Vec<ApiSpec>,
    /// Inputs, in the order of the file.
    pub inputs: Vec<Arc<InputSpec>>,
    /// Queues, in the order of the file, and behind them those of inputs.
    pub queues: Vec<Arc<QueueSpec>>,
}

/// Limits of the process. At a limit nothing more is claimed.
#[derive(Debug, Clone, Copy, Settings)]
#[settings(limits, at = "limits")]
pub struct ProcessLimits {
    /// Elements in flight.
    #[key(count(1, 1_000_000), default = "20000")]
    pub in_flight: u32,
    /// Bytes of elements in flight: as in Redis, decoded, and copied in the Kafka and AMQP clients. A larger element is
    /// delivered alone.
    #[key(Kind::Size, default = "64MiB")]
    pub in_flight_bytes: u64,
}

/// An invalid file, or a change that needs a restart, is refused, and the previous configuration stays. See
/// [operations.md](operations.md#reload).
#[derive(Debug, Clone, Copy, Settings)]
#[settings(reload, at = "reload")]
pub struct Reload {
    /// Also reload when the file changes, or a file that it names for a queue or a sink, such as a password. Contents
    /// are compared every 2 seconds, also behind symbolic links (Kubernetes ConfigMaps).
    #[key(Kind::Flag, default = "false")]
    pub watch: bool,
}

impl Config {
    /// Returns the ids of all queues.
    pub fn queue_ids(&self) -> Vec<Arc<str>> {
        self.queues.iter().map(|spec| spec.id.clone()).collect()
    }

    /// Returns the queues that this Redis holds.
    pub fn queues_on(&self, redis: &str) -> Vec<Arc<QueueSpec>> {
        self.queues.iter().filter(|spec| &*spec.redis == redis).cloned().collect()
    }

    /// Returns the name of the Redis that a sink without a server of its own uses: that of its queues.
    pub fn redis_of_sink(&self, sink: &str) -> &str {
        let mut using = self.queues.iter().filter(|spec| spec.routes().any(|route| &*route.sink == sink));
        using.next().map_or(ONLY, |spec| &spec.redis)
    }

    /// Returns the Redis with the job queue.
    pub fn redis_of_jobs(&self) -> &RedisTarget {
        self.redis.named(&self.jobs_redis)
    }
}
