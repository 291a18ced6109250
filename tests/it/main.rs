//! The integration tests: one binary, so that it is linked once.

mod admin;
#[cfg(feature = "amqp")]
mod amqp;
#[cfg(feature = "amqp1")]
mod amqp1;
mod api;
mod claims;
mod cli;
mod cluster;
mod compose;
mod crash;
mod delivery;
mod docs;
mod faults;
mod formats;
mod fuzz;
mod hostile;
#[cfg(feature = "http")]
mod http;
mod image;
#[cfg(feature = "amqp")]
mod inputs;
mod job_pool;
mod jobs;
#[cfg(feature = "kafka")]
mod kafka;
mod kubernetes;
mod ledger;
mod moving;
#[cfg(feature = "nats")]
mod nats;
mod observe;
mod redisson;
mod reload;
#[cfg(feature = "rocketmq")]
mod rocketmq;
mod selftest;
mod sentinel;
#[cfg(feature = "http")]
mod servers;
#[cfg(feature = "aws")]
mod sqs;
mod strangers;
mod systemd;
mod tidy;
#[cfg(feature = "http")]
mod traces;
mod workflow;
mod zset;
