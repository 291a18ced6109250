//! The kind, as the configuration knows it.

use super::{codes, config, target};
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
