//! Error codes of SQS and SNS with their causes and cures.

use delaybridge_core::codes::{AGAIN, Code, DEFECT, code};

pub(super) const TITLE: &str = "SQS and SNS";
pub(super) const TEXT: &str = "Answers of the services; the message has their own word. What a FIFO queue or topic gets again within five \
     minutes is not there twice.";

pub(super) const CODES: &[Code] = &[
    code(
        "aws_throttled",
        "There are more requests than the quota allows, or the service is overloaded.",
        "Nothing: delivery slows down. Lower `max_rate`, or raise the quota, if it lasts.",
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
    code("aws_kms", "The key that encrypts the queue or topic cannot be used.", "See the state of the key."),
    code(
        "aws_too_large",
        "The message with its attributes is larger than the service or the queue takes.",
        "Keep payloads smaller, or raise `MaximumMessageSize` of the queue; then redrive.",
    ),
    code(
        "aws_refused",
        "The service does not take the message.",
        "The message has its word; correct it, then redrive.",
    ),
    code("aws_internal", "The service failed.", AGAIN),
    code("aws_error", "An answer that this version does not know.", DEFECT),
];
