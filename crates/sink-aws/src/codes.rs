//! The table of errors of SQS and SNS: class, cause and cure of each code.

use delaybridge_core::codes::AGAIN;
use delaybridge_sink::error_table;

pub(super) const TITLE: &str = "SQS and SNS";
pub(super) const TEXT: &str =
    "Answers of the services; the message has their word. FIFO queues and topics drop repeats within five minutes.";

error_table! {
    THROTTLED = Backpressure "aws_throttled":
        "The quota is exceeded, or the service overloaded.",
        "Nothing: delivery slows down. If it lasts, lower `max_rate` or raise the quota.";
    NO_TARGET = TargetPermanent "aws_no_target":
        "There is no such queue or topic, or no API of AWS at `endpoint`.",
        "Create it, or correct `queue_url`, `topic_arn`, `region` or `endpoint`.";
    DENIED = TargetPermanent "aws_denied":
        "The role lacks a right.",
        "Grant `sqs:SendMessage` or `sns:Publish`, and `kms:GenerateDataKey` and `kms:Decrypt` for an encrypted queue.";
    KMS = TargetPermanent "aws_kms": "The encryption key cannot be used.", "See the state of the key.";
    TOO_LARGE = MessagePermanent "aws_too_large":
        "Message and attributes are too large for the service or the queue.",
        "Send smaller payloads or raise `MaximumMessageSize`, then redrive.";
    REFUSED = MessagePermanent "aws_refused":
        "The service does not take the message.",
        "Correct what it names, then redrive.";
    INTERNAL = Transient "aws_internal": "The service failed.", AGAIN;
    ERROR = Unknown "aws_error": "An answer that this version does not know.", "Nothing: the element is retried. Report the answer.";
}
