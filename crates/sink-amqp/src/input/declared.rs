//! How a queue was declared.
//!
//! The protocol does not show the arguments of a queue. But a declaration with other arguments than a queue has changes
//! nothing, and the refusal names the first that differs, with its value. So the queue is declared with values that it cannot
//! have. What a policy says is not shown.

use std::time::Duration;

use lapin::options::QueueDeclareOptions;
use lapin::types::{AMQPValue, FieldTable};

use super::questions::{answer, short};
use crate::client::{AmqpSession, channels};
use delaybridge_core::message::Failure;

/// A value that no queue has.
const NOBODY: &str = "delaybridge asks";
const TYPE: &str = "x-queue-type";
const EXCHANGE: &str = "x-dead-letter-exchange";
const ROUTING_KEY: &str = "x-dead-letter-routing-key";
const LIMIT: &str = "x-delivery-limit";
const TTL: &str = "x-message-ttl";
/// Declarations that are tried: one for each argument that is asked for, the flags, and the arguments that a broker compares before.
const MOST: usize = 16;

/// The arguments of a queue that matter to an input.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Declared {
    /// The type, if the declaration names one.
    pub(super) kind: Option<String>,
    /// The exchange of rejected messages; the default exchange has no name.
    pub(super) exchange: Option<String>,
    /// The routing key of rejected messages, if it is not their own.
    pub(super) routing_key: Option<String>,
    /// The number of returns after which a quorum queue drops a message, or gives it to the exchange.
    pub(super) limit: Option<String>,
}

/// An argument of a queue, as the refusal of a declaration names it.
#[derive(Debug, PartialEq, Eq)]
struct Differs {
    argument: String,
    /// The value that the queue has, and its type; `None` if it has none.
    current: Option<(String, String)>,
}

impl Declared {
    /// Asks how a queue was declared. An error is the text of the broker's refusal, or what else is in the way.
    pub(super) async fn ask(session: &AmqpSession, queue: &str, time: Duration) -> Result<Declared, String> {
        // Values of another type than the broker takes. So a queue that was deleted meanwhile is not made: of the last one that is
        // asked for, the broker does not check the type.
        let mut open = vec![(EXCHANGE, flag()), (ROUTING_KEY, flag()), (LIMIT, text(NOBODY)), (TTL, flag())];
        let mut options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        let mut known = FieldTable::default();
        let mut declared = Declared::default();
        for _ in 0..MOST {
            // The queue is of a type that has no such limit, or it is known; the other one is asked for its sake.
            if open.iter().all(|(name, _)| *name == LIMIT) || open.iter().all(|(name, _)| *name == TTL) {
                return Ok(declared);
            }
            let mut arguments = known.clone();
            for (name, value) in &open {
                arguments.insert((*name).into(), value.clone());
            }
            let Err(refused) = declare(session, queue, options, arguments, time).await else {
                // A stream has none of them.
                return Ok(declared);
            };
            let Some(Differs { argument, current }) = differs(&refused) else { return Err(refused) };
            match &*argument {
                "durable" => options.durable = !options.durable,
                "auto_delete" => options.auto_delete = !options.auto_delete,
                name => {
                    open.retain(|(asked, _)| *asked != name);
                    let Some((value, of)) = current else { continue };
                    let Some(same) = typed(&value, &of, name) else { return Err(refused) };
                    known.insert(name.into(), same);
                    match name {
                        TYPE => declared.kind = Some(value),
                        EXCHANGE => declared.exchange = Some(value),
                        ROUTING_KEY => declared.routing_key = Some(value),
                        LIMIT => declared.limit = Some(value),
                        _ => {}
                    }
                }
            }
        }
        Err("the broker has other arguments than are known".to_owned())
    }
}

/// Declares the queue, on a channel of its own; returns the text of the broker's refusal.
async fn declare(
    session: &AmqpSession,
    queue: &str,
    options: QueueDeclareOptions,
    arguments: FieldTable,
    time: Duration,
) -> Result<(), String> {
    let channel = channels::open(session, time).await.map_err(|failure: Failure| failure.message)?;
    let declare = channel.queue_declare(short(queue), options, arguments);
    answer(tokio::time::timeout(time, declare).await).map(drop)
}

/// Reads `... inequivalent arg 'NAME' for queue ...: received ... but current is the value 'VALUE' of type 'TYPE'`, or `...
/// but current is 'VALUE'`, or `... but current is none`.
fn differs(refusal: &str) -> Option<Differs> {
    let (_, rest) = refusal.split_once("inequivalent arg '")?;
    let (argument, rest) = rest.split_once('\'')?;
    let (_, current) = rest.rsplit_once("but current is ")?;
    let current = match current.strip_prefix("the value '").and_then(|rest| rest.rsplit_once("' of type '")) {
        Some((value, of)) => Some((value.to_owned(), of.trim_end_matches('\'').to_owned())),
        // Where both have a value of one type, the type is left out.
        None => {
            let value = current.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
            value.map(|value| (value.to_owned(), String::new()))
        }
    };
    Some(Differs { argument: argument.to_owned(), current })
}

/// Returns a value of the type that the broker names, or that the argument has; `None` if it is not one.
fn typed(value: &str, of: &str, argument: &str) -> Option<AMQPValue> {
    match of {
        "longstr" => Some(text(value)),
        "bool" => value.parse().ok().map(AMQPValue::Boolean),
        "" if [EXCHANGE, ROUTING_KEY, TYPE].contains(&argument) => Some(text(value)),
        _ => value.parse().ok().map(AMQPValue::LongLongInt),
    }
}

fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.into())
}

fn flag() -> AMQPValue {
    AMQPValue::Boolean(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_argument_and_what_the_queue_has() {
        fn check(refusal: &str, argument: &str, current: Option<(&str, &str)>) {
            let current = current.map(|(value, of)| (value.to_owned(), of.to_owned()));
            assert_eq!(differs(refusal), Some(Differs { argument: argument.to_owned(), current }), "{refusal}");
        }
        let head = "PRECONDITION_FAILED - inequivalent arg";
        let of = "for queue 'it's late' in vhost '/': received";
        check(
            &format!("{head} 'x-dead-letter-exchange' {of} the value 'n' of type 'longstr' but current is none"),
            "x-dead-letter-exchange",
            None,
        );
        check(
            &format!("{head} 'x-dead-letter-exchange' {of} 'n' but current is 'a'b'"),
            "x-dead-letter-exchange",
            Some(("a'b", "")),
        );
        check(
            &format!("{head} 'x-dead-letter-exchange' {of} 'n' but current is ''"),
            "x-dead-letter-exchange",
            Some(("", "")),
        );
        check(
            &format!("{head} 'x-message-ttl' {of} none but current is the value '60000' of type 'signedint'"),
            "x-message-ttl",
            Some(("60000", "signedint")),
        );
        check(&format!("{head} 'durable' {of} 'true' but current is 'false'"), "durable", Some(("false", "")));
        assert_eq!(differs("ACCESS_REFUSED - access to queue 'q' in vhost '/' refused for user 'u'"), None);
    }
}
