//! The class of every failure of AMQP 1.0: one table of conditions, each row tested.
//!
//! A condition without a row is `Unknown`: retried, counted, never a success. The descriptions are the broker's own and name
//! addresses and limits; they are cut, and never hold a payload of ours.

use std::time::Duration;

use super::codes;
use delaybridge_core::message::{About, Class, Failure};
use delaybridge_sink::ErrorRow;

/// An error of the broker: its condition, and its description.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PeerError {
    pub(super) condition: String,
    pub(super) description: String,
}

impl PeerError {
    pub(super) fn words(&self) -> String {
        match (self.condition.as_str(), self.description.as_str()) {
            ("", _) => "no condition".to_owned(),
            (condition, "") => condition.to_owned(),
            // What follows our own words must stay readable.
            (condition, text) => format!("{condition}: {}", text.chars().take(200).collect::<String>()),
        }
    }
}

/// Returns the row of a condition. The same for a rejected message, a link and a session that end.
fn meaning(condition: &str) -> Option<ErrorRow> {
    Some(match condition {
        "amqp:not-found" | "amqp:resource-deleted" | "amqp:link:redirect" => codes::NOT_FOUND,
        "amqp:unauthorized-access" | "com.microsoft:auth-failed" => codes::DENIED,
        "amqp:resource-limit-exceeded" | "com.microsoft:server-busy" | "com.microsoft:quota-exceeded" => codes::FULL,
        "amqp:link:message-size-exceeded" => codes::TOO_LARGE,
        // Artemis says it of whatever goes wrong in it, a deleted address too: the next link knows better.
        "failed"
        | "amqp:resource-locked"
        | "amqp:internal-error"
        | "amqp:illegal-state"
        | "amqp:connection:forced"
        | "amqp:link:detach-forced"
        | "amqp:link:stolen"
        | "com.microsoft:timeout"
        | "com.microsoft:entity-disabled"
        | "com.microsoft:operation-cancelled" => codes::UNAVAILABLE,
        "amqp:not-allowed" | "amqp:not-implemented" | "amqp:invalid-field" | "amqp:precondition-failed" => {
            codes::REFUSED
        }
        _ => return None,
    })
}

pub(super) fn rejected(attempt: &str, error: &PeerError) -> Failure {
    let row = match meaning(&error.condition) {
        // What the broker refuses of a link concerns the address, what it refuses of a message that message alone.
        None | Some(codes::REFUSED) => codes::REJECTED,
        Some(known) => known,
    };
    row.with_cure(format_args!("{attempt}: rejected with {}", error.words())).about(About::Target)
}

/// Builds the failure of a link that the broker ends or refuses before the element was sent.
pub(super) fn unsent(attempt: &str, error: &PeerError) -> Failure {
    let row = match meaning(&error.condition) {
        // None of this link's elements has been looked at.
        Some(row) if row.class == Class::MessagePermanent => codes::UNAVAILABLE,
        Some(row) => row,
        None if error.condition.is_empty() => codes::UNAVAILABLE,
        None => codes::ERROR,
    };
    row.with_cure(format_args!("{attempt}: the broker ended the link with {}", error.words())).about(About::Target)
}

/// Builds the failure of a link that the broker ended after the element was sent. `alone` if no other was under way;
/// `first` if the link has never taken a message.
pub(super) fn detached(attempt: &str, error: &PeerError, alone: bool, first: bool) -> Failure {
    match meaning(&error.condition) {
        // A broker that cannot refuse one message ends the link.
        Some(row) if alone && row.class == Class::MessagePermanent => rejected(attempt, error),
        // RabbitMQ 3 looks at the rights of a link with its first message.
        Some(row) if first && row.class == Class::TargetPermanent => unsent(attempt, error),
        _ => {
            let text = format!("{attempt}: no answer: the broker ended the link with {}", error.words());
            codes::DETACHED.failure(text).about(About::Target)
        }
    }
}

/// Builds the failure of a message that the broker did not take, and that may be sent again.
pub(super) fn released(attempt: &str) -> Failure {
    let text = format!("{attempt}: the broker released the message: it has not taken it");
    codes::RELEASED.failure(text).about(About::Target)
}

/// Builds the failure of a message that the broker could not deliver: here, or this time.
pub(super) fn modified(attempt: &str, never_here: bool) -> Failure {
    let failure = if never_here {
        let text = format!("{attempt}: the broker says that it is undeliverable here: see its log");
        codes::UNDELIVERABLE.failure(text)
    } else {
        let text = format!("{attempt}: a delivery within the broker failed: see its log if this lasts");
        codes::MODIFIED.failure(text)
    };
    failure.about(About::Target)
}

/// Builds the failure of an outcome that is none of the protocol's.
pub(super) fn unclear(attempt: &str) -> Failure {
    let text = format!("{attempt}: the broker answered with an outcome that confirms nothing");
    codes::ERROR.failure(text).about(About::Target)
}

/// Builds the failure of an address that had no credit for this long.
pub(super) fn no_credit(attempt: &str, waited: Duration) -> Failure {
    let text = format!("{attempt}: the broker grants no credit for {waited:?}: the address may be full");
    codes::NO_CREDIT.failure(text).about(About::Target)
}

/// Builds the failure of an element that others before it have kept from being sent.
pub(super) fn little_credit(attempt: &str, waited: Duration) -> Failure {
    let text = format!("{attempt}: not sent within {waited:?}: the broker grants credit too slowly");
    codes::NO_CREDIT.failure(text).about(About::Target)
}

/// Builds the failure of an element while all links are in use.
pub(super) fn no_link(attempt: &str, links: usize) -> Failure {
    let text = format!("{attempt}: {links} other addresses have work: raise `max_links`");
    codes::NO_LINK.failure(text)
}

/// Builds the failure of a message that is larger than the broker takes.
pub(super) fn too_large(attempt: &str, bytes: u64, most: u64) -> Failure {
    let text = format!("{attempt}: {bytes} bytes with headers, the broker takes {most}: raise its limit");
    codes::TOO_LARGE.failure(text).about(About::Target)
}

/// Builds the failure of an element without an outcome in time, while the broker answers others.
pub(super) fn late(attempt: &str, timeout: Duration) -> Failure {
    let text = format!("{attempt}: no outcome within {timeout:?}: see the broker's log");
    Failure::new(Class::Ambiguous, "timeout", text).about(About::Target)
}

/// Builds the failure of a link whose beginning got no answer.
pub(super) fn silent(attempt: &str, waited: Duration) -> Failure {
    let text = format!("{attempt}: the broker does not answer within {waited:?}");
    codes::SILENT.failure(text).about(About::Target)
}

/// Builds the failure of a connection that ended; `sent` if a byte of the element may have left.
pub(super) fn lost(attempt: &str, why: &str, sent: bool) -> Failure {
    if sent {
        Failure::new(Class::Ambiguous, "connection_lost", format!("{attempt}: no outcome: {why}"))
    } else {
        Failure::new(Class::Transient, Failure::NOT_SENT, format!("{attempt}: not sent: {why}"))
    }
}

/// Builds the failure of a connection that the broker ends while it is made.
pub(super) fn at_connect(address: &str, error: &PeerError) -> Failure {
    let (row, advice) = match meaning(&error.condition) {
        Some(codes::DENIED) => (codes::DENIED, "check the user's rights, and `hostname`"),
        Some(row) if row.class == Class::TargetPermanent => (codes::REFUSED, "check `hostname`"),
        _ => (codes::UNAVAILABLE, "see the broker's log"),
    };
    row.failure(format!("connect to AMQP 1.0 broker {address}: it answered {}: {advice}", error.words()))
}

pub(super) fn login(address: &str, outcome: u64) -> Failure {
    let (class, text) = match outcome {
        1 => (Class::TargetPermanent, "the broker does not accept the login: check user and password"),
        2 | 3 => (Class::TargetPermanent, "the broker cannot check the login: see its log"),
        _ => (Class::Transient, "the broker cannot check the login for the moment"),
    };
    codes::AUTH.of_class(class).failure(format!("connect to AMQP 1.0 broker {address}: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(condition: &str) -> PeerError {
        PeerError { condition: condition.to_owned(), description: "why".to_owned() }
    }

    #[test]
    fn every_condition_has_its_class_for_a_message_and_for_a_link() {
        use Class::{Backpressure, MessagePermanent, TargetPermanent, Transient, Unknown};
        let gone = (TargetPermanent, "amqp1_not_found");
        let denied = (TargetPermanent, "amqp1_denied");
        let full = (Backpressure, "amqp1_full");
        let away = (Transient, "amqp1_unavailable");
        let rejects = (MessagePermanent, "amqp1_rejected");
        let refuses = (TargetPermanent, "amqp1_refused");
        let rows = [
            ("amqp:not-found", gone, gone),
            ("amqp:resource-deleted", gone, gone),
            ("amqp:link:redirect", gone, gone),
            ("amqp:unauthorized-access", denied, denied),
            ("com.microsoft:auth-failed", denied, denied),
            ("amqp:resource-limit-exceeded", full, full),
            ("com.microsoft:server-busy", full, full),
            ("com.microsoft:quota-exceeded", full, full),
            ("amqp:link:message-size-exceeded", (MessagePermanent, "amqp1_too_large"), away),
            ("amqp:resource-locked", away, away),
            ("amqp:internal-error", away, away),
            ("amqp:illegal-state", away, away),
            ("amqp:connection:forced", away, away),
            ("amqp:link:detach-forced", away, away),
            ("amqp:link:stolen", away, away),
            ("com.microsoft:timeout", away, away),
            ("com.microsoft:entity-disabled", away, away),
            ("com.microsoft:operation-cancelled", away, away),
            ("amqp:not-allowed", rejects, refuses),
            ("amqp:not-implemented", rejects, refuses),
            ("amqp:invalid-field", rejects, refuses),
            ("amqp:precondition-failed", rejects, refuses),
            ("failed", away, away),
            ("other", rejects, (Unknown, "amqp1_error")),
            ("", rejects, away),
        ];
        for (condition, of_message, of_link) in rows {
            let message = rejected("send to address a", &error(condition));
            assert_eq!((message.class, message.code), of_message, "{condition} rejected");
            let link = unsent("send to address a", &error(condition));
            assert_eq!((link.class, link.code), of_link, "{condition} ends the link");
        }
    }

    #[test]
    fn what_was_sent_before_a_link_ends_is_in_doubt() {
        for condition in ["amqp:not-found", "amqp:unauthorized-access", "amqp:link:detach-forced", ""] {
            let failure = detached("send", &error(condition), true, false);
            assert_eq!((failure.class, failure.code), (Class::Ambiguous, "amqp1_detached"), "{condition}");
        }
        let size = error("amqp:link:message-size-exceeded");
        assert_eq!(detached("send", &size, true, true).code, "amqp1_too_large");
        assert_eq!(detached("send", &size, false, true).class, Class::Ambiguous);
        assert_eq!(detached("send", &error("amqp:unauthorized-access"), false, true).code, "amqp1_denied");
        assert_eq!(detached("send", &error("amqp:link:detach-forced"), false, true).class, Class::Ambiguous);
        assert_eq!(
            (lost("send", "x", true).class, lost("send", "x", false).class),
            (Class::Ambiguous, Class::Transient)
        );
        assert!(lost("send", "x", false).is_unsent());
    }

    #[test]
    fn a_refused_login_waits_for_a_person() {
        let rows = [(1, Class::TargetPermanent), (2, Class::TargetPermanent), (3, Class::TargetPermanent)];
        for (outcome, class) in rows.into_iter().chain([(4, Class::Transient)]) {
            assert_eq!(login("h:5672", outcome).class, class, "{outcome}");
        }
        assert_eq!(at_connect("h", &error("amqp:not-allowed")).code, "amqp1_refused");
        assert_eq!(at_connect("h", &error("amqp:not-found")).code, "amqp1_refused");
        assert_eq!(at_connect("h", &error("amqp:unauthorized-access")).code, "amqp1_denied");
        assert_eq!(at_connect("h", &error("amqp:connection:forced")).class, Class::Transient);
        assert_eq!(at_connect("h", &error("x")).class, Class::Transient);
    }

    #[test]
    fn a_description_is_cut() {
        let long = PeerError { condition: "c".to_owned(), description: "x".repeat(10_000) };
        assert_eq!(long.words().len(), 203);
    }
}
