//! What the refusals of a cluster mean for a consumer. Pure.

use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode as Code;

use crate::errors;
use delaybridge_core::message::{Class, Failure};

/// Another member has the id of this static one.
pub(super) const FENCED: &str = "FENCED_INSTANCE_ID";

/// Builds the failure of a consumer, or of a question that it has asked.
pub(super) fn failure(what: &str, error: &KafkaError) -> Failure {
    match error.rdkafka_error_code() {
        Some(code) => of_code(what, code),
        None => Failure::new(Class::TargetPermanent, "settings", format!("{what}: {error}")),
    }
}

/// Builds the failure that a code means for a consumer: its rights are others than those of a producer.
pub(super) fn of_code(what: &str, code: Code) -> Failure {
    let text = |advice: &str| format!("{what}: {code}: {advice}");
    match code {
        Code::TopicAuthorizationFailed => {
            let text = text("allow the user to READ the topic");
            Failure::new(Class::TargetPermanent, "TOPIC_AUTHORIZATION_FAILED", text)
        }
        Code::GroupAuthorizationFailed => {
            let text = text("allow the user to READ the group");
            Failure::new(Class::TargetPermanent, "GROUP_AUTHORIZATION_FAILED", text)
        }
        Code::FencedInstanceId => {
            let text = text("another process has the same `group_instance_id`: give each its own");
            Failure::new(Class::TargetPermanent, FENCED, text)
        }
        other => errors::failure(what, other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_right_that_is_missing_is_named_as_a_consumer_needs_it() {
        fn check(code: Code, name: &str, words: &str) {
            let failure = failure("consume topics t", &KafkaError::MessageConsumption(code));
            assert_eq!((failure.class, failure.code), (Class::TargetPermanent, name));
            assert!(failure.message.ends_with(words) && failure.message.starts_with("consume topics t: "), "{failure}");
        }
        check(Code::TopicAuthorizationFailed, "TOPIC_AUTHORIZATION_FAILED", ": allow the user to READ the topic");
        check(Code::GroupAuthorizationFailed, "GROUP_AUTHORIZATION_FAILED", ": allow the user to READ the group");
        check(Code::FencedInstanceId, "FENCED_INSTANCE_ID", "the same `group_instance_id`: give each its own");
        check(Code::UnknownTopic, "UNKNOWN_TOPIC_OR_PARTITION", "correct its name in the configuration");
    }
}
