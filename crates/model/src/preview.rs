//! The destinations of an element, found out without sending it.

use bytes::Bytes;
use redisson_codecs::Coding;

use super::failures::{OnDecodeError, OnSkipped};
use super::payload::Payload;
use super::queue::{Ordered, QueueSpec};
use super::route::{RouteSpec, routes_taken};
use delaybridge_core::template::{ElementInfo, Fields, FillError, Filler};
use delaybridge_sink::Destination;

/// The reason of an element's end that no destination is meant for.
pub const SKIPPED: &str = "no destination is meant for the element: no `when` holds";

/// The end of an element that would not be handed to its sinks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// A dead letter, for this reason; the reason quotes no payload.
    DeadLetter(String),
    /// A hold of the queue, for this reason.
    Hold(String),
    /// Removal, because no destination is meant for the element.
    Skipped,
}

impl QueueSpec {
    /// Returns the key in which an element is in order with others; `None` where the order is not by key, and for an
    /// element that has none or cannot be read.
    pub fn order_key(&self, element: &ElementInfo<'_>, payload: &Bytes) -> Option<Vec<u8>> {
        let Some(Ordered::Key(template)) = self.order.as_deref() else { return None };
        let payload = self.decode(payload).ok()?;
        match template {
            Some(template) => {
                let key = Filler::new(element, &payload, None).text(template, &"order_key").ok()?;
                Some(key.as_bytes().to_vec())
            }
            None => {
                let destination = self.to.first()?.destination(element, &payload).ok()?;
                destination.record_key().map(<[u8]>::to_vec)
            }
        }
    }

    /// Returns whether templates, conditions or keys find nothing, or something else, only because the payload is a
    /// text that is JSON and is not looked into.
    pub fn overlooks_json(&self, element: &ElementInfo<'_>, payload: &Bytes) -> bool {
        if self.codec.json_in_text || !self.decode(payload).is_ok_and(|payload| payload.is_json_text()) {
            return false;
        }
        let looking = QueueSpec { codec: Coding { json_in_text: true, ..self.codec }, ..self.clone() };
        let found = |spec: &QueueSpec| {
            let payload = spec.decode(payload).ok()?;
            let filled = spec.to.iter().map(|to| {
                let headers = to
                    .message
                    .headers
                    .iter()
                    .map(|(_, template)| Filler::new(element, &payload, None).text(template, &"headers").ok());
                (to.takes(element, &payload), to.destination(element, &payload).ok(), headers.collect::<Vec<_>>())
            });
            Some(filled.collect::<Vec<_>>())
        };
        found(self) != found(&looking) || self.order_key(element, payload) != looking.order_key(element, payload)
    }

    /// Decodes `payload` and fills every destination that is meant for the element, in the order of the queue.
    ///
    /// # Errors
    /// [`Misfit`], by the same rules as delivery.
    pub fn preview(
        &self,
        element: &ElementInfo<'_>,
        payload: &Bytes,
    ) -> Result<Vec<(&RouteSpec, Destination)>, Misfit> {
        let payload = match self.decode(payload) {
            Ok(payload) => payload,
            Err(error) => match self.on_refusal(&error) {
                OnDecodeError::ForwardRaw => Payload::opaque(payload.clone()),
                OnDecodeError::HoldRepeated | OnDecodeError::DeadLetter => {
                    return Err(Misfit::DeadLetter(error.to_string()));
                }
                OnDecodeError::Hold => return Err(Misfit::Hold(error.to_string())),
            },
        };
        let meant = routes_taken(&self.to, |to| to.takes(element, &payload));
        if meant.is_empty() && !self.to.is_empty() {
            return Err(match self.on_skipped {
                OnSkipped::DeadLetter => Misfit::DeadLetter(SKIPPED.to_owned()),
                OnSkipped::Drop => Misfit::Skipped,
            });
        }
        let filled =
            meant.into_iter().map(|place| &self.to[place]).map(|to| Ok((to, to.fill(element, &payload)?.destination)));
        filled.collect::<Result<_, FillError>>().map_err(|error| Misfit::DeadLetter(error.to_string()))
    }
}
