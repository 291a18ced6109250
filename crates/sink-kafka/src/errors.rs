//! The class of every failure of Kafka; one row a code, each tested. Pure.
//!
//! A code without a row is `Unknown`: retried, counted, never a success. With any code, a failed record that
//! may be in the log is ambiguous.

use delivery_status::Persistence;
use rdkafka::types::RDKafkaErrorCode as Code;

use delaybridge_core::codes::{Code as Entry, Codes, code};
use delaybridge_core::message::{About, Class, Failure};

/// librdkafka's delivery report of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeliveryReport {
    /// The error; `None` is the confirmation by every replica in sync.
    pub(super) error: Option<Code>,
    /// Whether the record may be in the log all the same.
    pub(super) persistence: Persistence,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Treatment {
    As(Class),
    /// Of this class, and about the one topic.
    Topic(Class),
    /// As this class, and the fault of the topic's settings or of the host: the topic is there.
    Fault(Class),
    /// The client's own verdict on a record it could not deliver: whether it was sent decides.
    Local,
    /// Bytes changed on the way: tried again, until it must be the record.
    Corrupt,
    /// The broker has the record already.
    Confirmed,
}

/// One code: its name as Kafka spells it (librdkafka, for its own), its treatment, and what an operator can do.
struct CodeRow(Code, &'static str, Treatment, &'static str);

use Class::{Ambiguous, Backpressure, MessagePermanent, TargetPermanent, Transient, Unknown};
use Treatment::{As, Confirmed, Corrupt, Fault, Local, Topic};

/// Tries after which a record that arrives corrupt is taken to be the reason itself.
const CORRUPT_TRIES: u32 = 3;

/// Advice where a topic is not there.
const CREATE: &str = "create the topic, or correct its name in the configuration";
/// Advice where a record is too large.
const LARGER: &str = "raise `max.message.bytes` of the topic, or `message.max.bytes` of the brokers, and \
                      `max_message_size` of the sink";

#[rustfmt::skip]
const TABLE: &[CodeRow] = &[
    CodeRow(Code::LeaderNotAvailable, "LEADER_NOT_AVAILABLE", As(Transient), ""),
    CodeRow(Code::NotLeaderForPartition, "NOT_LEADER_OR_FOLLOWER", As(Transient), ""),
    CodeRow(Code::BrokerNotAvailable, "BROKER_NOT_AVAILABLE", As(Transient), ""),
    CodeRow(Code::ReplicaNotAvailable, "REPLICA_NOT_AVAILABLE", As(Transient), ""),
    CodeRow(Code::NotEnoughReplicas, "NOT_ENOUGH_REPLICAS", As(Transient), "bring the topic's replicas back, or lower its `min.insync.replicas`"),
    CodeRow(Code::KafkaStorageError, "KAFKA_STORAGE_ERROR", As(Transient), "check the broker's disk"),
    // The leader's epoch advanced while the record was on its way.
    CodeRow(Code::FencedLeaderEpoch, "FENCED_LEADER_EPOCH", As(Transient), ""),
    CodeRow(Code::UnknownLeaderEpoch, "UNKNOWN_LEADER_EPOCH", As(Transient), ""),
    // A neighbour in the batch was refused, and this one with it.
    CodeRow(Code::InvalidDifferentRecord, "INVALID_DIFFERENT_RECORD", As(Transient), ""),
    CodeRow(Code::RequestTimedOut, "REQUEST_TIMED_OUT", As(Ambiguous), ""),
    CodeRow(Code::NetworkException, "NETWORK_EXCEPTION", As(Ambiguous), ""),
    CodeRow(Code::NotEnoughReplicasAfterAppend, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", As(Ambiguous), "bring the topic's replicas back, or lower its `min.insync.replicas`"),
    CodeRow(Code::OutOfOrderSequenceNumber, "OUT_OF_ORDER_SEQUENCE_NUMBER", As(Ambiguous), ""),
    CodeRow(Code::InvalidProducerEpoch, "INVALID_PRODUCER_EPOCH", As(Ambiguous), ""),
    CodeRow(Code::UnknownProducerId, "UNKNOWN_PRODUCER_ID", As(Ambiguous), ""),
    CodeRow(Code::ProducerFenced, "PRODUCER_FENCED", As(Ambiguous), ""),
    CodeRow(Code::BrokerTransportFailure, "TRANSPORT", Local, ""),
    CodeRow(Code::MessageTimedOut, "MSG_TIMED_OUT", Local, ""),
    CodeRow(Code::TimedOutQueue, "TIMED_OUT_QUEUE", Local, ""),
    CodeRow(Code::OperationTimedOut, "TIMED_OUT", Local, ""),
    CodeRow(Code::AllBrokersDown, "all_brokers_down", Local, ""),
    CodeRow(Code::Resolve, "RESOLVE", Local, "check the host names under `brokers`, and the ones that the brokers advertise"),
    CodeRow(Code::BrokerDestroy, "DESTROY", Local, ""),
    CodeRow(Code::PurgeQueue, "PURGE_QUEUE", Local, ""),
    CodeRow(Code::PurgeInflight, "PURGE_INFLIGHT", As(Ambiguous), ""),
    CodeRow(Code::Fatal, "FATAL", Local, ""),
    CodeRow(Code::GaplessGuarantee, "GAPLESS_GUARANTEE", Local, ""),
    CodeRow(Code::Fenced, "FENCED", As(Ambiguous), ""),
    CodeRow(Code::QueueFull, "queue_full", As(Backpressure), ""),
    CodeRow(Code::ThrottlingQuotaExceeded, "THROTTLING_QUOTA_EXCEEDED", As(Backpressure), ""),
    CodeRow(Code::PolicyViolation, "POLICY_VIOLATION", As(Unknown), ""),
    CodeRow(Code::Unknown, "UNKNOWN_SERVER_ERROR", As(Unknown), "check the broker's log"),
    CodeRow(Code::MessageSizeTooLarge, "MESSAGE_TOO_LARGE", As(MessagePermanent), LARGER),
    CodeRow(Code::MessageBatchTooLarge, "RECORD_LIST_TOO_LARGE", As(MessagePermanent), "raise `segment.bytes` of the topic"),
    CodeRow(Code::InvalidRecord, "INVALID_RECORD", As(MessagePermanent), "a compacted topic needs a key: set `key`"),
    CodeRow(Code::InvalidTimestamp, "INVALID_TIMESTAMP", Fault(TargetPermanent), "set this host's clock, or raise `message.timestamp.before.max.ms` and `.after.max.ms` of the topic"),
    CodeRow(Code::InvalidMessage, "CORRUPT_MESSAGE", Corrupt, ""),
    CodeRow(Code::UnknownTopicOrPartition, "UNKNOWN_TOPIC_OR_PARTITION", Topic(TargetPermanent), CREATE),
    CodeRow(Code::UnknownTopic, "UNKNOWN_TOPIC_OR_PARTITION", Topic(TargetPermanent), CREATE),
    CodeRow(Code::UnknownPartition, "UNKNOWN_TOPIC_OR_PARTITION", Topic(TargetPermanent), CREATE),
    CodeRow(Code::UnknownTopicId, "UNKNOWN_TOPIC_ID", Topic(TargetPermanent), CREATE),
    CodeRow(Code::InvalidTopic, "INVALID_TOPIC_EXCEPTION", Topic(TargetPermanent), "a topic's name has up to 249 letters, digits, `.`, `_` and `-`"),
    CodeRow(Code::TopicAuthorizationFailed, "TOPIC_AUTHORIZATION_FAILED", Topic(TargetPermanent), "allow the user to WRITE and DESCRIBE the topic"),
    CodeRow(Code::ClusterAuthorizationFailed, "CLUSTER_AUTHORIZATION_FAILED", As(TargetPermanent), "allow the user to WRITE a topic, or IDEMPOTENT_WRITE on the cluster (before Kafka 2.8)"),
    CodeRow(Code::SaslAuthenticationFailed, "SASL_AUTHENTICATION_FAILED", As(TargetPermanent), "correct `username`, `password` or `mechanism`; with tokens, their audience and scope"),
    CodeRow(Code::Authentication, "SASL_AUTHENTICATION_FAILED", As(TargetPermanent), "correct `username`, `password` or `mechanism`; with tokens, their audience and scope"),
    CodeRow(Code::UnsupportedSASLMechanism, "UNSUPPORTED_SASL_MECHANISM", As(TargetPermanent), "choose a `mechanism` that the brokers have enabled"),
    CodeRow(Code::IllegalSASLState, "ILLEGAL_SASL_STATE", As(TargetPermanent), ""),
    CodeRow(Code::SSL, "SSL", As(TargetPermanent), "check `tls`: the brokers' authority and host names, the client certificate"),
    CodeRow(Code::InvalidRequiredAcks, "INVALID_REQUIRED_ACKS", As(TargetPermanent), ""),
    CodeRow(Code::UnsupportedVersion, "UNSUPPORTED_VERSION", As(TargetPermanent), "the brokers are too old"),
    CodeRow(Code::UnsupportedFeature, "UNSUPPORTED_FEATURE", As(TargetPermanent), "the brokers are too old: idempotence needs Kafka 0.11"),
    CodeRow(Code::UnsupportedForMessageFormat, "UNSUPPORTED_FOR_MESSAGE_FORMAT", As(TargetPermanent), "raise `message.format.version` of the topic: headers need 0.11"),
    CodeRow(Code::UnsupportedCompressionType, "UNSUPPORTED_COMPRESSION_TYPE", As(TargetPermanent), "choose another `compression`"),
    CodeRow(Code::DuplicateSequenceNumber, "DUPLICATE_SEQUENCE_NUMBER", Confirmed, ""),
];

fn row(code: Code) -> Option<&'static CodeRow> {
    TABLE.iter().find(|row| row.0 == code)
}

/// Decides the outcome that a report means; `what` was attempted, and it was the record's attempt number `attempt`.
pub(super) fn judge(what: &str, report: DeliveryReport, attempt: u32) -> Result<(), Failure> {
    let Some(code) = report.error else { return Ok(()) };
    let refused = failure(what, code);
    let class = match row(code).map(|row| row.2) {
        Some(Confirmed) => return Ok(()),
        // A record that was sent and lost, and then refused, may be in the log with any last answer.
        _ if report.persistence != Persistence::Not => Ambiguous,
        Some(Corrupt) if attempt >= CORRUPT_TRIES => MessagePermanent,
        _ => refused.class,
    };
    Err(Failure { class, ..refused })
}

/// Corrects the failure of a record without a key. Only a topic's settings make the brokers refuse that, so no other
/// record without one would be taken.
pub(super) fn without_key(failure: Failure) -> Failure {
    match (failure.code, failure.class) {
        ("INVALID_RECORD", MessagePermanent) => Failure { class: TargetPermanent, ..failure }.about(About::Target),
        _ => failure,
    }
}

/// Builds the failure that a code means where no record was written.
pub(super) fn failure(what: &str, code: Code) -> Failure {
    let Some(CodeRow(_, name, treatment, _)) = row(code) else {
        let text = format!("{what}: code {} is not known to delaybridge: {code}", code as i32);
        return Failure::new(Unknown, "unknown_code", text);
    };
    let class = match treatment {
        As(class) | Topic(class) | Fault(class) => *class,
        // 46 without a record answers nothing that was asked.
        Confirmed => Unknown,
        Corrupt | Local => Transient,
    };
    Failure { class, ..told(what, code, name) }
}

/// Builds the failure with its message; the class is the caller's.
fn told(what: &str, code: Code, name: &'static str) -> Failure {
    let advice = advice(code).map(|advice| format!(": {advice}")).unwrap_or_default();
    let failure = Failure::new(Unknown, name, format!("{what}: {code}{advice}"));
    let of_topic = matches!(row(code), Some(CodeRow(_, _, Topic(_) | Fault(_), _)));
    if of_topic { failure.about(About::Target) } else { failure }
}

/// Returns the codes of the table, each once, with their cause and cure.
pub(super) fn documented() -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for CodeRow(code, name, _, advice) in TABLE {
        // A name that other sinks have as well is explained with theirs.
        if *name == "queue_full" || entries.iter().any(|entry| entry.code == *name) {
            continue;
        }
        let text = code.to_string();
        // librdkafka's words are in parentheses behind its own name.
        let words = text.split_once('(').map_or(&*text, |(_, words)| words.trim_end_matches(')'));
        let words = words.trim_start_matches("Broker: ");
        let mut letters = advice.chars();
        let cure = match (letters.next(), failure("", *code).class) {
            (Some(first), _) => format!("{}{}.", first.to_uppercase(), letters.as_str()).into(),
            (None, TargetPermanent) => "See the brokers' log; the queue is held meanwhile.".into(),
            (None, _) => "Nothing: it is tried again. If it lasts, check the brokers.".into(),
        };
        entries.push(Entry { code: name, cause: format!("{words}.").into(), cure });
    }
    entries
}

/// Codes that are the sink's own.
pub(super) const CODES: &[Entry] = &[
    code(
        "look",
        "With `duplicates: look`, a search for earlier attempts did not reach the end of the topic. It is repeated; behind 64 MiB, and after five minutes, the elements are sent.",
        "Use more partitions and a `key` if there are more than 64 MiB since the first attempt.",
    ),
    code("client_creation", "The client could not be started.", "Check settings, files and the limit of threads."),
    code(
        "token_file",
        "The OAUTHBEARER token file cannot be read, or its token has expired.",
        "Check path, rights and the program that renews it.",
    ),
    code(
        "token_refused",
        "The provider refused a token for OAUTHBEARER, or answered without one.",
        "Check `token_url`, `client_id`, the secret, `scope` and `audience`.",
    ),
    code(
        "token_unavailable",
        "The provider of OAUTHBEARER tokens did not answer, and the last one has expired.",
        "Check the provider and the way to it.",
    ),
    code("unknown_code", "An unknown code of Kafka.", "Report it with the message."),
    code(
        "GROUP_AUTHORIZATION_FAILED",
        "The user of an input may not be a member of its group.",
        "Allow the user to READ the group.",
    ),
    code(
        "FENCED_INSTANCE_ID",
        "Another process with the same `group_instance_id` has its partitions.",
        "Give each process an id of its own.",
    ),
    code("check", "`check --live` could not start its check.", "Check the limit of threads."),
];

/// Returns the code's name, stable and safe as a metric label.
pub(super) fn name(code: Code) -> &'static str {
    row(code).map_or("unknown_code", |row| row.1)
}

/// Returns advice to the operator about a code.
pub(super) fn advice(code: Code) -> Option<&'static str> {
    row(code).map(|row| row.3).filter(|advice| !advice.is_empty())
}

/// Returns whether the code is about one topic, and others may be well.
pub(super) fn is_about_topic(code: Code) -> bool {
    matches!(row(code), Some(CodeRow(_, _, Topic(_), _)))
}

/// Returns the code of what has happened, where librdkafka gives another one.
pub(super) fn cause(code: Code, text: &str) -> Code {
    match code {
        // A broker that refuses our certificate says so after the handshake, and librdkafka takes it for a disconnect.
        Code::BrokerTransportFailure if text.contains(":SSL routines:") && text.contains(" alert ") => Code::SSL,
        // Only what librdkafka calls a disconnect is one to it: a network that times out in a handshake is trouble with TLS.
        Code::SSL if text.contains("SSL handshake failed: SSL transport error: ") => Code::BrokerTransportFailure,
        // Every end of a connection in the first step of a login is called a refused login.
        Code::Authentication if text.contains(" mechanism handshake failed: Local: ") => Code::BrokerTransportFailure,
        code => code,
    }
}

/// Returns whether the code means that no record can be delivered until a person fixes something.
pub(super) fn needs_a_person(code: Code) -> bool {
    matches!(row(code), Some(CodeRow(_, _, As(TargetPermanent), _)))
}

/// Returns whether a broker refuses a whole batch for it, where only one record may be the reason: each is to be sent
/// alone.
pub(super) fn is_about_batch(code: Code) -> bool {
    matches!(
        code,
        Code::MessageSizeTooLarge
            | Code::MessageBatchTooLarge
            | Code::InvalidRecord
            | Code::InvalidTimestamp
            | Code::InvalidDifferentRecord
            | Code::InvalidMessage
    )
}

/// Returns whether the client gave the record up without an answer from a broker, so that the reason is elsewhere.
pub(super) fn is_without_reason(code: Code) -> bool {
    matches!(row(code), Some(CodeRow(_, _, Local, _)))
}

/// Lists the codes of brokers and of librdkafka, and ours.
pub(crate) fn codes() -> Codes {
    let text = "Codes as brokers and librdkafka (`Local:`) spell them. A record that may be in the log all the same is `ambiguous`, with any code.";
    let list = CODES.iter().cloned().chain(documented()).collect::<Vec<_>>().into();
    Codes { title: "Kafka", text, list }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(error: Code, persistence: Persistence, attempt: u32) -> Result<(), Failure> {
        judge("send to topic t", DeliveryReport { error: Some(error), persistence }, attempt)
    }

    #[track_caller]
    fn check(codes: &[(i32, &str)], class: Class, about: About) {
        for &(number, name) in codes {
            let code = code_of(number);
            let failure = judged(code, Persistence::Not, 1).unwrap_err();
            assert_eq!((failure.class, failure.code), (class, name), "{number}");
            assert_eq!(failure.about, about, "{number}");
            assert!(failure.message.starts_with("send to topic t: "), "{failure}");
        }
    }

    fn code_of(number: i32) -> Code {
        rdkafka::types::RDKafkaRespErr::try_from(number).unwrap().into()
    }

    #[test]
    fn what_passes_by_itself_is_tried_again() {
        let codes = [
            (5, "LEADER_NOT_AVAILABLE"),
            (6, "NOT_LEADER_OR_FOLLOWER"),
            (8, "BROKER_NOT_AVAILABLE"),
            (9, "REPLICA_NOT_AVAILABLE"),
            (19, "NOT_ENOUGH_REPLICAS"),
            (56, "KAFKA_STORAGE_ERROR"),
            (74, "FENCED_LEADER_EPOCH"),
            (75, "UNKNOWN_LEADER_EPOCH"),
            (-138, "INVALID_DIFFERENT_RECORD"),
        ];
        check(&codes, Class::Transient, About::Sink);
    }

    #[test]
    fn what_may_have_been_written_is_ambiguous() {
        let codes = [
            (7, "REQUEST_TIMED_OUT"),
            (13, "NETWORK_EXCEPTION"),
            (20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND"),
            (45, "OUT_OF_ORDER_SEQUENCE_NUMBER"),
            (47, "INVALID_PRODUCER_EPOCH"),
            (59, "UNKNOWN_PRODUCER_ID"),
            (90, "PRODUCER_FENCED"),
            (-144, "FENCED"),
            (-151, "PURGE_INFLIGHT"),
        ];
        check(&codes, Class::Ambiguous, About::Sink);
    }

    #[test]
    fn what_the_client_gave_up_unsent_is_tried_again() {
        let codes = [
            (-195, "TRANSPORT"),
            (-192, "MSG_TIMED_OUT"),
            (-166, "TIMED_OUT_QUEUE"),
            (-185, "TIMED_OUT"),
            (-187, "all_brokers_down"),
            (-193, "RESOLVE"),
            (-197, "DESTROY"),
            (-152, "PURGE_QUEUE"),
            (-150, "FATAL"),
            (-148, "GAPLESS_GUARANTEE"),
        ];
        check(&codes, Class::Transient, About::Sink);
    }

    #[test]
    fn no_refusal_of_what_may_have_been_written_before_is_anything_but_ambiguous() {
        for CodeRow(code, name, treatment, _) in TABLE.iter().filter(|row| row.2 != Confirmed) {
            for persistence in [Persistence::Possibly, Persistence::Persisted] {
                // The last of the tries of a corrupt record too.
                let failure = judged(*code, persistence, CORRUPT_TRIES).unwrap_err();
                assert_eq!((failure.class, failure.code), (Class::Ambiguous, *name), "{code:?}");
                assert_eq!(failure.about == About::Target, matches!(treatment, Topic(_) | Fault(_)), "{code:?}");
            }
        }
    }

    #[test]
    fn fullness_is_backpressure() {
        check(&[(-184, "queue_full"), (89, "THROTTLING_QUOTA_EXCEEDED")], Class::Backpressure, About::Sink);
    }

    #[test]
    fn what_a_broker_cannot_explain_is_tried_a_few_times() {
        check(&[(44, "POLICY_VIOLATION"), (-1, "UNKNOWN_SERVER_ERROR")], Class::Unknown, About::Sink);
    }

    #[test]
    fn what_no_broker_will_ever_take_is_a_dead_letter() {
        let codes = [(10, "MESSAGE_TOO_LARGE"), (18, "RECORD_LIST_TOO_LARGE"), (87, "INVALID_RECORD")];
        check(&codes, Class::MessagePermanent, About::Sink);
    }

    #[test]
    fn what_is_the_fault_of_the_host_or_of_the_topic_s_settings_holds() {
        check(&[(32, "INVALID_TIMESTAMP")], Class::TargetPermanent, About::Target);
        assert!(!is_about_topic(Code::InvalidTimestamp), "the topic is there, and need not be asked for");
        let refused = without_key(judged(Code::InvalidRecord, Persistence::Not, 1).unwrap_err());
        assert_eq!((refused.class, refused.about), (Class::TargetPermanent, About::Target));
        let ambiguous = without_key(judged(Code::InvalidRecord, Persistence::Possibly, 1).unwrap_err());
        assert_eq!(ambiguous.class, Class::Ambiguous);
        let large = without_key(judged(Code::MessageSizeTooLarge, Persistence::Not, 1).unwrap_err());
        assert_eq!(large.class, Class::MessagePermanent);
    }

    #[test]
    fn a_corrupt_record_is_a_dead_letter_after_three_tries() {
        for (attempt, class) in [(1, Class::Transient), (2, Class::Transient), (3, Class::MessagePermanent)] {
            let failure = judged(Code::InvalidMessage, Persistence::Not, attempt).unwrap_err();
            assert_eq!((failure.class, failure.code), (class, "CORRUPT_MESSAGE"), "attempt {attempt}");
        }
    }

    #[test]
    fn a_problem_that_a_person_must_fix_holds() {
        let about_a_topic = [
            (3, "UNKNOWN_TOPIC_OR_PARTITION"),
            (-188, "UNKNOWN_TOPIC_OR_PARTITION"),
            (-190, "UNKNOWN_TOPIC_OR_PARTITION"),
            (100, "UNKNOWN_TOPIC_ID"),
            (17, "INVALID_TOPIC_EXCEPTION"),
            (29, "TOPIC_AUTHORIZATION_FAILED"),
        ];
        check(&about_a_topic, Class::TargetPermanent, About::Target);
        let about_all = [
            (31, "CLUSTER_AUTHORIZATION_FAILED"),
            (58, "SASL_AUTHENTICATION_FAILED"),
            (-169, "SASL_AUTHENTICATION_FAILED"),
            (33, "UNSUPPORTED_SASL_MECHANISM"),
            (34, "ILLEGAL_SASL_STATE"),
            (-181, "SSL"),
            (21, "INVALID_REQUIRED_ACKS"),
            (35, "UNSUPPORTED_VERSION"),
            (-165, "UNSUPPORTED_FEATURE"),
            (43, "UNSUPPORTED_FOR_MESSAGE_FORMAT"),
            (76, "UNSUPPORTED_COMPRESSION_TYPE"),
        ];
        check(&about_all, Class::TargetPermanent, About::Sink);
        for (number, _) in about_all {
            assert!(needs_a_person(code_of(number)));
        }
    }

    #[test]
    fn what_the_broker_has_already_is_confirmed() {
        for persistence in [Persistence::Not, Persistence::Possibly, Persistence::Persisted] {
            assert_eq!(judged(Code::DuplicateSequenceNumber, persistence, 1), Ok(()));
        }
        assert_eq!(judge("send", DeliveryReport { error: None, persistence: Persistence::Persisted }, 1), Ok(()));
        assert_eq!(failure("ask", Code::DuplicateSequenceNumber).class, Class::Unknown);
    }

    #[test]
    fn a_code_without_a_row_is_unknown_and_never_a_success() {
        for number in [1, 22, 50, 88, 129, -196, -186] {
            for (persistence, class) in [
                (Persistence::Not, Class::Unknown),
                (Persistence::Possibly, Class::Ambiguous),
                (Persistence::Persisted, Class::Ambiguous),
            ] {
                let failure = judged(code_of(number), persistence, 1).unwrap_err();
                assert_eq!((failure.class, failure.code), (class, "unknown_code"), "{number}");
                assert!(failure.message.contains(&format!("code {number} ")), "{failure}");
            }
        }
    }

    #[test]
    fn each_code_has_one_row_and_each_row_a_test() {
        for (n, row) in TABLE.iter().enumerate() {
            assert!(TABLE[..n].iter().all(|other| other.0 != row.0), "{:?} is there twice", row.0);
        }
        assert_eq!(TABLE.len(), 55, "add the new row to the tests above");
    }
}
