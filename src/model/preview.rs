//! Where an element would go, without sending it.

use bytes::Bytes;
use redisson_codecs::Payload;

use super::{OnDecodeError, QueueSpec};
use crate::route::ElementInfo;
use crate::sink::Destination;
use crate::template::{Fields, FillError};

/// What delivery would do with an element instead of handing it to its sinks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// It would become a dead letter; why, without a word of the payload.
    DeadLetter(String),
    /// The queue would be held because of it; why.
    Hold(String),
}

impl QueueSpec {
    /// Decodes `payload` and fills every destination of the queue, in their order.
    ///
    /// # Errors
    /// [`Misfit`], by the same rules as delivery.
    pub fn preview(&self, element: &ElementInfo<'_>, payload: &Bytes) -> Result<Vec<Destination>, Misfit> {
        let payload = match self.decode(payload) {
            Ok(payload) => payload,
            Err(error) => match self.on_refusal(&error) {
                OnDecodeError::ForwardRaw => Payload::opaque(payload.clone()),
                OnDecodeError::DeadLetter => return Err(Misfit::DeadLetter(error.to_string())),
                OnDecodeError::Hold => return Err(Misfit::Hold(error.to_string())),
            },
        };
        let filled = self.to.iter().map(|to| Ok(to.fill(element, &payload)?.destination));
        filled.collect::<Result<_, FillError>>().map_err(|error| Misfit::DeadLetter(error.to_string()))
    }
}

impl QueueSpec {
    /// The text, number or boolean at this path of the decoded payload, as a template would have it.
    pub fn field_of(&self, payload: &Bytes, path: &[String]) -> Option<String> {
        let decoded = self.decode(payload).ok()?;
        decoded.field(path).map(|text| text.into_owned())
    }
}
