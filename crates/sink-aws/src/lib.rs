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

pub use config::AwsSpec;
pub use service::AwsService;
pub use target::{AwsDestination, AwsTarget};

pub use client::AwsSink;

use delaybridge_core::codes::Codes;
use delaybridge_settings::keys::{Kind, key};
use delaybridge_sink::kind::SinkKind;

/// The `sqs` kind.
pub static SQS: SinkKind = SinkKind {
    key: key("sqs", Kind::Section(&config::sink_sqs::TABLE), "Queues of AWS's SQS."),
    title: "SQS",
    tables: &[&config::sink_sqs::TABLE],
    to: target::SQS_KEYS,
    dead_letter: target::SQS_KEYS,
    read: Ok(config::read_sqs),
    codes: || Codes::of(codes::TITLE, codes::TEXT, codes::CODES),
};

/// The `sns` kind. Its codes are those of `sqs`.
pub static SNS: SinkKind = SinkKind {
    key: key("sns", Kind::Section(&config::sink_sns::TABLE), "Topics of AWS's SNS."),
    title: "SNS",
    tables: &[&config::sink_sns::TABLE],
    to: target::SNS_KEYS,
    dead_letter: target::SNS_KEYS,
    read: Ok(config::read_sns),
    codes: || Codes::of("", "", &[]),
};
