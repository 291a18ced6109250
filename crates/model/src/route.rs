//! One destination of a queue.

use std::sync::Arc;

use redisson_codecs::Payload;

use delaybridge_core::condition::Condition;
use delaybridge_core::route::{ElementInfo, MessageSpec, RouteMessage};
use delaybridge_core::template::{FillError, Filler, NoFields};
use delaybridge_sink::{Destination, Target};

/// One destination of a queue.
#[derive(Debug, Clone)]
pub struct RouteSpec {
    /// The sink's name.
    pub sink: Arc<str>,
    /// The place in the sink, with the templates compiled.
    pub target: Arc<dyn Target>,
    /// Body and headers.
    pub message: MessageSpec,
    /// The elements that the destination is meant for; `None`: all.
    pub when: Option<Arc<Condition>>,
}

/// An element with nothing left to decide for one destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routed {
    /// The place in the sink.
    pub destination: Destination,
    /// Body and headers.
    pub message: RouteMessage,
}

impl RouteSpec {
    /// Fills the templates, and wraps the payload.
    ///
    /// # Errors
    /// When a template has nothing to put in, or when what comes out is empty or cannot be a destination.
    pub fn fill(&self, element: &ElementInfo<'_>, payload: &Payload) -> Result<Routed, FillError> {
        let destination = self.destination(element, payload)?;
        Ok(Routed { destination, message: self.message.message(element, payload)? })
    }

    /// Whether the destination is meant for an element: the same at each of its attempts.
    pub fn takes(&self, element: &ElementInfo<'_>, payload: &Payload) -> bool {
        self.when.as_deref().is_none_or(|when| when.holds(&Filler::new(element, payload, None)))
    }

    /// Fills the templates of the destination of a message without the payload.
    ///
    /// # Errors
    ///
    /// As [`destination`](Self::destination).
    pub fn without_payload(&self, element: &ElementInfo<'_>) -> Result<Destination, FillError> {
        self.target.fill(&Filler::new(element, &NoFields, None))
    }

    /// Fills the templates of the destination alone.
    ///
    /// # Errors
    ///
    /// A template without a value, an empty text, or a text that cannot be a destination.
    pub fn destination(&self, element: &ElementInfo<'_>, payload: &Payload) -> Result<Destination, FillError> {
        self.target.fill(&self.message.filler(element, payload))
    }
}
