//! One destination of a queue.

use std::sync::Arc;

use bytes::Bytes;

use super::message::{Envelope, MessageSpec, RouteMessage};
use super::passing::{HeaderFilter, LeftOut, Passage};
use super::payload::Payload;
use delaybridge_core::carried::Carried;
use delaybridge_core::condition::Condition;
use delaybridge_core::template::{ElementInfo, FillError, Filler, NoFields};
use delaybridge_settings::words::words;
use delaybridge_sink::{Destination, Target};

words! {
    /// Handling of a delivery that an earlier attempt may have made already.
    pub enum Duplicates {
        /// The delivery is made again.
        Allow = "allow",
        /// The delivery is made again only if the destination does not have it, as far as that can be seen.
        Look = "look",
    }
}

/// One destination of a queue.
#[derive(Debug, Clone)]
pub struct RouteSpec {
    /// The sink's name.
    pub sink: Arc<str>,
    /// The place in the sink, with the templates compiled.
    pub target: Arc<dyn Target>,
    /// Body and headers.
    pub message: MessageSpec,
    /// The rules about its elements; most destinations have none.
    pub rules: Option<Arc<RouteRules>>,
}

/// The rules of a destination about its elements.
#[derive(Debug)]
pub struct RouteRules {
    /// The elements that the destination is meant for; `None`: all.
    pub when: Option<Condition>,
    /// Handling of what the destination may have already.
    pub duplicates: Duplicates,
    /// The headers of messages that the route wants; `None`: all.
    pub headers: Option<HeaderFilter>,
}

impl RouteRules {
    /// Creates the rules, if they are not those of most destinations.
    pub fn of(
        when: Option<Condition>,
        duplicates: Duplicates,
        headers: Option<HeaderFilter>,
    ) -> Option<Arc<RouteRules>> {
        let are_usual = when.is_none() && duplicates == Duplicates::Allow && headers.is_none();
        (!are_usual).then(|| Arc::new(RouteRules { when, duplicates, headers }))
    }
}

/// An element with nothing left to decide for one destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routed {
    /// The place in the sink.
    pub destination: Destination,
    /// Body and headers.
    pub message: RouteMessage,
    /// The headers of a message of an input that are no text, if not all of them pass.
    pub others: Option<Vec<(String, Bytes)>>,
    /// The headers of such a message that do not pass.
    pub left_out: LeftOut,
}

impl Routed {
    /// Builds the message of an input as its sink may have it: without the headers that do not pass.
    pub fn carried(&mut self, carried: &Arc<Carried>) -> Arc<Carried> {
        match self.others.take() {
            Some(others) => Arc::new(Carried { others, ..Carried::clone(carried) }),
            None => carried.clone(),
        }
    }
}

/// Returns the places of the routes that an element takes: of those to one sink, the first that is meant for it.
pub fn routes_taken(to: &[RouteSpec], is_meant: impl Fn(&RouteSpec) -> bool) -> Vec<usize> {
    let mut taken: Vec<usize> = Vec::with_capacity(to.len());
    for (place, route) in to.iter().enumerate() {
        if taken.iter().all(|earlier| to[*earlier].sink != route.sink) && is_meant(route) {
            taken.push(place);
        }
    }
    taken
}

impl RouteSpec {
    /// Fills the templates, and wraps the payload.
    ///
    /// # Errors
    /// When a template has nothing to put in, or when what comes out is empty or cannot be a destination.
    pub fn fill(&self, element: &ElementInfo<'_>, payload: &Payload) -> Result<Routed, FillError> {
        let destination = self.destination(element, payload)?;
        let mut message = self.message.message(element, payload)?;
        let is_event = matches!(self.message.envelope, Envelope::CloudEvents(_));
        let passage = Passage {
            rules: self.target.header_rules(),
            is_of_sink: &|name| self.target.has_header(name),
            filter: self.header_filter(),
            is_event,
        };
        let added = element.carried.map(|carried| passage.add(carried, &mut message));
        let (others, left_out) = added.unwrap_or_default();
        Ok(Routed { destination, message, others, left_out })
    }

    /// Returns the elements that the destination is meant for; `None`: all.
    pub fn when(&self) -> Option<&Condition> {
        self.rules.as_ref()?.when.as_ref()
    }

    /// Returns the headers of messages that the route wants; `None`: all.
    pub fn header_filter(&self) -> Option<&HeaderFilter> {
        self.rules.as_ref()?.headers.as_ref()
    }

    /// Returns whether the destination is asked for what it may have already.
    pub fn looks(&self) -> bool {
        self.rules.as_ref().is_some_and(|rules| rules.duplicates == Duplicates::Look)
    }

    /// Returns whether the destination is meant for an element: the same at each of its attempts.
    pub fn takes(&self, element: &ElementInfo<'_>, payload: &Payload) -> bool {
        self.when().is_none_or(|when| when.holds(&Filler::new(element, payload, None)))
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
