//! Error codes of SQS and SNS with their causes and cures.

use delaybridge_core::codes::{AGAIN, Code, DEFECT, code};

pub(super) const TITLE: &str = "SQS and SNS";
pub(super) const TEXT: &str =
    "Answers of the services; the message has their word. FIFO queues and topics drop repeats within five minutes.";

pub(super) const CODES: &[Code] = &[
    code(
        "aws_throttled",
        "The quota is exceeded, or the service overloaded.",
        "Nothing: delivery slows down. If it lasts, lower `max_rate` or raise the quota.",
    ),
    code(
        "aws_no_target",
        "There is no such queue or topic, or no API of AWS at `endpoint`.",
        "Create it, or correct `queue_url`, `topic_arn`, `region` or `endpoint`.",
    ),
    code(
        "aws_denied",
        "The role lacks a right.",
        "Grant `sqs:SendMessage` or `sns:Publish`, and `kms:GenerateDataKey` and `kms:Decrypt` for an encrypted queue.",
    ),
    code("aws_kms", "The encryption key cannot be used.", "See the state of the key."),
    code(
        "aws_too_large",
        "Message and attributes are too large for the service or the queue.",
        "Send smaller payloads or raise `MaximumMessageSize`, then redrive.",
    ),
    code("aws_refused", "The service does not take the message.", "Correct what it names, then redrive."),
    code("aws_internal", "The service failed.", AGAIN),
    code("aws_error", "An answer that this version does not know.", DEFECT),
];
