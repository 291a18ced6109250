//! One row a code.

use std::sync::Arc;

use lapin::protocol::AMQPError;

use super::*;

fn broker(code: u16, text: &str) -> ChannelError {
    let error = AMQPError::from_id(code, text.into()).expect("a code of the protocol");
    ChannelError::of(&ErrorKind::ProtocolError(error).into())
}

#[test]
fn every_error_has_its_class_for_the_message_that_was_alone() {
    let hold = Class::TargetPermanent;
    let dead = Class::MessagePermanent;
    let size = "PRECONDITION_FAILED - message size 9 is larger than configured max size 8";
    let rows = [
        (311, "CONTENT_TOO_LARGE", dead, "CONTENT_TOO_LARGE", Scope::Message),
        (406, size, dead, "CONTENT_TOO_LARGE", Scope::Message),
        (406, "PRECONDITION_FAILED - invalid expiration", dead, "PRECONDITION_FAILED", Scope::Message),
        (403, "ACCESS_REFUSED - words", hold, "ACCESS_REFUSED", Scope::Exchange),
        (403, "ACCESS_REFUSED - access to topic 'k' in exchange 'e'", hold, "ACCESS_REFUSED", Scope::Route),
        (404, "NOT_FOUND - words", hold, "NOT_FOUND", Scope::Exchange),
        (405, "RESOURCE_LOCKED - words", hold, "RESOURCE_LOCKED", Scope::Exchange),
        (313, "NO_CONSUMERS", Class::Unknown, "NO_CONSUMERS", Scope::Channel),
        (320, "CONNECTION_FORCED - words", Class::Ambiguous, "CONNECTION_FORCED", Scope::Connection),
        (402, "INVALID_PATH", Class::Ambiguous, "INVALID_PATH", Scope::Connection),
        (501, "FRAME_ERROR", Class::Ambiguous, "FRAME_ERROR", Scope::Connection),
        (502, "SYNTAX_ERROR", Class::Ambiguous, "SYNTAX_ERROR", Scope::Connection),
        (503, "COMMAND_INVALID", Class::Ambiguous, "COMMAND_INVALID", Scope::Connection),
        (504, "CHANNEL_ERROR", Class::Ambiguous, "CHANNEL_ERROR", Scope::Connection),
        (505, "UNEXPECTED_FRAME", Class::Ambiguous, "UNEXPECTED_FRAME", Scope::Connection),
        (506, "RESOURCE_ERROR", Class::Ambiguous, "RESOURCE_ERROR", Scope::Connection),
        (530, "NOT_ALLOWED", Class::Ambiguous, "NOT_ALLOWED", Scope::Connection),
        (540, "NOT_IMPLEMENTED", Class::Ambiguous, "NOT_IMPLEMENTED", Scope::Connection),
        (541, "INTERNAL_ERROR", Class::Ambiguous, "INTERNAL_ERROR", Scope::Connection),
    ];
    for (code, text, class, label, scope) in rows {
        let cause = broker(code, text);
        let failure = cause.alone("publish to exchange x");
        assert_eq!((failure.class, failure.code, cause.scope()), (class, label, scope), "{code}");
        let about = match scope {
            Scope::Exchange => About::Target,
            Scope::Route => About::Route,
            _ => About::Sink,
        };
        assert_eq!(failure.about, about, "{code}");
        let culprit = matches!(scope, Scope::Message | Scope::Route | Scope::Channel);
        assert_eq!((cause.has_a_culprit(), cause.is_about_one()), (culprit, scope != Scope::Connection), "{code}");
        assert!(failure.message.contains(text), "{failure}");
        let failure = cause.in_doubt("publish to exchange x");
        assert_eq!((failure.class, failure.code), (Class::Ambiguous, name(code)), "{code}");
        assert!(failure.message.starts_with("publish to exchange x: "), "{failure}");
    }
}

#[test]
fn what_the_library_says_by_itself_leaves_the_message_in_doubt() {
    let io = ErrorKind::IOError(Arc::new(std::io::ErrorKind::ConnectionReset.into()));
    let rows = [
        (io, "connection_lost", Scope::Connection),
        (ErrorKind::MissingHeartbeatError, "heartbeat", Scope::Connection),
        (ErrorKind::InvalidConnectionState(lapin::ConnectionState::Error), "connection_lost", Scope::Connection),
        (ErrorKind::InvalidChannelState(lapin::ChannelState::Closed, "x"), "channel_closed", Scope::Channel),
        (ErrorKind::InvalidChannel(1), "channel_closed", Scope::Channel),
        (ErrorKind::FutureCompleted, "connection_lost", Scope::Connection),
    ];
    for (kind, label, scope) in rows {
        let cause = ChannelError::of(&kind.into());
        assert_eq!((cause.label, cause.scope(), cause.is_about_one()), (label, scope, false));
        assert_eq!(cause.alone("publish").class, Class::Ambiguous);
        assert!(broker(404, "NOT_FOUND").beats(&cause) && !cause.beats(&broker(404, "NOT_FOUND")));
    }
}

#[test]
fn a_code_that_is_not_known_is_never_a_success() {
    let rows = [
        (312, Class::TargetPermanent, "NO_ROUTE"),
        (313, Class::Unknown, "NO_CONSUMERS"),
        (999, Class::Unknown, "OTHER"),
    ];
    for (code, class, label) in rows {
        let failure = returned("publish to exchange x", code, "words");
        assert_eq!((failure.class, failure.code, failure.about), (class, label, About::Route));
    }
    assert_eq!((nacked("publish").class, nacked("publish").code), (Class::Backpressure, "nack"));
    let failure = blocked("publish", "low on memory");
    assert_eq!((failure.class, failure.code), (Class::Backpressure, "connection_blocked"));
    assert_eq!((crowded("publish").class, no_channel("words").class), (Class::Backpressure, Class::Transient));
    assert!(no_channel("words").is_unsent());
}
