//! Exchanges as destinations: the keys under `to:`, the target that they make, and the destination of one element.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value};

use delaybridge_core::message::About;
use delaybridge_core::template::{FillError, Filler, Template};
use delaybridge_settings::keys::{Group, Key};
use delaybridge_settings::problem::Spot;
use delaybridge_settings::reader::Section;
use delaybridge_settings::words::words;
use delaybridge_settings::{Settings, shown};
use delaybridge_sink::header_rules;
use delaybridge_sink::headers;
use delaybridge_sink::kind::RouteSite;
use delaybridge_sink::{Destination, Fixed, HeaderRules, RouteHeaders, SinkAddress, Target};

/// The kind in the configuration.
pub(super) const NAME: &str = "amqp";

/// The keys of a destination under `to:`.
pub(super) const KEYS: &[Key] = destination::OWN;
/// The keys that dead letters may use.
pub(super) const DEAD_LETTER_KEYS: &[Key] = &[destination::EXCHANGE, destination::ROUTING_KEY];
/// The keys that may be defaults on the sink.
pub(super) static ON_SINK: &[Group] = &[Group { of: None, keys: DEAD_LETTER_KEYS }];

/// Properties of an AMQP message, beside `timestamp` (the due time), `app_id` (`delaybridge`) and `message_id` (different
/// at every attempt).
#[derive(Settings)]
#[settings(amqp_properties, at = "queues.NAME.to[].properties", hidden)]
pub(super) struct PropertyKeys {
    /// MIME type of the body.
    #[key(Kind::Template)]
    content_type: Option<(Template, Spot)>,
    /// MIME encoding of the body.
    #[key(Kind::Template)]
    content_encoding: Option<(Template, Spot)>,
    /// 0 to 255, for queues declared with priorities.
    #[key(Kind::NumberTemplate)]
    priority: Option<(Template, Spot)>,
    /// Id of the message to which this one replies.
    #[key(Kind::Template)]
    correlation_id: Option<(Template, Spot)>,
    /// Address for replies.
    #[key(Kind::Template)]
    reply_to: Option<(Template, Spot)>,
    /// Milliseconds after which the broker may drop the message.
    #[key(Kind::NumberTemplate)]
    expiration: Option<(Template, Spot)>,
    /// The application's name for this kind of message.
    #[key(Kind::Template, name = "type")]
    kind: Option<(Template, Spot)>,
}

impl PropertyKeys {
    /// Returns the properties that are written, in the order of the reference.
    fn written(self) -> Vec<(AmqpProperty, Template, Spot)> {
        let all = [
            (AmqpProperty::ContentType, self.content_type),
            (AmqpProperty::ContentEncoding, self.content_encoding),
            (AmqpProperty::Priority, self.priority),
            (AmqpProperty::CorrelationId, self.correlation_id),
            (AmqpProperty::ReplyTo, self.reply_to),
            (AmqpProperty::Expiration, self.expiration),
            (AmqpProperty::Type, self.kind),
        ];
        let written = |(property, value): (_, Option<_>)| value.map(|(template, spot)| (property, template, spot));
        all.into_iter().filter_map(written).collect()
    }
}

/// A message published to an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AmqpDestination {
    /// The exchange; empty is the default exchange, where the routing key is a queue's name.
    pub exchange: Arc<str>,
    /// The routing key.
    pub routing_key: Arc<str>,
    /// Properties of the message beside those that every message gets.
    pub properties: Vec<(AmqpProperty, String)>,
}

impl SinkAddress for AmqpDestination {
    fn lane(&self) -> [&str; 2] {
        [&self.exchange, &self.routing_key]
    }

    fn fields(&self) -> Vec<(String, Bytes)> {
        let text = |text: &str| Bytes::copy_from_slice(text.as_bytes());
        let own = [(destination::EXCHANGE.name, &self.exchange), (destination::ROUTING_KEY.name, &self.routing_key)];
        let own = own.map(|(name, value)| (name.to_owned(), text(value)));
        let property = |(property, value): &(AmqpProperty, String)| {
            (format!("{}.{property}", destination::PROPERTIES.name), text(value))
        };
        own.into_iter().chain(self.properties.iter().map(property)).collect()
    }

    fn carries_traces(&self) -> bool {
        true
    }
}

impl fmt::Display for AmqpDestination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AmqpDestination { exchange, routing_key, .. } = self;
        match &**exchange {
            "" => write!(f, "default exchange, routing key {routing_key}"),
            exchange => write!(f, "exchange {exchange}, routing key {routing_key}"),
        }
    }
}

words! {
    /// A property of an AMQP message that the user may set. Its name is the one in the AMQP 0-9-1 specification with `_` for
    /// `-`.
    pub enum AmqpProperty {
        /// MIME type of the body.
        ContentType = "content_type",
        /// MIME encoding of the body.
        ContentEncoding = "content_encoding",
        /// 0 to 255; more matters more, in queues that were declared with priorities.
        Priority = "priority",
        /// Id of the message to which this one replies.
        CorrelationId = "correlation_id",
        /// Address for replies.
        ReplyTo = "reply_to",
        /// Milliseconds after which the broker may drop the message.
        Expiration = "expiration",
        /// The application's name for this kind of message.
        Type = "type",
    }
}

impl fmt::Display for AmqpProperty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An exchange and a routing key, with the templates compiled.
#[derive(Debug, Clone, Serialize)]
pub struct AmqpTarget {
    /// Template of the exchange.
    pub exchange: Template,
    /// Template of the routing key.
    pub routing_key: Template,
    /// Templates of the message's properties.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "shown::pairs")]
    pub properties: Vec<(AmqpProperty, Template)>,
    /// The destination of every element without a media type of its own, if there are no holes to fill.
    #[serde(skip)]
    constant: Option<Destination>,
}

impl AmqpTarget {
    /// Creates the target for messages with this routing key and these properties at this exchange.
    pub fn new(exchange: Template, routing_key: Template, properties: Vec<(AmqpProperty, Template)>) -> AmqpTarget {
        let fixed = exchange.static_shared().cloned().zip(routing_key.static_shared().cloned());
        let constant = fixed
            .filter(|_| properties.is_empty())
            .map(|(exchange, routing_key)| AmqpDestination { exchange, routing_key, properties: Vec::new() }.into());
        AmqpTarget { exchange, routing_key, properties, constant }
    }

    /// Fills the properties; in AMQP the media type of the body is one of them.
    fn properties(&self, from: &Filler<'_>) -> Result<Vec<(AmqpProperty, String)>, FillError> {
        let content_type = from.content_type().map(|text| (AmqpProperty::ContentType, text.to_owned()));
        let mut properties: Vec<_> = content_type.into_iter().collect();
        for (property, template) in &self.properties {
            let place = || format!("{}.{property}", destination::PROPERTIES.name);
            let value = from.text(template, &format_args!("{}.{property}", destination::PROPERTIES.name))?;
            if let Some(why) = unfit_property(*property, &value) {
                return Err(FillError::Unfit { place: place(), why });
            }
            properties.push((*property, value));
        }
        Ok(properties)
    }
}

impl Target for AmqpTarget {
    fn fill(&self, from: &Filler<'_>) -> Result<Destination, FillError> {
        if let (Some(constant), None) = (&self.constant, from.content_type()) {
            return Ok(constant.clone());
        }
        let destination = AmqpDestination {
            // Both may be empty: the default exchange, and a fanout's routing key.
            exchange: from.fitting(&self.exchange, destination::EXCHANGE.name, unfit_text)?,
            routing_key: from.fitting(&self.routing_key, destination::ROUTING_KEY.name, unfit_text)?,
            properties: self.properties(from)?,
        };
        Ok(destination.into())
    }

    fn choosing(&self, about: About) -> [Option<&Template>; 2] {
        [Some(&self.exchange), (about == About::Route).then_some(&self.routing_key)]
    }

    fn keys(&self) -> Map<String, Value> {
        shown::fields(self)
    }

    fn place(&self) -> Option<String> {
        Some(format!("{} {}", self.exchange.source(), self.routing_key.source()))
    }

    fn fixed(&self) -> Option<Fixed> {
        let exchange = self.exchange.static_shared()?.clone();
        // Whether an exchange is there does not depend on the routing key; the default exchange always is.
        let (routing_key, name) = if exchange.is_empty() {
            let queue = self.routing_key.usual_text()?;
            let name = format!("queue {queue}");
            (queue, name)
        } else {
            ("".into(), format!("exchange {exchange}"))
        };
        let destination = AmqpDestination { exchange, routing_key, properties: Vec::new() }.into();
        Some(Fixed { destination, name })
    }

    fn header_rules(&self) -> &'static HeaderRules {
        &header_rules::AMQP
    }

    fn check_headers(&self, headers: &RouteHeaders<'_, '_>) {
        let report = &headers.section.cx.report;
        if headers.envelope.is_some()
            && self.properties.iter().any(|(property, _)| *property == AmqpProperty::ContentType)
        {
            let message = "envelope cloudevents has `content_type` already";
            let help = "remove it: the codec says what the payload is";
            report.problem(&headers.section.spot(&destination::PROPERTIES), message, help);
        }
        for (_, spot) in headers.names.iter().filter(|(name, _)| unfit_text(name).is_some()) {
            report.problem(spot, "the header's name is longer than 255 bytes", "AMQP cannot carry more");
        }
        for (name, spot) in headers.names.iter().filter(|(name, _)| ["CC", "BCC"].contains(name)) {
            let message =
                format!("RabbitMQ expects a list of routing keys in `{name}`, and closes the channel for a text");
            report.problem(spot, message, "remove it; bind further queues to the exchange");
        }
        headers.refuse("every message", headers::is_standard);
    }
}

/// The keys as they were written; absent is what was not.
#[derive(Default, Settings)]
#[settings(destination, at = "queues.NAME.to[]", hidden)]
pub(super) struct AmqpKeys {
    /// Exchange. Empty: the default exchange.
    #[key(Kind::TemplateOrEmpty)]
    pub(super) exchange: Option<(Template, Spot)>,
    /// Routing key. Default: empty.
    #[key(Kind::TemplateOrEmpty)]
    pub(super) routing_key: Option<(Template, Spot)>,
    /// Properties of the message.
    #[key(Kind::Section(&amqp_properties::TABLE), later = Vec::new())]
    properties: Vec<(AmqpProperty, Template, Spot)>,
    #[settings(has = destination::EXCHANGE)]
    has_exchange: bool,
    #[settings(has = destination::ROUTING_KEY)]
    has_routing_key: bool,
}

impl AmqpKeys {
    /// Reads the keys of a route. Those of dead letters and of sinks have no `properties`.
    pub(super) fn of_route(at: &RouteSite<'_, '_>) -> AmqpKeys {
        let section = if at.dead { None } else { at.section.opt_section(&destination::PROPERTIES) };
        let properties = section.map(|section| PropertyKeys::of(&section).written()).unwrap_or_default();
        AmqpKeys { properties, ..AmqpKeys::of(at.section) }
    }

    /// Returns whether exchange or routing key were written, be it one that cannot be read.
    fn is_written(&self) -> bool {
        self.has_exchange || self.has_routing_key
    }

    /// Returns whether one of them cannot be read, which is reported.
    fn is_broken(&self) -> bool {
        self.has_exchange && self.exchange.is_none() || self.has_routing_key && self.routing_key.is_none()
    }

    /// Returns the target, from these keys of the route and those of its sink.
    pub(super) fn target(&self, at: &RouteSite<'_, '_>, sinks: &AmqpKeys) -> Option<(Arc<dyn Target>, Spot)> {
        let report = at.report();
        if !self.is_written() && !sinks.is_written() && !at.carried {
            let message = format!("no destination: sink `{}` names no exchange and no routing key", at.sink);
            let help = "write `exchange: NAME`, or `routing_key: QUEUE` for the default exchange, here or on the sink";
            report.problem(&at.section.spot, message, help);
            return None;
        }
        if self.is_broken() || sinks.is_broken() {
            return None;
        }
        let exchange = self.exchange.as_ref().or(sinks.exchange.as_ref());
        let own = self.routing_key.as_ref().or(sinks.routing_key.as_ref());
        let addressed = at.carried.then(|| match own {
            Some((template, spot)) => (template.clone().addressed(), spot.clone()),
            None => (Template::original_key().addressed(), at.section.spot.clone()),
        });
        let routing_key = addressed.as_ref().or(own);
        let (_, spot) = exchange.or(routing_key)?;
        for (template, spot) in exchange.into_iter().chain(routing_key) {
            (at.fits)(template, spot);
            check_text(at.section, template, spot);
        }
        for (property, template, spot) in &self.properties {
            (at.fits)(template, spot);
            check_property(at.section, *property, template, spot);
        }
        let empty = |part: Option<&(Template, Spot)>| part.is_none_or(|(part, _)| part.static_text() == Some(""));
        if empty(exchange) && empty(routing_key) {
            let help = "write `exchange: NAME`, or `routing_key: QUEUE`";
            report.problem(spot, "the default exchange needs the name of a queue as its routing key", help);
        }
        let part = |part: Option<&(Template, Spot)>| match part {
            Some((part, _)) => Some(part.clone()),
            None => Template::compile("").ok(),
        };
        let properties = self.properties.iter().map(|(property, value, _)| (*property, value.clone())).collect();
        let target = AmqpTarget::new(part(exchange)?, part(routing_key)?, properties);
        Some((Arc::new(target), spot.clone()))
    }
}

fn check_property(section: &Section<'_>, property: AmqpProperty, template: &Template, spot: &Spot) {
    if let Some(problem) = template.static_text().and_then(|text| unfit_property(property, text)) {
        let help = match property {
            AmqpProperty::Priority => "write `priority: 5`",
            AmqpProperty::Expiration => "write `expiration: 60000` for a minute",
            _ => "AMQP cannot carry more",
        };
        section.cx.report.problem(spot, problem, help);
    }
}

fn check_text(section: &Section<'_>, template: &Template, spot: &Spot) {
    if let Some(problem) = template.static_text().and_then(unfit_text) {
        section.cx.report.problem(spot, problem, "AMQP cannot carry more");
    }
}

/// Longest name, key or property of AMQP, in bytes.
const MAX_TEXT: usize = 255;

/// Explains what is wrong with a name, a key or the text of a property. Applied to a fixed text when it is configured, and to a
/// filled template for every element, so that the client never meets one that the protocol cannot carry.
pub(super) fn unfit_text(text: &str) -> Option<&'static str> {
    (text.len() > MAX_TEXT).then_some("the text is longer than 255 bytes")
}

/// Explains what is wrong with the value of a property.
fn unfit_property(property: AmqpProperty, text: &str) -> Option<&'static str> {
    match property {
        AmqpProperty::Priority if text.parse::<u8>().is_err() => Some("the priority is not a number from 0 to 255"),
        AmqpProperty::Expiration if text.parse::<u32>().is_err() => {
            Some("the expiration is not a number of milliseconds")
        }
        _ => unfit_text(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use delaybridge_testing::sink::{filled, template};

    #[test]
    fn an_exchange_a_routing_key_and_properties_are_filled() {
        fn check(exchange: &str, key: &str, properties: &[(AmqpProperty, &str)], expected: &str) {
            let properties = properties.iter().map(|(property, text)| (*property, template(text))).collect();
            let got = match filled(&AmqpTarget::new(template(exchange), template(key), properties)) {
                Ok(destination) => {
                    let AmqpDestination { exchange, routing_key, properties } = destination.of_kind(NAME).unwrap();
                    let properties = properties.iter().map(|(name, value)| format!(" {name}={value}"));
                    format!("{exchange}|{routing_key}{}", properties.collect::<String>())
                }
                Err(error) => error,
            };
            assert_eq!(got, expected);
        }
        check("", "q", &[], "|q");
        check("x.${payload.orderId}", "${queue}", &[], "x.A-7|orders");
        check(
            "x",
            "",
            &[(AmqpProperty::Type, "due"), (AmqpProperty::Priority, "${attempt}")],
            "x| type=due priority=2",
        );
        check(
            "x",
            "",
            &[(AmqpProperty::Priority, "${payload.orderId}")],
            "template_result_unfit fill template of properties.priority: the priority is not a number from 0 to 255",
        );
        check(
            "x",
            "",
            &[(AmqpProperty::Expiration, "${payload.vip}")],
            "template_result_unfit fill template of properties.expiration: the expiration is not a number of milliseconds",
        );
        check(
            "x",
            &"${id}".repeat(16),
            &[],
            "template_result_unfit fill template of routing_key: the text is longer than 255 bytes",
        );
    }

    #[test]
    fn the_media_type_of_an_event_is_a_property() {
        let target = AmqpTarget::new(template("x"), template(""), Vec::new());
        let id = delaybridge_core::message::MessageId([0; 8]).into();
        let element = delaybridge_core::template::ElementInfo {
            id: &id,
            queue: "q",
            due_ms: None,
            attempt: 1,
            topic: None,
            carried: None,
        };
        let filler = Filler::new(&element, &delaybridge_core::template::NoFields, Some("text/plain"));
        let filled = target.fill(&filler).unwrap();
        let AmqpDestination { properties, .. } = filled.of_kind(NAME).unwrap();
        assert_eq!(*properties, [(AmqpProperty::ContentType, "text/plain".to_owned())]);
    }
}
