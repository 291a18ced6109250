//! Turns a payload into a body and headers. Pure.
//!
//! Knows no sink and no broker: it wraps the payload in its envelope and fills the templates of the headers. The sink's
//! target chooses the destination. A template without a value is an error, which ends as a dead letter; no value is ever
//! made up.

mod cloud_events;
mod envelope;

use std::sync::Arc;

use bytes::Bytes;

use crate::Payload;
use delaybridge_core::template::{ElementInfo, FillError, Filler, Template};

pub use self::cloud_events::{EventData, EventMode, EventSpec, SOURCE as EVENT_SOURCE, TYPE as EVENT_TYPE};

/// The body of a delivered message.
#[derive(Debug, Clone, PartialEq)]
pub enum Envelope {
    /// The payload's bytes exactly as they came.
    Raw,
    /// The decoded value: JSON, or a plain string as its text.
    Decoded,
    /// One JSON object with `id`, `queue`, `due_ms`, `attempt`, `payload`.
    Json,
    /// An event of CloudEvents 1.0.
    CloudEvents(Arc<EventSpec>),
}

impl Envelope {
    /// Returns the name in the configuration.
    pub fn as_str(&self) -> &'static str {
        match self {
            Envelope::Raw => "raw",
            Envelope::Decoded => "decoded",
            Envelope::Json => "json",
            Envelope::CloudEvents(_) => "cloudevents",
        }
    }

    /// Returns whether the body is the decoded value and nothing else: then its consumers do not expect any other
    /// bytes.
    pub fn is_decoded(&self) -> bool {
        match self {
            Envelope::Decoded => true,
            Envelope::CloudEvents(event) => event.mode == EventMode::Binary && event.data == EventData::Decoded,
            Envelope::Raw | Envelope::Json => false,
        }
    }
}

/// The recipe by which a route turns payloads into messages.
#[derive(Debug, Clone)]
pub struct MessageSpec {
    /// The user's headers.
    pub headers: Box<[(Arc<str>, Template)]>,
    /// The kind of body.
    pub envelope: Envelope,
}

/// A message with nothing left to decide but where it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteMessage {
    /// The bytes to deliver.
    pub body: Bytes,
    /// The headers of the envelope, then the user's, in the order of the configuration, then those of a message of an input.
    pub headers: Vec<(Arc<str>, String)>,
}

impl MessageSpec {
    /// Returns the values for the templates of a message of this kind and of its target.
    pub fn filler<'a>(&self, element: &'a ElementInfo<'a>, payload: &'a Payload) -> Filler<'a> {
        let content_type = match &self.envelope {
            Envelope::CloudEvents(event) => Some(event.content_type(payload)),
            Envelope::Raw | Envelope::Decoded | Envelope::Json => None,
        };
        Filler::new(element, payload, content_type)
    }

    /// Wraps the payload and fills the headers. Those of a message of an input are not among them: whether they pass
    /// depends on the destination.
    ///
    /// With envelope `raw` nothing is copied: the body shares the payload's memory. A payload that its codec refused and
    /// that is forwarded all the same comes as [`Payload::opaque`]: templates on it have no value, envelope `decoded`
    /// leaves it as it is, envelope `json` writes it as base64.
    ///
    /// # Errors
    /// When a template has nothing to put in.
    pub fn message(&self, element: &ElementInfo<'_>, payload: &Payload) -> Result<RouteMessage, FillError> {
        let filler = self.filler(element, payload);
        let bare = |body| RouteMessage { headers: Vec::new(), body };
        let mut message = match &self.envelope {
            Envelope::Raw => bare(payload.bytes().clone()),
            Envelope::Decoded => bare(payload.decoded()),
            Envelope::Json => bare(envelope::object(element, payload)),
            Envelope::CloudEvents(event) => event.event(&filler, element, payload)?,
        };
        message.headers.reserve_exact(self.headers.len());
        for (name, template) in &self.headers {
            let text = filler.text(template, &format_args!("headers.{name}"))?;
            message.headers.push((name.clone(), text));
        }
        Ok(message)
    }
}

#[cfg(test)]
mod tests;
