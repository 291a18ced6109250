//! The class of every failure of Redis as a sink; one row a code, each tested.
//!
//! A code without a row is `Unknown`: retried, counted, never a success.

use delaybridge_core::message::{About, Class, Failure};
use delaybridge_link::{ConnectError, LinkError};

/// Classifies a failed command; `command` is its name.
pub(super) fn classify(command: &str, error: &LinkError) -> Failure {
    let (class, code) = match error {
        LinkError::NotSent { .. } => (Class::Transient, Failure::NOT_CONNECTED),
        LinkError::Unknown { reason, .. } => (Class::Ambiguous, no_answer(reason).into()),
        LinkError::Server { code, .. } => (class_of(code), (*code).into()),
        LinkError::Malformed(_) => (Class::Unknown, "unexpected_reply".into()),
    };
    let failure = Failure::new(class, code, format!("{command}: {error}"));
    // These three are about a key; a login that is refused is about all of them.
    if matches!(failure.code, "WRONGTYPE" | "NOPERM" | "CROSSSLOT") { failure.about(About::Target) } else { failure }
}

fn no_answer(reason: &delaybridge_link::NoAnswer) -> &'static str {
    match reason {
        delaybridge_link::NoAnswer::TimedOut(_) => "timeout",
        delaybridge_link::NoAnswer::Broken(_) => "connection_lost",
    }
}

fn class_of(code: &str) -> Class {
    match code {
        "OOM" => Class::Backpressure,
        // The server is not the one, or not in the state, to take writes now; the link looks for the new master.
        "LOADING" | "BUSY" | "TRYAGAIN" | "CLUSTERDOWN" | "MASTERDOWN" | "NOREPLICAS" | "READONLY" | "MOVED"
        | "ASK" => Class::Transient,
        // Writes are refused while the server cannot save; it says nothing about the element.
        "MISCONF" => Class::Transient,
        // The link loads and repeats by itself; here it did not run.
        "NOSCRIPT" => Class::Transient,
        "WRONGTYPE" | "NOAUTH" | "WRONGPASS" | "NOPERM" | "CROSSSLOT" => Class::TargetPermanent,
        _ => Class::Unknown,
    }
}

/// Classifies the lack of a connection.
pub(super) fn not_connected(error: &ConnectError) -> Failure {
    let class = if error.kind.needs_a_person() { Class::TargetPermanent } else { Class::Transient };
    Failure::new(class, error.kind.as_str(), error.to_string())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use delaybridge_link::{ConnectErrorKind, NoAnswer};

    #[test]
    fn every_error_reply_has_its_class() {
        let rows = [
            ("OOM", Class::Backpressure),
            ("LOADING", Class::Transient),
            ("BUSY", Class::Transient),
            ("TRYAGAIN", Class::Transient),
            ("CLUSTERDOWN", Class::Transient),
            ("MASTERDOWN", Class::Transient),
            ("NOREPLICAS", Class::Transient),
            ("READONLY", Class::Transient),
            ("MOVED", Class::Transient),
            ("ASK", Class::Transient),
            ("MISCONF", Class::Transient),
            ("NOSCRIPT", Class::Transient),
            ("WRONGTYPE", Class::TargetPermanent),
            ("NOAUTH", Class::TargetPermanent),
            ("WRONGPASS", Class::TargetPermanent),
            ("NOPERM", Class::TargetPermanent),
            ("CROSSSLOT", Class::TargetPermanent),
            ("ERR", Class::Unknown),
            ("EXECABORT", Class::Unknown),
            ("OTHER", Class::Unknown),
        ];
        for (code, class) in rows {
            let failure = classify("RPUSH", &LinkError::Server { code, message: "words".to_owned() });
            assert_eq!((failure.class, failure.code), (class, code));
            assert_eq!(failure.message, format!("RPUSH: Redis answered {code}: words"));
        }
    }

    #[test]
    fn a_missing_answer_is_ambiguous_and_a_missing_connection_is_not() {
        let address: std::sync::Arc<str> = "h:1/0".into();
        let unknown = |reason| LinkError::Unknown { address: address.clone(), reason };
        let rows = [
            (unknown(NoAnswer::TimedOut(Duration::from_secs(1))), Class::Ambiguous, "timeout"),
            (unknown(NoAnswer::Broken("reset".to_owned())), Class::Ambiguous, "connection_lost"),
            (LinkError::NotSent { address: address.clone() }, Class::Transient, "not_connected"),
            (LinkError::Malformed("a map".to_owned()), Class::Unknown, "unexpected_reply"),
        ];
        for (error, class, code) in rows {
            let failure = classify("XADD", &error);
            assert_eq!((failure.class, failure.code), (class, code), "{error}");
        }
    }

    #[test]
    fn a_connection_that_a_person_must_fix_holds() {
        use ConnectErrorKind as Kind;
        let rows = [
            (Kind::Auth, Class::TargetPermanent),
            (Kind::Permission, Class::TargetPermanent),
            (Kind::Secret, Class::TargetPermanent),
            (Kind::Tls, Class::TargetPermanent),
            (Kind::Database, Class::TargetPermanent),
            (Kind::TooOld, Class::TargetPermanent),
            (Kind::Unsupported, Class::TargetPermanent),
            (Kind::Name, Class::Transient),
            (Kind::Unreachable, Class::Transient),
            (Kind::Timeout, Class::Transient),
            (Kind::Replica, Class::Transient),
            (Kind::Loading, Class::Transient),
            (Kind::Server, Class::Transient),
        ];
        for (kind, class) in rows {
            let error = ConnectError { kind, address: "h:1/0".to_owned(), message: "words".to_owned() };
            assert_eq!(not_connected(&error).class, class, "{kind:?}");
        }
    }
}
