//! Exchanges, queues and bindings: declared where the configuration says so, looked for by `check --live`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use lapin::options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{ErrorKind, ExchangeKind};

use super::channels;
use super::session::Session;
use crate::message::{Class, Failure};
use crate::sink::Destination;
use crate::sink::amqp::errors;
use crate::sink::amqp::{AmqpArgument, AmqpDestination, AmqpTopology};

/// Declares exchange, queue and binding; what is there already must be the same.
///
/// # Errors
///
/// What was declared, what the broker said, and what to do.
pub(super) async fn declare(session: &Session, topology: &AmqpTopology, time: Duration) -> Result<(), Failure> {
    let channel = channels::open(session, time).await?;
    let AmqpTopology { exchange, exchange_kind, durable, queue } = topology;
    // The default exchange is always there, and every queue is bound to it.
    let named = !exchange.is_empty();
    if named {
        let what = format!("declare exchange {exchange}");
        let options = ExchangeDeclareOptions { durable: *durable, ..ExchangeDeclareOptions::default() };
        let kind = ExchangeKind::Custom(exchange_kind.clone());
        let declare = channel.exchange_declare(short(exchange)?, kind, options, FieldTable::default());
        within(time, &what, declare).await?;
    }
    let Some(queue) = queue else { return Ok(()) };
    let what = format!("declare queue {}", queue.name);
    let mut arguments = FieldTable::default();
    for (name, value) in &queue.arguments {
        arguments.insert(short(name)?, argument(value));
    }
    let options = QueueDeclareOptions { durable: *durable, ..QueueDeclareOptions::default() };
    within(time, &what, channel.queue_declare(short(&queue.name)?, options, arguments)).await?;
    if named {
        let what = format!("bind queue {} to exchange {exchange}", queue.name);
        let key = short(&queue.binding_key)?;
        let (queue, exchange) = (short(&queue.name)?, short(exchange)?);
        let bind = channel.queue_bind(queue, exchange, key, QueueBindOptions::default(), FieldTable::default());
        within(time, &what, bind).await?;
    }
    Ok(())
}

/// Asks whether the exchanges of these destinations exist; for the default exchange, whether the queue does.
///
/// # Errors
///
/// What is missing, and what to do.
pub(super) async fn look(session: &Arc<Session>, destinations: &[Destination], time: Duration) -> Result<(), Failure> {
    let mut wanted = BTreeSet::new();
    for destination in destinations {
        match destination {
            Destination::Amqp(AmqpDestination { exchange, routing_key, .. }) if exchange.is_empty() => {
                wanted.insert((true, routing_key.clone()));
            }
            Destination::Amqp(AmqpDestination { exchange, .. }) => {
                wanted.insert((false, exchange.clone()));
            }
            other => return Err(crate::sink::wrong_destination("amqp", other)),
        }
    }
    // What is missing is gathered: a person creates all of it at once.
    let mut missing: [Vec<(Arc<str>, Failure)>; 2] = Default::default();
    for (is_queue, name) in wanted {
        // A channel of its own for each: the broker closes it where something is missing.
        let channel = channels::open(session, time).await?;
        let what = format!("look for {} {name}", if is_queue { "queue" } else { "exchange" });
        let looked = if is_queue {
            let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
            let declare = channel.queue_declare(short(&name)?, options, FieldTable::default());
            within(time, &what, declare).await.map(drop)
        } else {
            let options = ExchangeDeclareOptions { passive: true, ..ExchangeDeclareOptions::default() };
            let declare = channel.exchange_declare(short(&name)?, ExchangeKind::Direct, options, FieldTable::default());
            within(time, &what, declare).await
        };
        match looked {
            Ok(()) => {}
            Err(failure) if failure.code == errors::name(errors::NOT_FOUND) => {
                missing[usize::from(is_queue)].push((name, failure));
            }
            Err(failure) => return Err(failure),
        }
    }
    let failures =
        ["exchange", "queue"].into_iter().zip(missing).filter_map(|(kind, missing)| match missing.as_slice() {
            [] => None,
            [(_, failure)] => Some(failure.clone()),
            [(_, first), ..] => {
                let names: Vec<_> = missing.iter().map(|(name, _)| &**name).collect();
                let text = format!("look for {kind}s {}: the broker has none of them; {CREATE}", names.join(", "));
                Some(Failure::new(first.class, first.code, text))
            }
        });
    crate::sink::together(failures.collect())
}

/// What to do about what is missing.
const CREATE: &str = "create it, or let the sink `declare` it";

async fn within<T>(time: Duration, what: &str, step: impl Future<Output = lapin::Result<T>>) -> Result<T, Failure> {
    match tokio::time::timeout(time, step).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(explain(what, &error)),
        Err(_) => Err(Failure::new(Class::Transient, "timeout", format!("{what}: no answer within {time:?}"))),
    }
}

fn explain(what: &str, error: &lapin::Error) -> Failure {
    let ErrorKind::ProtocolError(error) = error.kind() else {
        return Failure::new(Class::Transient, "connection_lost", format!("{what}: {error}"));
    };
    let code = error.get_id();
    let (class, advice) = match code {
        errors::NOT_FOUND => (Class::TargetPermanent, CREATE),
        errors::ACCESS_REFUSED => (Class::TargetPermanent, "give the user the right to configure it"),
        errors::RESOURCE_LOCKED => (Class::TargetPermanent, "it is exclusive to another connection"),
        errors::PRECONDITION_FAILED => {
            (Class::TargetPermanent, "it exists with other settings: make `declare` say the same, or delete it")
        }
        503 | 530 => (Class::TargetPermanent, "the broker does not allow it"),
        _ => (Class::Transient, "the broker refused it"),
    };
    let text = format!("{what}: the broker answered {code} {}: {advice}", error.get_message());
    // About no destination: without its topology the sink delivers nothing at all.
    Failure::new(class, errors::name(code), text)
}

fn argument(value: &AmqpArgument) -> AMQPValue {
    match value {
        AmqpArgument::Flag(flag) => AMQPValue::Boolean(*flag),
        AmqpArgument::Number(number) => AMQPValue::LongLongInt(*number),
        AmqpArgument::Text(text) => AMQPValue::LongString(text.as_str().into()),
    }
}

fn short(text: &str) -> Result<ShortString, Failure> {
    ShortString::try_new(text).map_err(|_| {
        let text = format!("use the name {}...: it has {} bytes, the protocol allows 255", &cut(text), text.len());
        Failure::new(Class::TargetPermanent, "bad_name", text)
    })
}

fn cut(text: &str) -> String {
    text.chars().take(40).collect()
}
