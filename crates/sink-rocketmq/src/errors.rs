//! The class of every failure of RocketMQ: one table of answers, each row tested.
//!
//! A code without a row is `Unknown`: retried, counted, never a success. The remarks are the server's own and name topics and
//! limits; they are cut, and never hold a payload of ours.

use std::time::Duration;

use crate::SlaveNotAvailable;
use crate::codes;
use crate::wire::frame::RemotingAnswer;
use delaybridge_core::message::{About, Class, Failure, Outcome};
use delaybridge_sink::ErrorRow;

/// The meaning of an answer to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Stored,
    /// Stored on the master alone.
    WithoutSlave,
    Failed(ErrorRow),
}

/// Returns the meaning of a code of the protocol; `SYSTEM_ERROR` (1) is told apart by the words that brokers have used
/// since 4.9.
fn meaning(code: i64, remark: &str) -> Meaning {
    let says = |words: &str| remark.contains(words);
    Meaning::Failed(match code {
        0 => return Meaning::Stored,
        11 => return Meaning::WithoutSlave,
        10 => codes::FLUSH_DISK,
        12 => codes::FLUSH_SLAVE,
        2 | 215 => codes::BUSY,
        13 => codes::ILLEGAL,
        14 => codes::NOT_WRITABLE,
        16 => codes::DENIED,
        17 => codes::NO_TOPIC,
        // The route is older than the topic: it has fewer queues now.
        1 | 29 if says("request queueId") => codes::ROUTE,
        // Before or after the message is stored.
        501 => codes::ROUTE.of_class(Class::Ambiguous),
        3 | 15 | 29 => codes::REFUSED,
        1500 => codes::UNAVAILABLE,
        // Checked before anything else is done with a request.
        1 if is_of_login(remark) => codes::AUTH,
        1 if says("AclException") => codes::DENIED,
        1 if says("broker busy") => codes::BUSY,
        1 if says("create mapped file failed")
            || says("in-sync replicas not enough")
            || says("broker unable to service") =>
        {
            codes::UNAVAILABLE
        }
        // Of a batch: thrown while it is read.
        1 if says("size exceeded") => codes::ILLEGAL,
        1 => codes::SYSTEM_ERROR,
        _ => codes::ERROR,
    })
}

/// Returns whether a refusal by ACL is about the access key itself, not about a topic.
fn is_of_login(remark: &str) -> bool {
    ["signature", "accessKey", "AccessKey", "No acl config"]
        .iter()
        .any(|words| remark.contains("AclException") && remark.contains(words))
}

/// Returns the outcome of the messages that a broker has answered.
pub(super) fn of_send(attempt: &str, answer: &RemotingAnswer, without_slave: SlaveNotAvailable) -> Outcome {
    let row = match meaning(answer.code, &answer.remark) {
        Meaning::Stored => return Ok(()),
        Meaning::WithoutSlave if without_slave == SlaveNotAvailable::Accept => return Ok(()),
        Meaning::WithoutSlave => codes::NO_SLAVE,
        Meaning::Failed(row) => row,
    };
    Err(row.with_cure(format_args!("{attempt}: the broker answered {}", words(answer))).about(About::Target))
}

/// Returns whether a batch was refused, as a whole, because of something that one of its messages may be.
pub(super) fn is_of_one(answer: &RemotingAnswer) -> bool {
    matches!(meaning(answer.code, &answer.remark), Meaning::Failed(row) if row.class == Class::MessagePermanent)
}

/// Returns whether another broker, or a newer route, may do better.
pub(super) fn is_of_broker(answer: &RemotingAnswer) -> bool {
    match meaning(answer.code, &answer.remark) {
        Meaning::Stored => false,
        Meaning::WithoutSlave => true,
        Meaning::Failed(row) => row.class != Class::MessagePermanent,
    }
}

/// Builds the failure of a question to a name server or a broker.
pub(super) fn of_ask(attempt: &str, answer: &RemotingAnswer) -> Failure {
    let row = match meaning(answer.code, &answer.remark) {
        // A question changes nothing.
        Meaning::Failed(row) if matches!(row.class, Class::Ambiguous | Class::MessagePermanent) => codes::UNAVAILABLE,
        Meaning::Failed(row) => row,
        Meaning::Stored | Meaning::WithoutSlave => codes::ERROR,
    };
    let failure = row.with_cure(format_args!("{attempt}: the server answered {}", words(answer)));
    if matches!(row, codes::NO_TOPIC | codes::DENIED) { failure.about(About::Target) } else { failure }
}

/// Builds the failure of the first question over a connection. It names no topic: a missing right is one of the access
/// key.
pub(super) fn at_connect(attempt: &str, answer: &RemotingAnswer) -> Failure {
    match of_ask(attempt, answer) {
        failure if failure.code == codes::DENIED.code => {
            let text = format!("{attempt}: the server answered {}: check access key and secret", words(answer));
            codes::AUTH.failure(text)
        }
        failure => failure,
    }
}

fn words(answer: &RemotingAnswer) -> String {
    match answer.remark.as_str() {
        "" => format!("code {}", answer.code),
        remark => format!("code {}: {}", answer.code, remark.chars().take(200).collect::<String>()),
    }
}

/// Builds the failure of a message that cannot be sent to any broker.
pub(super) fn unfit(attempt: &str, why: &str) -> Failure {
    codes::UNFIT.failure(format!("{attempt}: {why}")).about(About::Target)
}

/// Builds the failure of a topic that has no queue now: no master, or no right to write.
pub(super) fn no_queue(attempt: &str, lacks_master: bool) -> Failure {
    let (row, why) = if lacks_master {
        (codes::NO_MASTER, "no broker of the topic has a master now")
    } else {
        (codes::DENIED, "the topic takes no messages: give it `perm` 6")
    };
    row.failure(format!("{attempt}: {why}")).about(About::Target)
}

/// Builds the failure for topics in use whose routes have more queues than are kept.
pub(super) fn many_queues(attempt: &str, most: usize) -> Failure {
    let text =
        format!("{attempt}: the topics in use have more than {most} queues: use fewer, or another sink for some");
    codes::ERROR.of_class(Class::Transient).failure(text).about(About::Target)
}

/// Builds the failure for an ordered topic's queue whose broker is away.
pub(super) fn away(attempt: &str, broker: &str) -> Failure {
    let text = format!("{attempt}: broker {broker} of its queue has no master now: bring it back");
    codes::NO_MASTER.failure(text).about(About::Target)
}

/// Builds the failure for name servers that know no broker.
pub(super) fn no_broker(attempt: &str) -> Failure {
    let text = format!("{attempt}: no broker is registered at the name server: check brokers and `name_servers`");
    codes::NO_BROKER.failure(text)
}

/// Builds the failure of an element that was not sent for this long: no route, or a queue with an unanswered message
/// before it.
pub(super) fn waited(attempt: &str, waited: Duration, has_route: bool) -> Failure {
    let why = if has_route { "its queue answers too slowly" } else { "the name server has given no route" };
    let text = format!("{attempt}: not sent within {waited:?}: {why}");
    Failure::new(Class::Transient, Failure::NOT_SENT, text).about(About::Target)
}

/// Builds the failure of a message without an answer in time, while the server answers others.
pub(super) fn late(attempt: &str, timeout: Duration) -> Failure {
    let text = format!("{attempt}: no answer within {timeout:?}: see the broker's log");
    Failure::new(Class::Ambiguous, "timeout", text).about(About::Target)
}

/// Builds the failure of a question without an answer in time.
pub(super) fn no_answer(attempt: &str, timeout: Duration) -> Failure {
    let text = format!("{attempt}: no answer within {timeout:?}: check that it is well");
    codes::UNAVAILABLE.failure(text)
}

/// Builds the failure of a connection that ended; `sent` if a byte of the message may have left.
pub(super) fn lost(attempt: &str, why: &str, sent: bool) -> Failure {
    if sent {
        Failure::new(Class::Ambiguous, "connection_lost", format!("{attempt}: no answer: {why}"))
    } else {
        Failure::new(Class::Transient, Failure::NOT_SENT, format!("{attempt}: not sent: {why}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: i64, remark: &str) -> RemotingAnswer {
        RemotingAnswer { code, remark: remark.to_owned(), ..RemotingAnswer::default() }
    }

    #[test]
    fn every_answer_to_a_message_has_its_class() {
        use Class::{Ambiguous, Backpressure, MessagePermanent, TargetPermanent, Transient, Unknown};
        let acl = "org.apache.rocketmq.acl.common.AclException: ";
        let rows = [
            (2, "[REJECTREQUEST]system busy, start flow control for a while", Backpressure, "rocketmq_busy"),
            (215, "", Backpressure, "rocketmq_busy"),
            (10, "", Ambiguous, "rocketmq_flush_disk"),
            (12, "", Ambiguous, "rocketmq_flush_slave"),
            (11, "", Ambiguous, "rocketmq_no_slave"),
            (13, "the message is illegal, maybe msg body or properties length", MessagePermanent, "rocketmq_illegal"),
            (14, "service not available now. the broker's disk is full", Backpressure, "rocketmq_not_writable"),
            (16, "the topic[t] sending message is forbidden", TargetPermanent, "rocketmq_denied"),
            (17, "topic[t] not exist, apply first please!", TargetPermanent, "rocketmq_no_topic"),
            (3, " request type 310 not supported", TargetPermanent, "rocketmq_refused"),
            (15, "", TargetPermanent, "rocketmq_refused"),
            (29, "the specified topic contains illegal characters", TargetPermanent, "rocketmq_refused"),
            (29, "request queueId[7] is illegal, TopicConfig", Transient, "rocketmq_route"),
            (1, "request queueId[7] is illegal, TopicConfig", Transient, "rocketmq_route"),
            (501, "not leader", Ambiguous, "rocketmq_route"),
            (1500, "please go away", Transient, "rocketmq_unavailable"),
            (1, &format!("{acl}Check signature failed for accessKey=a"), TargetPermanent, "rocketmq_auth"),
            (1, &format!("{acl}No acl config for a"), TargetPermanent, "rocketmq_auth"),
            (1, &format!("{acl}No default permission for t"), TargetPermanent, "rocketmq_denied"),
            (1, "[PC_SYNCHRONIZED]broker busy, start flow control", Backpressure, "rocketmq_busy"),
            (1, "create mapped file failed, server is busy or broken.", Transient, "rocketmq_unavailable"),
            (1, "in-sync replicas not enough", Transient, "rocketmq_unavailable"),
            (1, "broker unable to service, until 2026", Transient, "rocketmq_unavailable"),
            (1, "RuntimeException, message body size exceeded", MessagePermanent, "rocketmq_illegal"),
            (1, "UNKNOWN_ERROR", Ambiguous, "rocketmq_system_error"),
            (1, "", Ambiguous, "rocketmq_system_error"),
            (-1, "", Unknown, "rocketmq_error"),
            (7, "", Unknown, "rocketmq_error"),
            (4711, "SUCCESS", Unknown, "rocketmq_error"),
        ];
        for (code, remark, class, expected) in rows {
            let failure = of_send("send to topic t", &answer(code, remark), SlaveNotAvailable::Retry).unwrap_err();
            assert_eq!((failure.class, failure.code), (class, expected), "{code} {remark}");
            assert!(failure.message.starts_with("send to topic t: the broker answered code"), "{failure}");
        }
        assert_eq!(of_send("send", &answer(0, ""), SlaveNotAvailable::Retry), Ok(()));
        assert_eq!(of_send("send", &answer(11, ""), SlaveNotAvailable::Accept), Ok(()));
        assert!(of_send("send", &answer(10, ""), SlaveNotAvailable::Accept).is_err());
    }

    #[test]
    fn a_batch_is_sent_one_by_one_only_if_one_of_it_may_be_wrong() {
        for (code, remark, alone) in
            [(13, "", true), (1, "message body size exceeded", true), (1, "", false), (14, "", false)]
        {
            assert_eq!(is_of_one(&answer(code, remark)), alone, "{code} {remark}");
        }
    }

    #[test]
    fn a_question_has_no_message_that_may_have_arrived() {
        use Class::{Backpressure, TargetPermanent, Transient, Unknown};
        let acl = "org.apache.rocketmq.acl.common.AclException: Check signature failed";
        let rows = [
            (17, "No topic route info", TargetPermanent, "rocketmq_no_topic"),
            (2, "", Backpressure, "rocketmq_busy"),
            (1, "", Transient, "rocketmq_unavailable"),
            (1, acl, TargetPermanent, "rocketmq_auth"),
            (16, "", TargetPermanent, "rocketmq_denied"),
            (13, "", Transient, "rocketmq_unavailable"),
            (3, "", TargetPermanent, "rocketmq_refused"),
            (0, "", Unknown, "rocketmq_error"),
            (99, "", Unknown, "rocketmq_error"),
        ];
        for (code, remark, class, expected) in rows {
            let failure = of_ask("ask", &answer(code, remark));
            assert_eq!((failure.class, failure.code), (class, expected), "{code} {remark}");
        }
    }

    #[test]
    fn a_refused_login_is_not_about_a_topic() {
        for (code, expected) in [(16, "rocketmq_auth"), (2, "rocketmq_busy"), (3, "rocketmq_refused")] {
            let failure = at_connect("connect", &answer(code, ""));
            assert_eq!((failure.code, failure.about), (expected, About::Sink), "{code}");
        }
    }

    #[test]
    fn what_was_not_sent_counts_as_no_attempt() {
        assert!(lost("send", "x", false).is_unsent() && !lost("send", "x", true).is_unsent());
        assert!(waited("send", Duration::from_secs(1), true).is_unsent());
        assert_eq!(lost("send", "x", true).class, Class::Ambiguous);
        assert_eq!(
            (no_queue("send", true).class, no_queue("send", false).class),
            (Class::Transient, Class::TargetPermanent)
        );
        assert_eq!((away("send", "b").class, no_broker("send").class), (Class::Transient, Class::Transient));
        assert_eq!(
            (unfit("send", "x").class, late("send", Duration::ZERO).class),
            (Class::MessagePermanent, Class::Ambiguous)
        );
    }

    #[test]
    fn a_remark_is_cut() {
        let failure = of_ask("ask", &answer(1, &"x".repeat(10_000)));
        assert!(failure.message.len() < 300, "{failure}");
    }
}
