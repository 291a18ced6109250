//! The destinations of an element, found out without sending it.

use bytes::Bytes;
use redisson_codecs::Payload;

use super::failures::OnDecodeError;
use super::queue::QueueSpec;
use delaybridge_core::route::ElementInfo;
use delaybridge_core::template::FillError;
use delaybridge_sink::Destination;

/// The end of an element that would not be handed to its sinks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// A dead letter, for this reason; the reason quotes no payload.
    DeadLetter(String),
    /// A hold of the queue, for this reason.
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
