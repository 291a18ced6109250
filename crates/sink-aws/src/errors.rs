//! The class of every failure of SQS and SNS; one row a code, each tested.
//!
//! A code without a row is the message's fault where the service says so of one message, else it is `Unknown`: retried, counted, never
//! a success. A text of the service is quoted only where it names a queue or a right: others may repeat what was sent.

use std::time::Duration;

use super::codes;
use super::wire::answer::ServiceError;
use delaybridge_core::message::{About, Class, Failure};
use delaybridge_http_client::ExchangeError;
use delaybridge_sink::ErrorRow;

/// Credentials that the service does not accept; the code is one of several kinds of sinks.
const CREDENTIALS_REFUSED: ErrorRow = ErrorRow {
    class: Class::TargetPermanent,
    code: "credentials_refused",
    cure: "Check the credentials, `region`, and the clock of this host.",
};

/// The meaning of a refusal: its row, and the part that it concerns.
type Meaning = (ErrorRow, About);

/// Returns the row of a code, in the spellings of both services and of their older protocols.
fn meaning(code: &str) -> Option<Meaning> {
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
        | "OverLimit" => (codes::THROTTLED, About::Sink),
        "KmsThrottled" | "KMSThrottling" => (codes::THROTTLED, About::Target),
        "QueueDoesNotExist"
        | "NonExistentQueue"
        | "QueueDeletedRecently"
        | "NotFound"
        | "ResourceNotFound"
        | "InvalidAddress" => (codes::NO_TARGET, About::Target),
        "AccessDenied" | "AuthorizationError" | "NotAuthorized" | "KmsAccessDenied" | "KMSAccessDenied" => {
            (codes::DENIED, About::Target)
        }
        "KmsDisabled" | "KmsInvalidState" | "KmsNotFound" | "KmsOptInRequired" | "KmsInvalidKeyUsage"
        | "KMSDisabled" | "KMSInvalidState" | "KMSNotFound" | "KMSOptInRequired" => (codes::KMS, About::Target),
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
        | "RequestTimeTooSkewed" => (CREDENTIALS_REFUSED, About::Sink),
        "BatchRequestTooLong" | "MessageTooLong" | "RequestEntityTooLarge" => (codes::TOO_LARGE, About::Sink),
        "InvalidMessageContents"
        | "InvalidParameterValue"
        | "InvalidParameter"
        | "MissingParameter"
        | "InvalidAttributeValue"
        | "InvalidAttributeName"
        | "ParameterValueInvalid"
        | "Validation"
        | "ValidationError" => (codes::REFUSED, About::Sink),
        "InternalFailure" | "InternalError" | "ServiceFailure" | "InternalServerError" | "ServiceUnavailable" => {
            (codes::INTERNAL, About::Sink)
        }
        _ => return None,
    })
}

/// Returns whether the credentials were not accepted: others may be.
pub(super) fn is_of_credentials(error: &ServiceError) -> bool {
    meaning(&error.code).is_some_and(|(row, _)| row == CREDENTIALS_REFUSED)
}

/// Returns whether the refusal of a request with several messages is one of them alone.
pub(super) fn is_of_one(error: &ServiceError) -> bool {
    meaning(&error.code).is_some_and(|(row, _)| row.class == Class::MessagePermanent) && !names_the_target(error)
}

/// Returns whether the parameter that is wrong is the queue or the topic, and not a message.
fn names_the_target(error: &ServiceError) -> bool {
    ["TopicArn", "QueueUrl"].iter().any(|name| error.text.contains(name))
}

/// Classifies what the service says of one message.
pub(super) fn of_entry(attempt: &str, error: &ServiceError) -> Failure {
    let unheard = if error.is_senders { (codes::REFUSED, About::Sink) } else { (codes::ERROR, About::Target) };
    let found = meaning(&error.code).unwrap_or(unheard);
    failure(attempt, &error.code, error, found)
}

/// Classifies the refusal of a whole request, of which one message is left.
pub(super) fn of_request(attempt: &str, status: u16, error: &ServiceError) -> Failure {
    let answer = match error.code.as_str() {
        "" => status.to_string(),
        code => format!("{status}, {code}"),
    };
    let found = meaning(&error.code).unwrap_or(match status {
        429 => (codes::THROTTLED, About::Sink),
        // A server that was too slow answers so for a request that it goes on with.
        503 => (codes::INTERNAL, About::Sink),
        401 | 403 => (codes::DENIED, About::Target),
        300..=399 | 404 | 405 => (codes::NO_TARGET, About::Sink),
        413 => (codes::TOO_LARGE, About::Sink),
        _ => (codes::ERROR, About::Sink),
    });
    let found = match found {
        (codes::REFUSED, _) if names_the_target(error) => (codes::NO_TARGET, About::Target),
        // A service that fails may have taken what it was sent.
        (row, about) if status >= 500 && matches!(row.class, Class::Transient | Class::Unknown) => {
            (row.of_class(Class::Ambiguous), about)
        }
        found => found,
    };
    failure(attempt, &answer, error, found)
}

fn failure(attempt: &str, answer: &str, error: &ServiceError, (row, about): Meaning) -> Failure {
    let is_word = answer.len() <= 80 && answer.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    let answer = if is_word { answer } else { "something that is no code" };
    let quoted = match row {
        codes::NO_TARGET | codes::DENIED | codes::KMS if !error.text.is_empty() => format!(" ({})", error.text),
        _ => String::new(),
    };
    row.with_cure(format_args!("{attempt}: the service answered {answer}{quoted}")).about(about)
}

/// Builds the failure of an answer that says nothing about a message.
pub(super) fn unclear(attempt: &str) -> Failure {
    codes::ERROR.failure(format!("{attempt}: the answer says nothing about the message"))
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
