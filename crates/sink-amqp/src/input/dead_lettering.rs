//! Whether a rejected message goes anywhere: a queue without a dead-letter exchange drops it.
//!
//! The protocol does not show the arguments of a queue. But a declaration with other arguments than a queue has changes
//! nothing, and the refusal names the first that differs, with its value. So the queue is declared with an exchange that it
//! cannot have. What a policy says is not shown: the configuration says so.

use std::time::Duration;

use lapin::options::{ExchangeDeclareOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{ErrorKind, ExchangeKind};

use crate::client::{AmqpSession, channels};
use delaybridge_core::message::Failure;

/// A name that no exchange and no routing key has.
const NOBODY: &str = "delaybridge asks";
/// The beginning of a refusal of a user without the right.
const NO_RIGHT: &str = "ACCESS_REFUSED";
const EXCHANGE: &str = "x-dead-letter-exchange";
const ROUTING_KEY: &str = "x-dead-letter-routing-key";
/// Questions that are asked: the flags, and the arguments that a broker compares before these.
const MOST: usize = 8;

/// An argument of a queue, as the refusal of a declaration names it.
#[derive(Debug, PartialEq, Eq)]
struct Differs {
    argument: String,
    /// The value that the queue has, and its type; `None` if it has none.
    current: Option<(String, String)>,
}

/// Asks where rejected messages of a queue go; returns the exchange or the queue.
///
/// # Errors
/// Why they must not be rejected, and what to do.
pub(super) async fn ask(session: &AmqpSession, queue: &str, time: Duration) -> Result<String, String> {
    let unknown = |why: &str| {
        let advice = match why.contains(NO_RIGHT) {
            true => "give the user the right to configure it, or write `dead_letter_exchange: policy` if it has one",
            false => {
                "declare the queue with `x-dead-letter-exchange`, or write `dead_letter_exchange: policy` if a policy sets it"
            }
        };
        format!("where the rejected messages of queue {queue} go is not known ({why}): {advice}")
    };
    let found = |there: Result<(), String>, what: &str, name: &str| match there {
        Ok(()) => Ok(format!("{what} {name}")),
        Err(why) => Err(unknown(&why)),
    };
    let mut options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    let mut arguments = FieldTable::default();
    arguments.insert(EXCHANGE.into(), text(NOBODY));
    let mut exchange = None;
    for _ in 0..MOST {
        let refused = match declare(session, queue, options, arguments.clone(), time).await {
            // It was there a moment ago: then it was made now, and has such an exchange.
            Ok(()) => return Err(unknown("the queue was deleted meanwhile")),
            Err(refused) => refused,
        };
        let Some(Differs { argument, current }) = differs(&refused) else { return Err(unknown(&refused)) };
        match (&*argument, current) {
            ("durable", _) => options.durable = !options.durable,
            ("auto_delete", _) => options.auto_delete = !options.auto_delete,
            (EXCHANGE, None) => return Err(unknown("it has no such argument")),
            (EXCHANGE, Some((name, _))) => {
                arguments.insert(EXCHANGE.into(), text(&name));
                arguments.insert(ROUTING_KEY.into(), text(NOBODY));
                exchange = Some(name);
            }
            (ROUTING_KEY, current) => {
                let exchange = exchange.unwrap_or_default();
                return match (&*exchange, current) {
                    // Rejected messages keep their routing key there.
                    ("", None) => Ok("the queues that their routing keys name".to_owned()),
                    ("", Some((name, _))) => found(there(session, &name, false, time).await, "queue", &name),
                    (name, _) => found(there(session, name, true, time).await, "exchange", name),
                };
            }
            (_, Some((value, of))) => {
                let Some(value) = typed(&value, &of) else { return Err(unknown(&refused)) };
                arguments.insert(argument.as_str().into(), value);
            }
            (_, None) => return Err(unknown(&refused)),
        }
    }
    Err(unknown("the broker has other arguments than are known"))
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

/// Looks for an exchange, or a queue.
async fn there(session: &AmqpSession, name: &str, exchange: bool, time: Duration) -> Result<(), String> {
    let channel = channels::open(session, time).await.map_err(|failure: Failure| failure.message)?;
    let none = FieldTable::default();
    match exchange {
        true => {
            let options = ExchangeDeclareOptions { passive: true, ..ExchangeDeclareOptions::default() };
            let look = channel.exchange_declare(short(name), ExchangeKind::Direct, options, none);
            answer(tokio::time::timeout(time, look).await)
        }
        false => {
            let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
            answer(tokio::time::timeout(time, channel.queue_declare(short(name), options, none)).await).map(drop)
        }
    }
}

fn answer<T>(answer: Result<lapin::Result<T>, tokio::time::error::Elapsed>) -> Result<T, String> {
    match answer {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(match error.kind() {
            ErrorKind::ProtocolError(error) => error.get_message().to_string(),
            _ => error.to_string(),
        }),
        Err(_) => Err("no answer in time".to_owned()),
    }
}

/// Reads `... inequivalent arg 'NAME' for queue ...: received ... but current is the value 'VALUE' of type 'TYPE'`, or `...
/// but current is 'VALUE'`, or `... but current is none`.
fn differs(refusal: &str) -> Option<Differs> {
    let (_, rest) = refusal.split_once("inequivalent arg '")?;
    let (argument, rest) = rest.split_once('\'')?;
    let (_, current) = rest.rsplit_once("but current is ")?;
    let current = match current.strip_prefix("the value '").and_then(|rest| rest.rsplit_once("' of type '")) {
        Some((value, of)) => Some((value.to_owned(), of.trim_end_matches('\'').to_owned())),
        // Where both have a value, its type is left out.
        None => {
            let value = current.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
            value.map(|value| (value.to_owned(), String::new()))
        }
    };
    Some(Differs { argument: argument.to_owned(), current })
}

/// A value of the type that the broker names; `None` for types of arguments that come later.
fn typed(value: &str, of: &str) -> Option<AMQPValue> {
    match of {
        "longstr" => Some(text(value)),
        "bool" => value.parse().ok().map(AMQPValue::Boolean),
        _ => value.parse().ok().map(AMQPValue::LongLongInt),
    }
}

fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.into())
}

fn short(text: &str) -> ShortString {
    ShortString::try_new(text).unwrap_or_default()
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
