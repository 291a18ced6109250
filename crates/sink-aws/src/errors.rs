//! The class of every failure of SQS and SNS; one row a code, each tested.
//!
//! A code without a row is the message's fault where the service says so of one message, else it is `Unknown`: retried, counted, never
//! a success. A text of the service is quoted only where it names a queue or a right: others may repeat what was sent.

use std::time::Duration;

use super::wire::answer::ServiceError;
use delaybridge_core::message::{About, Class, Failure};
use delaybridge_http_client::ExchangeError;

/// The meaning of a refusal: the class, our code, the part that it concerns, and what to do.
type Row = (Class, &'static str, About, &'static str);

/// The advice for a message that does not fit.
const LIMITS: &str = "see the limits of the queue or topic";

/// Returns the row of a code, in the spellings of both services and of their older protocols.
fn row(code: &str) -> Option<Row> {
    const WAIT: &str = "delivery slows down; raise the quota if it lasts";
    const KMS: &str = "look at the key that encrypts the queue or topic";
    let code = code.strip_prefix("AWS.SimpleQueueService.").unwrap_or(code);
    let code = code.strip_suffix("Exception").unwrap_or(code);
    Some(match code {
        "Throttling"
        | "Throttled"
        | "RequestThrottled"
        | "TooManyRequests"
        | "RequestLimitExceeded"
        | "SlowDown"
        | "ThrottlingRequest"
        | "OverLimit" => (Class::Backpressure, "aws_throttled", About::Sink, WAIT),
        "KmsThrottled" | "KMSThrottling" => (Class::Backpressure, "aws_throttled", About::Target, WAIT),
        "QueueDoesNotExist"
        | "NonExistentQueue"
        | "QueueDeletedRecently"
        | "NotFound"
        | "ResourceNotFound"
        | "InvalidAddress" => {
            (Class::TargetPermanent, "aws_no_target", About::Target, "create it, or correct its name and `region`")
        }
        "AccessDenied" | "AuthorizationError" | "NotAuthorized" | "KmsAccessDenied" | "KMSAccessDenied" => {
            let advice =
                "give the role the right `sqs:SendMessage` or `sns:Publish`, and that to use the key of the queue";
            (Class::TargetPermanent, "aws_denied", About::Target, advice)
        }
        "KmsDisabled" | "KmsInvalidState" | "KmsNotFound" | "KmsOptInRequired" | "KmsInvalidKeyUsage"
        | "KMSDisabled" | "KMSInvalidState" | "KMSNotFound" | "KMSOptInRequired" => {
            (Class::TargetPermanent, "aws_kms", About::Target, KMS)
        }
        "ExpiredToken"
        | "RequestExpired"
        | "InvalidClientTokenId"
        | "UnrecognizedClient"
        | "InvalidAccessKeyId"
        | "MissingAuthenticationToken"
        | "InvalidSecurity"
        | "SignatureDoesNotMatch"
        | "InvalidSignature"
        | "IncompleteSignature"
        | "OptInRequired"
        | "AuthFailure"
        | "RequestTimeTooSkewed" => {
            let advice = "check the credentials, `region`, and the clock of this host";
            (Class::TargetPermanent, "credentials_refused", About::Sink, advice)
        }
        "BatchRequestTooLong" | "MessageTooLong" | "RequestEntityTooLarge" => {
            (Class::MessagePermanent, "aws_too_large", About::Sink, "keep payloads smaller")
        }
        "InvalidMessageContents"
        | "InvalidParameterValue"
        | "InvalidParameter"
        | "MissingParameter"
        | "InvalidAttributeValue"
        | "InvalidAttributeName"
        | "ParameterValueInvalid"
        | "Validation"
        | "ValidationError" => (Class::MessagePermanent, "aws_refused", About::Sink, LIMITS),
        "InternalFailure" | "InternalError" | "ServiceFailure" | "InternalServerError" | "ServiceUnavailable" => {
            (Class::Transient, "aws_internal", About::Sink, "it is tried again")
        }
        _ => return None,
    })
}

/// Returns whether the credentials were not accepted: others may be.
pub(super) fn is_of_credentials(error: &ServiceError) -> bool {
    row(&error.code).is_some_and(|(_, code, ..)| code == "credentials_refused")
}

/// Returns whether the refusal of a request with several messages is one of them alone.
pub(super) fn is_of_one(error: &ServiceError) -> bool {
    row(&error.code).is_some_and(|(class, ..)| class == Class::MessagePermanent) && !names_the_target(error)
}

/// Returns whether the parameter that is wrong is the queue or the topic, and not a message.
fn names_the_target(error: &ServiceError) -> bool {
    ["TopicArn", "QueueUrl"].iter().any(|name| error.text.contains(name))
}

/// Classifies what the service says of one message.
pub(super) fn of_entry(attempt: &str, error: &ServiceError) -> Failure {
    let found = row(&error.code).unwrap_or(if error.is_senders {
        (Class::MessagePermanent, "aws_refused", About::Sink, LIMITS)
    } else {
        (Class::Unknown, "aws_error", About::Target, "it is tried again")
    });
    failure(attempt, &error.code, error, found)
}

/// Classifies the refusal of a whole request, of which one message is left.
pub(super) fn of_request(attempt: &str, status: u16, error: &ServiceError) -> Failure {
    let answer = match error.code.as_str() {
        "" => status.to_string(),
        code => format!("{status}, {code}"),
    };
    let found = row(&error.code).unwrap_or(match status {
        429 => (Class::Backpressure, "aws_throttled", About::Sink, "delivery slows down"),
        // A server that was too slow answers so for a request that it goes on with.
        503 => (Class::Transient, "aws_internal", About::Sink, "it is tried again"),
        401 | 403 => (Class::TargetPermanent, "aws_denied", About::Target, "check the rights of the role"),
        300..=399 | 404 | 405 => {
            (Class::TargetPermanent, "aws_no_target", About::Sink, "check `endpoint`: no API of AWS answers there")
        }
        413 => (Class::MessagePermanent, "aws_too_large", About::Sink, "keep payloads smaller"),
        _ => (Class::Unknown, "aws_error", About::Sink, "it is tried again"),
    });
    let found = match found {
        (Class::MessagePermanent, "aws_refused", ..) if names_the_target(error) => {
            (Class::TargetPermanent, "aws_no_target", About::Target, "correct `queue_url` or `topic_arn`, and `region`")
        }
        // A service that fails may have taken what it was sent.
        (Class::Transient | Class::Unknown, code, about, advice) if status >= 500 => {
            (Class::Ambiguous, code, about, advice)
        }
        found => found,
    };
    failure(attempt, &answer, error, found)
}

fn failure(attempt: &str, answer: &str, error: &ServiceError, (class, code, about, advice): Row) -> Failure {
    let is_word = answer.len() <= 80 && answer.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    let answer = if is_word { answer } else { "something that is no code" };
    let quoted = match code {
        "aws_no_target" | "aws_denied" | "aws_kms" if !error.text.is_empty() => format!(" ({})", error.text),
        _ => String::new(),
    };
    Failure::new(class, code, format!("{attempt}: the service answered {answer}{quoted}: {advice}")).about(about)
}

/// Builds the failure of an answer that says nothing about a message.
pub(super) fn unclear(attempt: &str) -> Failure {
    Failure::new(Class::Unknown, "aws_error", format!("{attempt}: the answer says nothing about the message"))
}

/// Builds the failure without a connection, so that nothing was sent.
pub(super) fn not_connected(origin: &str, error: &ExchangeError) -> Failure {
    match error {
        ExchangeError::NotConnected(error) if error.needs_a_person() => {
            error.failure(format_args!("connect to {origin}"))
        }
        other => Failure::new(Class::Transient, Failure::NOT_CONNECTED, format!("connect to {origin}: {other}")),
    }
}

/// Builds the failure while connections end before anything is sent on them.
pub(super) fn ended_at_once(origin: &str) -> Failure {
    let text = format!("connect to {origin}: the server closes each connection at once");
    Failure::new(Class::Transient, Failure::NOT_CONNECTED, text)
}

/// Builds the failure of a connection that was not made in time.
pub(super) fn connect_timeout(origin: &str, limit: Duration) -> Failure {
    let text = format!("connect to {origin}: not connected within {limit:?}: check that it can be reached from here");
    Failure::new(Class::Transient, Failure::NOT_CONNECTED, text)
}

/// Builds the failure of a request that was sent, and whose answer is not known.
pub(super) fn in_doubt(attempt: &str, error: &ExchangeError) -> Failure {
    let code = if matches!(error, ExchangeError::TimedOut(_)) { "timeout" } else { "connection_lost" };
    Failure::new(Class::Ambiguous, code, format!("{attempt}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use delaybridge_dial::{DialError, Phase};

    fn error(code: &str, is_senders: bool) -> ServiceError {
        ServiceError { code: code.to_owned(), text: "geheim".to_owned(), is_senders }
    }

    #[test]
    fn every_code_of_a_message_has_its_class() {
        let rows = [
            ("ThrottlingException", Class::Backpressure, "aws_throttled"),
            ("RequestThrottled", Class::Backpressure, "aws_throttled"),
            ("KmsThrottled", Class::Backpressure, "aws_throttled"),
            ("ServiceUnavailable", Class::Transient, "aws_internal"),
            ("AWS.SimpleQueueService.NonExistentQueue", Class::TargetPermanent, "aws_no_target"),
            ("QueueDoesNotExist", Class::TargetPermanent, "aws_no_target"),
            ("NotFound", Class::TargetPermanent, "aws_no_target"),
            ("AccessDeniedException", Class::TargetPermanent, "aws_denied"),
            ("AuthorizationError", Class::TargetPermanent, "aws_denied"),
            ("KMSAccessDenied", Class::TargetPermanent, "aws_denied"),
            ("KmsDisabled", Class::TargetPermanent, "aws_kms"),
            ("ExpiredTokenException", Class::TargetPermanent, "credentials_refused"),
            ("InvalidClientTokenId", Class::TargetPermanent, "credentials_refused"),
            ("SignatureDoesNotMatch", Class::TargetPermanent, "credentials_refused"),
            ("MissingAuthenticationTokenException", Class::TargetPermanent, "credentials_refused"),
            ("BatchRequestTooLong", Class::MessagePermanent, "aws_too_large"),
            ("InvalidMessageContents", Class::MessagePermanent, "aws_refused"),
            ("InvalidParameterValue", Class::MessagePermanent, "aws_refused"),
            ("InternalError", Class::Transient, "aws_internal"),
        ];
        for (code, class, own) in rows {
            for is_senders in [true, false] {
                let failure = of_entry("send", &error(code, is_senders));
                assert_eq!((failure.class, failure.code), (class, own), "{code}");
            }
        }
        let unheard = of_entry("send", &error("Unheard", true));
        assert_eq!((unheard.class, unheard.code), (Class::MessagePermanent, "aws_refused"));
        assert_eq!(of_entry("send", &error("Unheard", false)).class, Class::Unknown);
    }

    #[test]
    fn a_request_without_a_known_code_has_the_class_of_its_status() {
        let rows = [
            (429, Class::Backpressure, "aws_throttled"),
            (503, Class::Ambiguous, "aws_internal"),
            (403, Class::TargetPermanent, "aws_denied"),
            (404, Class::TargetPermanent, "aws_no_target"),
            (301, Class::TargetPermanent, "aws_no_target"),
            (413, Class::MessagePermanent, "aws_too_large"),
            (400, Class::Unknown, "aws_error"),
            (500, Class::Ambiguous, "aws_error"),
            (502, Class::Ambiguous, "aws_error"),
            (504, Class::Ambiguous, "aws_error"),
        ];
        for (status, class, code) in rows {
            let failure = of_request("send", status, &error("", false));
            assert_eq!((failure.class, failure.code), (class, code), "{status}");
        }
        for (status, code) in [(500, "InternalFailure"), (503, "ServiceUnavailable")] {
            let internal = of_request("send", status, &error(code, false));
            assert_eq!((internal.class, internal.code), (Class::Ambiguous, "aws_internal"), "{code}");
        }
        assert_eq!(of_request("send", 503, &error("SlowDown", false)).class, Class::Backpressure);
        let topic = ServiceError { text: "Invalid parameter: TopicArn".to_owned(), ..error("InvalidParameter", true) };
        let wrong = of_request("send", 400, &topic);
        assert_eq!((wrong.class, wrong.code), (Class::TargetPermanent, "aws_no_target"), "not the message's fault");
        assert!(!is_of_one(&topic) && is_of_one(&error("InvalidParameter", true)));
        let throttled = of_request("send", 400, &error("ThrottlingException", true));
        assert_eq!(throttled.class, Class::Backpressure);
    }

    #[test]
    fn a_text_is_quoted_only_where_it_names_a_queue_or_a_right() {
        assert!(of_entry("send", &error("AccessDenied", true)).message.contains("(geheim)"));
        for code in ["InvalidMessageContents", "SignatureDoesNotMatch", "Unheard", "InternalError"] {
            let failure = of_entry("send", &error(code, true));
            assert!(!failure.message.contains("geheim") && failure.message.contains(code), "{failure}");
        }
        assert!(!of_entry("send", &error(&"x".repeat(99), true)).message.contains("xxx"));
    }

    #[test]
    fn what_may_be_stored_is_ambiguous() {
        let timed_out = in_doubt("send", &ExchangeError::TimedOut(Duration::from_secs(1)));
        assert_eq!((timed_out.class, timed_out.code), (Class::Ambiguous, "timeout"));
        let broken = in_doubt("send", &ExchangeError::Broken("x".to_owned()));
        assert_eq!((broken.class, broken.code), (Class::Ambiguous, "connection_lost"));
        assert!(not_connected("o", &ExchangeError::Broken("x".to_owned())).is_unsent());
        let tls = ExchangeError::NotConnected(DialError::permanent(Phase::Tls, "x"));
        assert_eq!((not_connected("o", &tls).class, not_connected("o", &tls).code), (Class::TargetPermanent, "tls"));
    }
}
