//! Where an element would go, without sending it: for those who only look.

use bytes::Bytes;
use redisson_codecs::Payload;

use super::{ElementInfo, route};
use crate::config::{OnDecodeError, QueueSpec};
use crate::message::Destination;

/// What delivery would do with an element instead of handing it to its sinks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// It would become a dead letter; why, without a word of the payload.
    DeadLetter(String),
    /// The queue would be held because of it; why.
    Hold(String),
}

/// Decodes `payload` and routes it to every destination of the queue, in their order.
///
/// # Errors
/// [`Misfit`], by the same rules as delivery.
pub fn preview(spec: &QueueSpec, element: &ElementInfo<'_>, payload: &Bytes) -> Result<Vec<Destination>, Misfit> {
    let payload = match (redisson_codecs::decode(spec.codec, payload), spec.on_decode_error) {
        (Ok(payload), _) => payload,
        (Err(error), _) if error.is_opaque() => Payload::opaque(payload.clone()),
        (Err(_), OnDecodeError::ForwardRaw) => Payload::opaque(payload.clone()),
        (Err(error), OnDecodeError::DeadLetter) => return Err(Misfit::DeadLetter(error.to_string())),
        (Err(error), OnDecodeError::Hold) => return Err(Misfit::Hold(error.to_string())),
    };
    let routed = spec.to.iter().map(|to| Ok(route(to, element, &payload)?.destination));
    routed.collect::<Result<_, super::RouteError>>().map_err(|error| Misfit::DeadLetter(error.to_string()))
}
