//! The class of every failure of NATS; one row a code, each tested.
//!
//! A code without a row is `Unknown`: retried, counted, never a success. The texts are the server's own and name streams and
//! subjects, never a payload.

use bytes::Bytes;

use super::codes;
use delaybridge_core::json::Json;
use delaybridge_core::message::{About, Class, Failure};

/// Members of an answer that are looked at, at most.
const MEMBERS: usize = 256;

/// The answer of a stream to a publication.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PubAck {
    /// The stream has the message.
    Stored {
        /// The stream had it before.
        duplicate: bool,
    },
    /// The stream refused it: the code of the error, and its text.
    Refused(u64, String),
    /// The answer says neither.
    Unclear,
}

impl PubAck {
    /// Reads the body of an answer.
    pub(super) fn read(body: Bytes) -> PubAck {
        let Some(members) = members(body) else { return PubAck::Unclear };
        if let Some((code, text)) = error_in(&members) {
            return PubAck::Refused(code, text);
        }
        let stream = member(&members, "stream").and_then(Json::text);
        let number = member(&members, "seq").and_then(Json::number);
        match (stream, number) {
            (Some(stream), Some(1..)) if !stream.is_empty() => {
                let duplicate = member(&members, "duplicate").and_then(Json::flag).unwrap_or(false);
                PubAck::Stored { duplicate }
            }
            _ => PubAck::Unclear,
        }
    }
}

/// Returns the members of an answer that is an object.
pub(super) fn members(body: Bytes) -> Option<Vec<(String, Json)>> {
    Json::read(body).ok()?.members(MEMBERS).ok()
}

pub(super) fn member<'a>(members: &'a [(String, Json)], name: &str) -> Option<&'a Json> {
    members.iter().find(|(other, _)| other == name).map(|(_, value)| value)
}

/// Returns the error in an answer of JetStream: its number, and its text.
pub(super) fn error_in(members: &[(String, Json)]) -> Option<(u64, String)> {
    let error = member(members, "error")?.members(MEMBERS).unwrap_or_default();
    let number = member(&error, "err_code").or_else(|| member(&error, "code")).and_then(Json::number).unwrap_or(0);
    let text = member(&error, "description").and_then(Json::text).unwrap_or_default();
    Some((number, String::from_utf8_lossy(&text).into_owned()))
}

/// Classifies the error of a stream, or of JetStream.
pub(super) fn refused(attempt: &str, number: u64, text: &str) -> Failure {
    let full = text.contains("maximum") && text.contains("exceeded");
    let row = match number {
        10077 if full => codes::STREAM_FULL,
        10077 => codes::STORE_FAILED,
        10054 => codes::TOO_LARGE,
        10097 => codes::HEADERS_TOO_LARGE,
        10109 => codes::SEALED,
        10039 | 10076 | 10035 => codes::JETSTREAM_OFF,
        10023 | 10028 | 10047 | 10002 | 10120 | 10167 => codes::NO_RESOURCES,
        10008 | 10009 | 10118 => codes::UNAVAILABLE,
        10158 => codes::IN_PROCESS,
        10059 => codes::NO_STREAM,
        _ => codes::ERROR,
    };
    let failure = row.with_cure(format_args!("{attempt}: JetStream answered {number}: {text}"));
    if row == codes::JETSTREAM_OFF { failure } else { failure.about(About::Target) }
}

/// Builds the failure of an answer without a word of success or failure, or of a message that is none.
pub(super) fn unclear(attempt: &str) -> Failure {
    let text = format!("{attempt}: the answer confirms nothing: another program answers on this subject");
    codes::ERROR.failure(text).about(About::Target)
}

pub(super) fn no_stream(attempt: &str) -> Failure {
    codes::NO_STREAM.with_cure(format_args!("{attempt}: no stream takes the subject")).about(About::Target)
}

/// Builds the failure of a subject that a stream takes, while no server answers for it.
pub(super) fn no_leader(attempt: &str, stream: &str) -> Failure {
    let text = format!("{attempt}: stream {stream} has no leader now: look at its servers if this lasts");
    codes::NO_LEADER.failure(text).about(About::Target)
}

/// Builds the failure of a subject without responders, while it is not known whether there is a stream.
pub(super) fn no_answer_about(attempt: &str) -> Failure {
    let text = format!("{attempt}: no stream answers, and JetStream does not say whether there is one");
    codes::NO_LEADER.failure(text).about(About::Target)
}

/// Builds the failure of a message for which the server refuses the right to publish.
pub(super) fn denied(attempt: &str) -> Failure {
    let text = format!("{attempt}: the server refused it: give the user the right to publish to the subject");
    codes::DENIED.failure(text).about(About::Target)
}

/// Builds the failure of a message that is larger than the server takes.
pub(super) fn too_large(attempt: &str, bytes: usize, max: usize) -> Failure {
    let text = format!("{attempt}: {bytes} bytes with headers, the server takes {max}: raise its `max_payload`");
    codes::TOO_LARGE.failure(text)
}

pub(super) fn bad_header(attempt: &str) -> Failure {
    let text = format!("{attempt}: a header's value has a line break: correct its template");
    codes::BAD_HEADER.failure(text)
}

/// Builds the failure of a message without a confirmation in time, while the server answers others.
pub(super) fn late(attempt: &str, timeout: std::time::Duration) -> Failure {
    let text = format!("{attempt}: no confirmation within {timeout:?}: the stream may lack a quorum, or have `no_ack`");
    Failure::new(Class::Ambiguous, "timeout", text).about(About::Target)
}

/// Builds the failure of a question of the sink itself that got no answer.
pub(super) fn silent(timeout: std::time::Duration) -> Failure {
    codes::SILENT.failure(format!("ask NATS: no answer within {timeout:?}"))
}

/// Builds the failure of JetStream without responders.
pub(super) fn jetstream_off(attempt: &str) -> Failure {
    codes::JETSTREAM_OFF.with_cure(format_args!("{attempt}: JetStream does not answer"))
}

/// Builds the failure of a connection that ended before the answer.
pub(super) fn lost(attempt: &str, why: &str) -> Failure {
    Failure::new(Class::Ambiguous, "connection_lost", format!("{attempt}: no confirmation: {why}"))
}

/// Classifies a word of refusal while a connection is made.
pub(super) fn at_connect(address: &str, words: &str) -> Failure {
    let lower = words.to_ascii_lowercase();
    let has = |part: &str| lower.contains(part);
    let said = format!("connect to NATS {address}: the server answered `{words}`");
    match () {
        () if has("permissions violation") => {
            codes::DENIED.failure(format!("{said}: give the user the right to subscribe below `inbox_prefix`"))
        }
        () if has("authorization violation") || has("authentication expired") || has("revoked") => {
            codes::AUTH.failure(format!("{said}: check the login (its files are read at every connect)"))
        }
        () if has("secure connection") => {
            let text = format!("{said}: the server asks for TLS: write `tls: {{}}`");
            Failure::new(Class::TargetPermanent, "tls", text)
        }
        () if has("maximum") => codes::REFUSED.failure(format!("{said}: raise the limit of connections")),
        () => codes::REFUSED.failure(format!("{said}: see the log of the server")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_has_its_class() {
        let full = "maximum messages exceeded";
        let rows = [
            (10077, full, Class::Backpressure, "nats_stream_full"),
            (10077, "maximum bytes exceeded", Class::Backpressure, "nats_stream_full"),
            (10077, "maximum messages per subject exceeded", Class::Backpressure, "nats_stream_full"),
            (10077, "write /data: no space left", Class::Transient, "nats_store_failed"),
            (10054, "message size exceeds maximum allowed", Class::MessagePermanent, "nats_too_large"),
            (10097, "", Class::MessagePermanent, "nats_headers_too_large"),
            (10109, "", Class::TargetPermanent, "nats_sealed"),
            (10039, "", Class::TargetPermanent, "nats_jetstream_off"),
            (10076, "", Class::TargetPermanent, "nats_jetstream_off"),
            (10035, "", Class::TargetPermanent, "nats_jetstream_off"),
            (10023, "", Class::Backpressure, "nats_no_resources"),
            (10028, "", Class::Backpressure, "nats_no_resources"),
            (10047, "", Class::Backpressure, "nats_no_resources"),
            (10002, "", Class::Backpressure, "nats_no_resources"),
            (10120, "", Class::Backpressure, "nats_no_resources"),
            (10167, "", Class::Backpressure, "nats_no_resources"),
            (10008, "", Class::Transient, "nats_unavailable"),
            (10009, "", Class::Transient, "nats_unavailable"),
            (10118, "", Class::Transient, "nats_unavailable"),
            (10158, "", Class::Transient, "nats_in_process"),
            (10059, "", Class::TargetPermanent, "nats_no_stream"),
            (10071, "wrong last sequence: 7", Class::Unknown, "nats_error"),
            (0, "", Class::Unknown, "nats_error"),
        ];
        for (number, text, class, code) in rows {
            let failure = refused("publish to subject s", number, text);
            assert_eq!((failure.class, failure.code), (class, code), "{number} {text}");
        }
    }

    #[test]
    fn only_a_stream_and_a_number_confirm() {
        let read = |text: &'static str| PubAck::read(text.into());
        assert_eq!(read(r#"{"stream":"S", "seq":7}"#), PubAck::Stored { duplicate: false });
        assert_eq!(read(r#"{"stream":"S","domain":"d","seq":7,"duplicate":true}"#), PubAck::Stored { duplicate: true });
        let error = r#"{"error":{"code":400,"err_code":10054,"description":"too \"large\""},"stream":"S","seq":0}"#;
        assert_eq!(read(error), PubAck::Refused(10054, "too \"large\"".to_owned()));
        assert_eq!(read(r#"{"error":{"code":503}}"#), PubAck::Refused(503, String::new()));
        assert_eq!(read(r#"{"error":"x"}"#), PubAck::Refused(0, String::new()));
        for text in ["", "+OK", "{}", r#"{"stream":"S"}"#, r#"{"stream":"S","seq":0}"#, r#"{"stream":"","seq":1}"#] {
            assert_eq!(read(text), PubAck::Unclear, "{text}");
        }
    }

    #[test]
    fn a_refused_login_waits_for_a_person() {
        let rows = [
            ("Authorization Violation", Class::TargetPermanent, "nats_auth"),
            ("User Authentication Expired", Class::TargetPermanent, "nats_auth"),
            ("Secure Connection - TLS Required", Class::TargetPermanent, "tls"),
            ("Permissions Violation for Subscription to \"_INBOX.x.*\"", Class::TargetPermanent, "nats_denied"),
            ("Authentication Timeout", Class::Transient, "nats_refused"),
            ("maximum connections exceeded", Class::Transient, "nats_refused"),
        ];
        for (words, class, code) in rows {
            let failure = at_connect("h:4222", words);
            assert_eq!((failure.class, failure.code), (class, code), "{words}");
        }
    }
}
