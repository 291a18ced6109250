//! Real Kafka and RabbitMQ servers of one's own, without containers: started on free ports of 127.0.0.1, stopped on drop.
//!
//! `scripts/setup.sh test` brings what they need. A server belongs to the value that started it: drop it, and its
//! processes are gone and its data is deleted. Both happen as well when this process dies without dropping anything, so
//! a server may live in a `static`.
//!
//! Beside the servers, [`redisson`] has the command that runs clients of a version of Redisson, and [`kubernetes`] knows
//! where the tools are that render and validate manifests, and [`process`] holds the children of every kind.
//!
//! The methods block; they take `&self`, so that one server can be shared between tests and tasks.

mod boots;
mod cache;
mod error;
mod java;
pub mod kafka;
mod log;
mod ports;
pub mod process;
pub mod rabbit;
pub mod redisson;
mod scratch;
pub mod tls;
mod tool;
mod versions;

pub use cache::{actionlint, asynq, bullmq, helm, kubernetes, lmstfy_client, openapi, redis_server};
pub use error::{Error, Result};
pub use kafka::{Kafka, KafkaOptions};
pub use rabbit::{Rabbit, RabbitOptions};
pub use versions::versions;
