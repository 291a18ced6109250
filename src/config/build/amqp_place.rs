//! Exchanges as destinations.

use super::place::At;
use super::sink::Sink;
use crate::config::keys::{Key, amqp_properties, to};
use crate::config::model::TargetSpec;
use crate::config::problem::Spot;
use crate::config::reader::Section;
use crate::message::AmqpProperty;
use crate::route::{Template, fit};

/// The destination keys of an AMQP sink; absent is what was not written.
#[derive(Default)]
pub(super) struct AmqpPlace {
    pub(super) exchange: Option<(Template, Spot)>,
    pub(super) routing_key: Option<(Template, Spot)>,
    properties: Vec<(AmqpProperty, Template, Spot)>,
    /// Whether exchange or routing key were written, be it one that cannot be read.
    written: bool,
    /// Whether one of them cannot be read, which is reported.
    broken: bool,
}

impl AmqpPlace {
    /// Reads the keys of a sink or a route. A sink's `properties` would be another thing; it has none.
    pub(super) fn read(section: &Section<'_>) -> AmqpPlace {
        let template = |key| section.template(key).map(|template| (template, section.spot(key)));
        let (exchange, routing_key) = (template(&to::EXCHANGE), template(&to::ROUTING_KEY));
        AmqpPlace {
            broken: (section.has(&to::EXCHANGE) && exchange.is_none())
                || (section.has(&to::ROUTING_KEY) && routing_key.is_none()),
            exchange,
            routing_key,
            properties: section.opt_section(&to::PROPERTIES).map(|section| properties(&section)).unwrap_or_default(),
            written: section.has(&to::EXCHANGE) || section.has(&to::ROUTING_KEY),
        }
    }

    /// The target, from these keys of the route and those of its sink.
    pub(super) fn target(&self, at: &At<'_, '_>, sink: &Sink<'_>) -> Option<(TargetSpec, Spot)> {
        let report = &at.section.cx.report;
        let sinks = &sink.place.amqp;
        if !self.written && !sinks.written {
            let message = format!("no destination: sink `{}` names no exchange and no routing key", sink.name);
            let help = "write `exchange: NAME`, or `routing_key: QUEUE` for the default exchange, here or on the sink";
            report.problem(&at.section.spot, message, help);
            return None;
        }
        if self.broken || sinks.broken {
            return None;
        }
        let exchange = self.exchange.as_ref().or(sinks.exchange.as_ref());
        let routing_key = self.routing_key.as_ref().or(sinks.routing_key.as_ref());
        let (_, spot) = exchange.or(routing_key)?;
        for (template, spot) in exchange.into_iter().chain(routing_key) {
            at.fits(template, spot);
            check_text(at.section, template, spot);
        }
        for (property, template, spot) in &self.properties {
            at.fits(template, spot);
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
        let target =
            TargetSpec::AmqpExchange { exchange: part(exchange)?, routing_key: part(routing_key)?, properties };
        Some((target, spot.clone()))
    }
}

fn properties(section: &Section<'_>) -> Vec<(AmqpProperty, Template, Spot)> {
    let key = |property| -> &'static Key {
        match property {
            AmqpProperty::ContentType => &amqp_properties::CONTENT_TYPE,
            AmqpProperty::ContentEncoding => &amqp_properties::CONTENT_ENCODING,
            AmqpProperty::Priority => &amqp_properties::PRIORITY,
            AmqpProperty::CorrelationId => &amqp_properties::CORRELATION_ID,
            AmqpProperty::ReplyTo => &amqp_properties::REPLY_TO,
            AmqpProperty::Expiration => &amqp_properties::EXPIRATION,
            AmqpProperty::Type => &amqp_properties::TYPE,
        }
    };
    let read = |property| {
        let key = key(property);
        Some((property, section.template(key)?, section.spot(key)))
    };
    AmqpProperty::ALL.into_iter().filter_map(read).collect()
}

fn check_property(section: &Section<'_>, property: AmqpProperty, template: &Template, spot: &Spot) {
    if let Some(problem) = template.static_text().and_then(|text| fit::amqp_property(property, text)) {
        let help = match property {
            AmqpProperty::Priority => "write `priority: 5`",
            AmqpProperty::Expiration => "write `expiration: 60000` for a minute",
            _ => "AMQP cannot carry more",
        };
        section.cx.report.problem(spot, problem, help);
    }
}

fn check_text(section: &Section<'_>, template: &Template, spot: &Spot) {
    if let Some(problem) = template.static_text().and_then(fit::amqp_text) {
        section.cx.report.problem(spot, problem, "AMQP cannot carry more");
    }
}
