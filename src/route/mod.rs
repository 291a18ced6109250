//! From a payload to a destination, a body and headers. Pure.
//!
//! Knows no sink and no broker: it fills the templates that the configuration compiled and wraps the payload in its
//! envelope. Whatever it cannot fill is an error that ends as a dead letter; it never makes up a value.

mod cloud_events;
mod envelope;
pub mod fit;
mod preview;
mod template;

use std::sync::Arc;

use bytes::Bytes;
use redisson_codecs::Payload;

use crate::config::{Envelope, RouteSpec, TargetSpec};
use crate::message::{AmqpProperty, Destination, MessageId};

pub use preview::{Misfit, preview};
pub use template::{Template, TemplateError};

/// What is known of an element besides its payload.
#[derive(Clone, Copy, Debug)]
pub struct ElementInfo<'a> {
    /// Identity, the same at every attempt.
    pub id: MessageId,
    /// The queue's id in the configuration.
    pub queue: &'a str,
    /// Due time in milliseconds since the epoch; unknown for elements of the ready list.
    pub due_ms: Option<i64>,
    /// Number of this attempt, starting at 1.
    pub attempt: u32,
}

/// An element with nothing left to decide for one destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routed {
    /// Where the sink puts it.
    pub destination: Destination,
    /// The bytes to deliver.
    pub body: Bytes,
    /// Those of the envelope, then the user's, in the order of the configuration.
    pub headers: Vec<(Arc<str>, String)>,
}

/// The element cannot be routed, now or later: a dead letter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// A template asks for something that the element does not have, and names no default.
    #[error(
        "fill template of {place}: the element has no text, number or boolean `{field}`; a default is written `${{{field}:-...}}`"
    )]
    MissingField {
        /// The configuration key whose template it is.
        place: String,
        /// The field as the template names it; never its value.
        field: Arc<str>,
    },
    /// The filled template is an empty key.
    #[error("fill template of {place}: the result is empty")]
    EmptyDestination {
        /// The configuration key whose template it is.
        place: &'static str,
    },
    /// The filled template is nothing that the destination could be.
    #[error("fill template of {place}: {why}")]
    Unfit {
        /// The configuration key whose template it is.
        place: String,
        /// What is wrong; never the value.
        why: &'static str,
    },
}

impl RouteError {
    /// Short stable code, safe as a metric label and in dead letters.
    pub fn code(&self) -> &'static str {
        match self {
            RouteError::MissingField { .. } => "template_field_missing",
            RouteError::EmptyDestination { .. } => "template_result_empty",
            RouteError::Unfit { .. } => "template_result_unfit",
        }
    }
}

/// Fills the templates of `spec` and wraps the payload.
///
/// With envelope `raw` and static templates nothing is copied: body and key share the memory of payload and template.
/// A payload that its codec refused and that is forwarded all the same comes as [`Payload::opaque`]: templates on it
/// have no value, envelope `decoded` leaves it as it is, envelope `json` writes it as base64.
///
/// # Errors
/// When a template has nothing to put in, or when what comes out is empty or cannot be a destination.
pub fn route(spec: &RouteSpec, element: &ElementInfo<'_>, payload: &Payload) -> Result<Routed, RouteError> {
    let key = |template: &Template, place| match fill_bytes(template, place, element, payload)? {
        key if key.is_empty() => Err(RouteError::EmptyDestination { place }),
        key => Ok(key),
    };
    let destination = match &spec.target {
        TargetSpec::RedisList { key: template, push, exactly_once: _ } => {
            Destination::RedisList { key: key(template, "list")?, push: *push }
        }
        TargetSpec::RedisStream { key: template, max_len } => {
            Destination::RedisStream { key: key(template, "stream")?, max_len: *max_len }
        }
        TargetSpec::KafkaTopic { topic, key } => Destination::KafkaTopic {
            topic: match fill_text(topic, "topic", fit::topic, element, payload)? {
                topic if topic.is_empty() => return Err(RouteError::EmptyDestination { place: "topic" }),
                topic => topic,
            },
            key: key.as_ref().map(|key| fill_bytes(key, "key", element, payload)).transpose()?,
        },
        TargetSpec::AmqpExchange { exchange, routing_key, properties } => Destination::AmqpExchange {
            // Both may be empty: the default exchange, and a fanout's routing key.
            exchange: fill_text(exchange, "exchange", fit::amqp_text, element, payload)?,
            routing_key: fill_text(routing_key, "routing_key", fit::amqp_text, element, payload)?,
            properties: amqp_properties(spec.envelope, properties, element, payload)?,
        },
        TargetSpec::Stdout => Destination::Stdout,
    };
    let header = |(name, template): &(Arc<str>, Template)| match template.fill(element, payload) {
        Ok(value) => Ok((name.clone(), value)),
        Err(field) => Err(RouteError::MissingField { place: format!("headers.{name}"), field }),
    };
    let mut headers = match spec.envelope {
        Envelope::CloudEvents => cloud_events::headers(element, payload),
        Envelope::Raw | Envelope::Decoded | Envelope::Json => Vec::with_capacity(spec.headers.len()),
    };
    for filled in spec.headers.iter().map(header) {
        headers.push(filled?);
    }
    Ok(Routed { destination, headers, body: envelope::wrap(spec.envelope, element, payload) })
}

fn fill_bytes(
    template: &Template,
    place: &'static str,
    element: &ElementInfo<'_>,
    payload: &Payload,
) -> Result<Bytes, RouteError> {
    if let Some(bytes) = template.static_bytes() {
        return Ok(bytes.clone());
    }
    let filled = template.fill(element, payload);
    filled.map(Bytes::from).map_err(|field| RouteError::MissingField { place: place.to_owned(), field })
}

fn fill_text(
    template: &Template,
    place: &'static str,
    unfit: fn(&str) -> Option<&'static str>,
    element: &ElementInfo<'_>,
    payload: &Payload,
) -> Result<Arc<str>, RouteError> {
    if let Some(text) = template.static_shared() {
        return Ok(text.clone());
    }
    let text =
        template.fill(element, payload).map_err(|field| RouteError::MissingField { place: place.to_owned(), field })?;
    match unfit(&text) {
        Some(why) => Err(RouteError::Unfit { place: place.to_owned(), why }),
        None => Ok(text.into()),
    }
}

/// The filled properties; in AMQP the media type of an event is one of them.
fn amqp_properties(
    envelope: Envelope,
    templates: &[(AmqpProperty, Template)],
    element: &ElementInfo<'_>,
    payload: &Payload,
) -> Result<Vec<(AmqpProperty, String)>, RouteError> {
    let content_type =
        (envelope == Envelope::CloudEvents).then(|| (AmqpProperty::ContentType, payload.media_type().to_owned()));
    let mut properties: Vec<_> = content_type.into_iter().collect();
    for (property, template) in templates {
        let place = || format!("properties.{}", property.as_str());
        let value =
            template.fill(element, payload).map_err(|field| RouteError::MissingField { place: place(), field })?;
        if let Some(why) = fit::amqp_property(*property, &value) {
            return Err(RouteError::Unfit { place: place(), why });
        }
        properties.push((*property, value));
    }
    Ok(properties)
}

#[cfg(test)]
mod tests;
