//! Real Kafka, RabbitMQ, NATS, RocketMQ and Artemis servers for tests, and ElasticMQ for SQS and moto for SNS, without containers: started on free
//! ports of 127.0.0.1, stopped on drop.
//!
//! `scripts/setup.sh test` installs the servers. A server belongs to the value that started it: when the value is
//! dropped, or this process dies, its processes end and its data is deleted. So a server may be in a `static`.
//!
//! Besides the servers, [`redisson`] has the command that runs clients of a version of Redisson, [`kubernetes`] the
//! tools that render and validate manifests, and [`process`] the handling of child processes.
//!
//! The methods block; they take `&self`, so that a server can be shared between tests and tasks.

pub mod artemis;
mod boots;
mod cache;
pub mod elasticmq;
mod error;
mod http;
mod java;
pub mod kafka;
mod log;
pub mod moto;
pub mod nats;
#[path = "../../../crates/link/src/test_ports.rs"]
pub mod ports;
pub mod process;
pub mod rabbit;
pub mod redisson;
pub mod rocketmq;
mod scratch;
mod server;
pub mod stopwatch;
pub mod tls;
mod tool;
mod versions;

pub use artemis::{Artemis, ArtemisMessage, ArtemisOptions};
pub use cache::{
    actionlint, asynq, bullmq, compose, faktory, helm, keda, kubernetes, lmstfy, lmstfy_client, openapi,
    prometheus_operator, redis_server,
};
pub use elasticmq::ElasticMq;
pub use error::{Error, Result};
pub use kafka::{Kafka, KafkaOptions};
pub use moto::Moto;
pub use nats::{Nats, NatsClient, NatsOptions};
pub use rabbit::{Rabbit, RabbitOptions};
pub use rocketmq::{RocketMq, RocketMqMessage, RocketMqOptions, RocketMqVersion};
pub use server::Server;
pub use stopwatch::Stopwatch;
pub use versions::versions;
