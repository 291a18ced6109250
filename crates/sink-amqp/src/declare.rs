//! `topology: declare`: the exchange, queue and binding that an AMQP sink makes at every connect.

use serde::Serialize;
use serde_json::{Map, Value};

use super::target::{AmqpKeys, unfit_text};
use delaybridge_core::template::Template;
use delaybridge_settings::keys::{Key, nearest};
use delaybridge_settings::problem::{Report, Spot};
use delaybridge_settings::reader::{Scalar, Section, clip};
use delaybridge_settings::words::words;
use delaybridge_settings::{Settings, shown};

/// An exchange, and a queue bound to it. If they exist, they must have the same properties.
#[derive(Settings)]
#[settings(amqp_declare, at = "sinks.NAME.amqp.declare", hidden)]
pub(super) struct DeclareKeys {
    /// Name of the exchange. Default: the sink's `exchange`.
    #[key(Kind::Text)]
    exchange: Option<Scalar>,
    /// `direct`, `fanout`, `topic`, `headers`, or a plugin's type (`x-...`).
    #[key(Kind::Text, default = "direct", name = "type", read = exchange_kind)]
    kind: String,
    /// Exchange and queue survive a restart of the broker.
    #[key(Kind::Flag, default = "true")]
    durable: bool,
    /// A queue. If omitted, only the exchange is declared.
    #[key(Kind::Section(&amqp_queue::TABLE))]
    queue: Option<DeclaredQueueKeys>,
}

/// The queue to declare and bind.
#[derive(Settings)]
#[settings(amqp_queue, at = "sinks.NAME.amqp.declare.queue", hidden)]
pub(super) struct DeclaredQueueKeys {
    #[settings(read = Section::place)]
    place: Spot,
    /// Name of the queue.
    #[key(Kind::Text, required)]
    name: Option<Scalar>,
    /// The argument `x-queue-type`. Default: the vhost's.
    #[key(word::<QueueType>(), name = "type")]
    kind: Option<(QueueType, Spot)>,
    /// Further arguments, such as `x-max-length`.
    #[key(Kind::Scalars, read = arguments)]
    arguments: (Vec<(String, AmqpArgument)>, Spot),
    /// Key of the binding. Default: the sink's `routing_key` if it is not a template; empty for `fanout` and `headers`.
    #[key(Kind::TextOrEmpty)]
    binding_key: Option<Scalar>,
}

/// An exchange, and what is bound to it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AmqpTopology {
    /// The exchange; empty is the default exchange, which cannot be declared.
    pub exchange: String,
    /// `direct`, `fanout`, `topic`, `headers`, or a plugin's.
    #[serde(rename = "type")]
    pub exchange_kind: String,
    /// Whether exchange and queue survive a restart of the broker.
    pub durable: bool,
    /// A queue that is declared as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<AmqpQueue>,
}

impl AmqpTopology {
    /// Returns the declarations, in the shape of the YAML. The default exchange has no type, and needs no binding.
    pub(super) fn settings(&self) -> Map<String, Value> {
        let mut fields = shown::fields(self);
        if self.exchange.is_empty() {
            fields.shift_remove("exchange");
            fields.shift_remove("type");
            if let Some(queue) = fields.get_mut("queue").and_then(Value::as_object_mut) {
                queue.shift_remove("binding_key");
            }
        }
        fields
    }
}

/// A queue that is declared and bound.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AmqpQueue {
    /// Name of the queue.
    pub name: String,
    /// `x-queue-type`, `x-max-length` and the like: booleans, whole numbers and texts.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "shown::pairs")]
    pub arguments: Vec<(String, AmqpArgument)>,
    /// Binding key to the exchange.
    pub binding_key: String,
}

words! {
    /// The types of queues.
    enum QueueType {
        /// `classic`.
        Classic = "classic",
        /// `quorum`.
        Quorum = "quorum",
        /// `stream`.
        Stream = "stream",
    }
}

/// An argument of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum AmqpArgument {
    /// `true` or `false`.
    Flag(bool),
    /// A whole number.
    Number(i64),
    /// Text.
    Text(String),
}

const KINDS: [&str; 4] = ["direct", "fanout", "topic", "headers"];

/// Reads what `section` declares, if it is `wanted`; `keys` have the exchange and routing key that are declared when nothing
/// else is named.
pub(super) fn topology(section: &Section<'_>, wanted: bool, keys: &AmqpKeys) -> Option<AmqpTopology> {
    let DeclareKeys { exchange, kind, durable, queue } = DeclareKeys::of(section);
    let exchange = match (exchange, wanted) {
        (_, false) => String::new(),
        (Some(name), true) => named(section, name),
        (None, true) => default_exchange(section, keys, queue.is_some()),
    };
    let queue = queue.and_then(|queue| self::queue(section, queue, (&exchange, &kind), durable, keys));
    wanted.then_some(AmqpTopology { exchange, exchange_kind: kind, durable, queue })
}

fn exchange_kind(section: &Section<'_>, key: &Key) -> String {
    let Some(kind) = section.text(key) else { return String::new() };
    if !KINDS.contains(&kind.value.as_str()) && !kind.value.starts_with("x-") {
        let help = match nearest(&kind.value, KINDS) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "possible here: direct, fanout, topic, headers, x-...".to_owned(),
        };
        let message = format!("`{}` is no type of exchange", clip(&kind.written));
        section.cx.report.problem(&kind.spot, message, help);
    }
    kind.value
}

fn named(section: &Section<'_>, name: Scalar) -> String {
    check_name(section, &name.value, &name.spot);
    name.value
}

/// Reports names that AMQP cannot carry, or that the broker reserves: the broker keeps `amq.` to itself, and no name is
/// longer than a short string.
fn check_name(section: &Section<'_>, name: &str, spot: &Spot) {
    if unfit_text(name).is_some() {
        section.cx.report.problem(spot, "the name is longer than 255 bytes", "AMQP cannot carry more");
    }
    if name.starts_with("amq.") {
        let help = "what is named so is there already; write `topology: expect`, or choose another name";
        section.cx.report.problem(spot, "names that begin with `amq.` belong to the broker", help);
    }
}

/// Returns the sink's exchange, which has to be one that is the same for every element.
fn default_exchange(section: &Section<'_>, keys: &AmqpKeys, queue: bool) -> String {
    let report = &section.cx.report;
    if let Some((template, spot)) = &keys.exchange {
        match template.static_text() {
            Some("") => {}
            Some(name) => {
                check_name(section, name, spot);
                return name.to_owned();
            }
            None => {
                let message = "an exchange that differs from element to element cannot be declared at connect";
                report.problem(spot, message, "write `exchange: NAME` under `declare`, or `topology: expect`");
                return String::new();
            }
        }
    }
    // A queue alone is reached through the default exchange.
    if !queue {
        let help = "write `exchange: NAME` or `queue: { name: NAME }` under `declare`";
        report.problem(&section.spot, "there is nothing to declare", help);
    }
    String::new()
}

/// Returns the queue of these keys, bound to an exchange of this name and kind.
fn queue(
    section: &Section<'_>,
    queue: DeclaredQueueKeys,
    exchange: (&str, &str),
    durable: bool,
    keys: &AmqpKeys,
) -> Option<AmqpQueue> {
    let report = &section.cx.report;
    let DeclaredQueueKeys { place, name, kind, arguments: (mut arguments, arguments_spot), binding_key } = queue;
    if let Some((queue_type, spot)) = kind {
        if arguments.iter().any(|(name, _)| name == "x-queue-type") {
            report.problem(&spot, "there is both `type` and `x-queue-type`", "keep one of them");
        }
        arguments.insert(0, ("x-queue-type".to_owned(), AmqpArgument::Text(queue_type.as_str().to_owned())));
    }
    let text = |wanted: &str| arguments.iter().find(|(name, _)| name == wanted).map(|(_, value)| value);
    if let (Some(AmqpArgument::Text(queue_type)), false) = (text("x-queue-type"), durable)
        && queue_type != "classic"
    {
        let message = format!("a {queue_type} queue is always durable");
        report.problem(&place, message, "remove `durable: false`");
    }
    let bounded = text("x-max-length").or(text("x-max-length-bytes")).is_some();
    let refuses = matches!(text("x-overflow"), Some(AmqpArgument::Text(way)) if way.starts_with("reject-publish"));
    if bounded && !refuses {
        let message = "a full queue drops its oldest messages, which were delivered and confirmed";
        report.warning(&arguments_spot, message, "add `x-overflow: reject-publish`");
    }
    let binding_key = self::binding_key(report, &place, binding_key, exchange, keys);
    let name = name?;
    check_name(section, &name.value, &name.spot);
    Some(AmqpQueue { name: name.value, arguments, binding_key })
}

fn binding_key(
    report: &Report,
    place: &Spot,
    written: Option<Scalar>,
    (exchange, kind): (&str, &str),
    keys: &AmqpKeys,
) -> String {
    if exchange.is_empty() {
        if let Some(written) = written {
            let message = "every queue is bound to the default exchange by its name, and by nothing else";
            report.problem(&written.spot, message, "remove `binding_key`, or name an exchange");
        }
        return String::new();
    }
    let sinks = keys.routing_key.as_ref().and_then(|(template, _)| Template::static_text(template));
    match (written, sinks) {
        (Some(written), _) => written.value,
        (None, Some(routing_key)) => routing_key.to_owned(),
        (None, None) => {
            if matches!(kind, "direct" | "topic") {
                let help = match kind {
                    "topic" => "write `binding_key: '#'` for everything",
                    _ => "write the routing key that the queue takes",
                };
                let message = "`binding_key` is missing, and the sink names no fixed routing key";
                report.problem(place, message, help);
            }
            String::new()
        }
    }
}

fn arguments(section: &Section<'_>, key: &Key) -> (Vec<(String, AmqpArgument)>, Spot) {
    let read = |(name, value): (String, Scalar)| {
        // A variable is text to YAML, whatever it holds.
        let variable = !value.is_plain();
        let argument = match (value.kind(), value.value.as_str()) {
            ("true or false", flag) => Some(AmqpArgument::Flag(flag == "true")),
            ("a number", number) => number.parse().ok().map(AmqpArgument::Number),
            (_, flag @ ("true" | "false")) if variable => Some(AmqpArgument::Flag(flag == "true")),
            (_, text) => match text.parse() {
                Ok(number) if variable => Some(AmqpArgument::Number(number)),
                _ => Some(AmqpArgument::Text(text.to_owned())),
            },
        };
        if argument.is_none() {
            let help = "write a whole number, text, `true` or `false`";
            section.cx.report.problem(&value.spot, "the number is not whole, or too large", help);
        }
        Some((name, argument?))
    };
    (section.scalars(key).into_iter().filter_map(read).collect(), section.spot(key))
}
