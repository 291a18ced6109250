//! Exchanges, queues and bindings: declared where the configuration says so, looked for by `check --live`.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lapin::options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{Channel, ErrorKind, ExchangeKind};

use super::channels;
use super::session::AmqpSession;
use crate::errors;
use crate::{AmqpArgument, AmqpDestination, AmqpQueue, AmqpTopology, NAME};
use delaybridge_core::message::{Class, Failure};
use delaybridge_sink::Destination;

/// Declares exchange, queue and binding; what is there already must be the same.
pub(super) async fn declare(session: &AmqpSession, topology: &AmqpTopology, time: Duration) -> Result<(), Failure> {
    let channel = channels::open(session, time).await?;
    let AmqpTopology { exchange, queue, .. } = topology;
    // The default exchange is always there, and every queue is bound to it.
    let named = !exchange.is_empty();
    if named {
        declare_exchange(&channel, topology, time).await?;
    }
    let Some(queue) = queue else { return Ok(()) };
    declare_queue(&channel, queue, topology.durable, time).await?;
    if named {
        let what = format!("bind queue {} to exchange {exchange}", queue.name);
        let key = short(&queue.binding_key)?;
        let queue = short(&queue.name)?;
        let exchange = short(exchange)?;
        let bind = channel.queue_bind(queue, exchange, key, QueueBindOptions::default(), FieldTable::default());
        within(time, &what, bind).await?;
    }
    Ok(())
}

async fn declare_exchange(channel: &Channel, topology: &AmqpTopology, time: Duration) -> Result<(), Failure> {
    let AmqpTopology { exchange, exchange_kind, durable, .. } = topology;
    let options = ExchangeDeclareOptions { durable: *durable, ..ExchangeDeclareOptions::default() };
    let kind = ExchangeKind::Custom(exchange_kind.clone());
    let declare = channel.exchange_declare(short(exchange)?, kind, options, FieldTable::default());
    within(time, &format!("declare exchange {exchange}"), declare).await
}

async fn declare_queue(channel: &Channel, queue: &AmqpQueue, durable: bool, time: Duration) -> Result<(), Failure> {
    let mut arguments = FieldTable::default();
    for (name, value) in &queue.arguments {
        arguments.insert(short(name)?, argument(value));
    }
    let options = QueueDeclareOptions { durable, ..QueueDeclareOptions::default() };
    let declare = channel.queue_declare(short(&queue.name)?, options, arguments);
    within(time, &format!("declare queue {}", queue.name), declare).await.map(drop)
}

/// An object at the broker that can be looked for by its name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum BrokerObject {
    Exchange(Arc<str>),
    Queue(Arc<str>),
}

impl BrokerObject {
    const KINDS: [&str; 2] = ["exchange", "queue"];

    fn kind(&self) -> &'static str {
        match self {
            BrokerObject::Exchange(_) => BrokerObject::KINDS[0],
            BrokerObject::Queue(_) => BrokerObject::KINDS[1],
        }
    }

    fn name(&self) -> &str {
        match self {
            BrokerObject::Exchange(name) | BrokerObject::Queue(name) => name,
        }
    }

    /// Looks for it: `None` if it exists, else why it was not found. On a channel of its own, because the broker closes the
    /// channel where something is missing.
    async fn look(&self, session: &Arc<AmqpSession>, time: Duration) -> Result<Option<Failure>, Failure> {
        let channel = channels::open(session, time).await?;
        let what = format!("look for {self}");
        let looked = match self {
            BrokerObject::Queue(name) => {
                let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
                let declare = channel.queue_declare(short(name)?, options, FieldTable::default());
                within(time, &what, declare).await.map(drop)
            }
            BrokerObject::Exchange(name) => {
                let options = ExchangeDeclareOptions { passive: true, ..ExchangeDeclareOptions::default() };
                let kind = ExchangeKind::Direct;
                let declare = channel.exchange_declare(short(name)?, kind, options, FieldTable::default());
                within(time, &what, declare).await
            }
        };
        match looked {
            Ok(()) => Ok(None),
            Err(failure) if failure.code == errors::name(errors::NOT_FOUND) => Ok(Some(failure)),
            Err(failure) => Err(failure),
        }
    }
}

impl fmt::Display for BrokerObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind(), self.name())
    }
}

/// Asks whether the exchanges of these destinations exist; for the default exchange, whether the queue does. Returns
/// what does not exist and what [`declare`] makes. An error says what is missing or differs, and what to do.
pub(super) async fn look(
    session: &Arc<AmqpSession>,
    topology: Option<&AmqpTopology>,
    destinations: &[Destination],
    time: Duration,
) -> Result<Vec<String>, Failure> {
    let undeclared = match topology {
        Some(topology) => undeclared(session, topology, time).await?,
        None => Vec::new(),
    };
    let mut wanted = BTreeSet::new();
    for destination in destinations {
        let AmqpDestination { exchange, routing_key, .. } = destination.of_kind(NAME)?;
        wanted.insert(match &**exchange {
            "" => BrokerObject::Queue(routing_key.clone()),
            _ => BrokerObject::Exchange(exchange.clone()),
        });
    }
    wanted.retain(|named| !undeclared.contains(&named.to_string()));
    // What is missing is gathered: a person creates all of it at once.
    let mut missing = Vec::new();
    for named in wanted {
        if let Some(failure) = named.look(session, time).await? {
            missing.push((named, failure));
        }
    }
    let of_kind = |kind: &str| {
        let missing: Vec<_> = missing.iter().filter(|(named, _)| named.kind() == kind).collect();
        match missing.as_slice() {
            [] => None,
            [(_, failure)] => Some(failure.clone()),
            [(_, first), ..] => {
                let names: Vec<_> = missing.iter().map(|(named, _)| named.name()).collect();
                let text = format!("look for {kind}s {}: the broker has none of them; {CREATE}", names.join(", "));
                Some(Failure::new(first.class, first.code, text))
            }
        }
    };
    delaybridge_sink::together(BrokerObject::KINDS.into_iter().filter_map(of_kind).collect())?;
    Ok(undeclared)
}

/// Lists what [`declare`] would make, without making it. Existing objects are declared again, which changes nothing and
/// is refused if they have other properties. A binding is always listed, because AMQP has no way to look for one.
async fn undeclared(
    session: &Arc<AmqpSession>,
    topology: &AmqpTopology,
    time: Duration,
) -> Result<Vec<String>, Failure> {
    let AmqpTopology { exchange, durable, queue, .. } = topology;
    let mut undeclared = Vec::new();
    if !exchange.is_empty() {
        let named = BrokerObject::Exchange(exchange.as_str().into());
        match named.look(session, time).await? {
            Some(_) => undeclared.push(named.to_string()),
            None => declare_exchange(&channels::open(session, time).await?, topology, time).await?,
        }
    }
    if let Some(queue) = queue {
        let named = BrokerObject::Queue(queue.name.as_str().into());
        match named.look(session, time).await? {
            Some(_) => undeclared.push(named.to_string()),
            None => declare_queue(&channels::open(session, time).await?, queue, *durable, time).await?,
        }
        if !exchange.is_empty() {
            let key = &queue.binding_key;
            undeclared.push(format!("binding of queue {} to exchange {exchange} with key `{key}`", queue.name));
        }
    }
    Ok(undeclared)
}

/// Advice about a missing object.
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
