//! From a payload to a body and headers. Pure.
//!
//! Knows no sink and no broker: it wraps the payload in its envelope and fills the templates of the headers. Where the
//! message goes is the sink's target to say. What cannot be filled is an error that ends as a dead letter; a value is
//! never made up.

mod cloud_events;
mod envelope;
mod fields;

use std::sync::Arc;

use bytes::Bytes;
use redisson_codecs::Payload;
use serde::Serialize;

use crate::template::{FillError, Filler, Template};

pub use crate::template::ElementInfo;

/// What the body of a delivered message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Envelope {
    /// The payload's bytes exactly as they came.
    Raw,
    /// The decoded value: JSON, or a plain string as its text.
    Decoded,
    /// One JSON object with `id`, `queue`, `due_ms`, `attempt`, `payload`.
    Json,
    /// CloudEvents 1.0 in binary mode: the payload's bytes, and headers `ce_*`.
    CloudEvents,
}

/// What a route makes of a payload.
#[derive(Debug, Clone)]
pub struct MessageSpec {
    /// The user's headers.
    pub headers: Vec<(Arc<str>, Template)>,
    /// What the body is.
    pub envelope: Envelope,
}

/// A message with nothing left to decide but where it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The bytes to deliver.
    pub body: Bytes,
    /// Those of the envelope, then the user's, in the order of the configuration.
    pub headers: Vec<(Arc<str>, String)>,
}

impl MessageSpec {
    /// What fills the templates of a message of this kind, those of its target too.
    pub fn filler<'a>(&self, element: &'a ElementInfo<'a>, payload: &'a Payload) -> Filler<'a> {
        let content_type = (self.envelope == Envelope::CloudEvents).then(|| payload.media_type());
        Filler::new(element, payload, content_type)
    }

    /// Wraps the payload and fills the headers.
    ///
    /// With envelope `raw` nothing is copied: the body shares the payload's memory. A payload that its codec refused and
    /// that is forwarded all the same comes as [`Payload::opaque`]: templates on it have no value, envelope `decoded`
    /// leaves it as it is, envelope `json` writes it as base64.
    ///
    /// # Errors
    /// When a template has nothing to put in.
    pub fn message(&self, element: &ElementInfo<'_>, payload: &Payload) -> Result<Message, FillError> {
        let filler = self.filler(element, payload);
        let mut headers = match self.envelope {
            Envelope::CloudEvents => cloud_events::headers(element, payload),
            Envelope::Raw | Envelope::Decoded | Envelope::Json => Vec::with_capacity(self.headers.len()),
        };
        for (name, template) in &self.headers {
            headers.push((name.clone(), filler.text(template, &format_args!("headers.{name}"))?));
        }
        Ok(Message { headers, body: envelope::wrap(self.envelope, element, payload) })
    }
}

#[cfg(test)]
mod tests;
