//! The `sqs` and `sns` sinks: messages in queues of AWS's SQS, and of topics of its SNS.
//!
//! `config` has the keys and the settings of both, `target` the queues and topics as destinations, `service` what differs between the
//! two, `wire` the requests and answers of each, `errors` the classes of failures, `codes` their cures, `client` the sink itself.

mod client;
mod codes;
mod config;
mod errors;
mod service;
mod target;
mod wire;

pub use config::{AwsSpec, SNS, SQS};
pub use service::AwsService;
pub use target::{AwsDestination, AwsTarget};

pub use client::AwsSink;
