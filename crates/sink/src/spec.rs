//! The checked configuration of a sink: the settings of its connection, and the targets of routes in it.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::redis_write::{RedisWrite, SinkRedis};
use super::{Backlog, Destination, HeaderRules, Recognition, Sink};
use delaybridge_core::message::{About, Failure};
use delaybridge_core::template::{FillError, Filler, Template};
use delaybridge_link::Redis;
use delaybridge_settings::problem::Spot;
use delaybridge_settings::reader::Section;

/// One named sink.
#[derive(Debug, Clone)]
pub struct SinkSpec {
    /// The name under `sinks:`.
    pub name: Arc<str>,
    /// The checked settings of its kind.
    pub connector: Arc<dyn Connector>,
    /// Longest a delivery may take.
    pub timeout: Duration,
    /// Elements per second over all queues; `None` is unlimited.
    pub max_rate: Option<f64>,
}

impl SinkSpec {
    /// Builds the sink. One without a server of its own uses `source`, the link of the Redis that holds the queues.
    pub fn connect(&self, source: &Redis) -> Arc<dyn Sink> {
        self.connector.connect(&SinkStart { timeout: self.timeout, queues: source })
    }

    /// Builds the sink for [`Sink::check`]: it makes nothing at the destination.
    pub fn connect_to_check(&self, source: &Redis) -> Arc<dyn Sink> {
        self.connector.connect_to_check(&SinkStart { timeout: self.timeout, queues: source })
    }

    /// Checks whether the client that [`connect`](Self::connect) would start takes its settings. Connects nowhere.
    ///
    /// # Errors
    /// What it does not take, as the client says it.
    pub fn validate(&self) -> Result<(), Failure> {
        self.connector.validate(self.timeout)
    }

    /// Returns the kind as written in the configuration.
    pub fn kind(&self) -> &'static str {
        self.connector.kind()
    }
}

/// The time-out and the link that a sink is built with, beside the settings of its kind.
pub struct SinkStart<'a> {
    /// The time within which its deliveries answer.
    pub timeout: Duration,
    /// The link of the Redis that holds the queues, for a sink without a server of its own.
    pub queues: &'a Redis,
}

/// The checked settings of one kind of sink: makes the sink, and answers what others have to know before.
pub trait Connector: Any + fmt::Debug + Send + Sync {
    /// Returns the kind as written in the configuration.
    fn kind(&self) -> &'static str;

    /// Builds the sink. It begins to connect.
    fn connect(&self, start: &SinkStart<'_>) -> Arc<dyn Sink>;

    /// Builds the sink for [`Sink::check`] alone. A kind that makes anything at its destination while it connects
    /// builds one here that does not.
    fn connect_to_check(&self, start: &SinkStart<'_>) -> Arc<dyn Sink> {
        self.connect(start)
    }

    /// Checks whether the client takes the settings. Connects nowhere.
    ///
    /// # Errors
    /// What it does not take, as the client says it.
    fn validate(&self, _timeout: Duration) -> Result<(), Failure> {
        Ok(())
    }

    /// Opens the way back from a destination, for a reader of this name. `None` where there is none. Blocks.
    ///
    /// # Errors
    /// The destination does not answer, or refuses.
    fn backlog(&self, _from: &str, _reader: &str, _timeout: Duration) -> Option<Result<Box<dyn Backlog>, Failure>> {
        None
    }

    /// Returns the settings in effect, in the shape and the units of the YAML; no secret.
    fn settings(&self) -> Map<String, Value>;

    /// Returns the address that it connects to, for a person; without a login.
    fn address(&self) -> String;

    /// Returns whether [`Sink::check`] looks for the destinations, and not only whether the server answers.
    fn looks_for_destinations(&self) -> bool {
        true
    }

    /// Returns the file descriptors that its connections may need at once, as far as the settings tell.
    fn descriptors(&self) -> u64 {
        // A connection or two, those that replace them, and what the client library opens beside them.
        8
    }

    /// Returns the shortest time-out that the client can work with.
    fn least_timeout(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns a setting that does not go with this time-out: what is wrong, and what to do.
    fn against_timeout(&self, _timeout: Duration) -> Option<(String, &'static str)> {
        None
    }

    /// Returns the Redis server that it writes to, if it is one.
    fn redis(&self) -> Option<SinkRedis<'_>> {
        None
    }
}

/// The destination of a route in its sink: the destination keys, with the templates compiled.
pub trait Target: Any + fmt::Debug + Send + Sync {
    /// Fills the destination of one element.
    ///
    /// # Errors
    /// When a template has nothing to put in, or when what comes out is empty or cannot be a destination.
    fn fill(&self, from: &Filler<'_>) -> Result<Destination, FillError>;

    /// Returns the templates that choose what a failure is about; asked only for parts of the destination.
    fn choosing(&self, about: About) -> [Option<&Template>; 2];

    /// Returns whether the element's payload chose what a failure is about, so that the failure is the element's own. A
    /// topic that is named after the queue is the same for all of its elements, and a person can fix it; so can an
    /// exchange that is missing, whatever the routing key.
    fn is_chosen_by_payload(&self, about: About) -> bool {
        about.is_of_destination() && self.choosing(about).into_iter().flatten().any(Template::uses_payload)
    }

    /// Returns whether elements of one queue can differ in what a failure is about. Where they cannot, all of them wait
    /// for what has to be fixed; where they can, only those with the same destination.
    fn varies(&self, about: About) -> bool {
        about.is_of_destination() && self.choosing(about).into_iter().flatten().any(Template::varies)
    }

    /// Returns the parts of a destination that came out of payloads, each with the template that made it: what is shown
    /// in its place where payloads must not be.
    fn chosen<'a>(&'a self, destination: &'a Destination) -> Vec<(&'a str, &'a str)> {
        let parts = destination.lane().into_iter().zip(self.choosing(About::Route));
        let by_payload =
            parts.filter_map(|(part, template)| Some((part, template?))).filter(|(_, of)| of.uses_payload());
        by_payload.map(|(part, template)| (part, template.source())).collect()
    }

    /// Returns the destination keys in effect, as they are written under `to:`.
    fn keys(&self) -> Map<String, Value>;

    /// Returns a text that is the same for two targets of one sink when their elements go to the same place. `None`
    /// where that does not matter.
    fn place(&self) -> Option<String>;

    /// Returns the destination for [`Sink::check`], if it is the same for every element, or for every one without an
    /// address of its own.
    fn fixed(&self) -> Option<Fixed>;

    /// Returns the row of the destination in the table of headers.
    fn header_rules(&self) -> &'static HeaderRules;

    /// Returns whether the sink's own settings have a header of this name, which one of a message does not replace.
    fn has_header(&self, _name: &str) -> bool {
        false
    }

    /// Reports headers that the sink's messages cannot carry, or have already.
    fn check_headers(&self, _headers: &RouteHeaders<'_, '_>) {}

    /// Returns the way in which the destination recognises elements that it has already.
    fn recognition(&self) -> Recognition {
        Recognition::None
    }

    /// Returns the write to a Redis server, if the sink is one.
    fn redis_write(&self) -> Option<RedisWrite<'_>> {
        None
    }
}

/// The headers of a route, for its target to check.
pub struct RouteHeaders<'a, 's> {
    /// The route's map.
    pub section: &'a Section<'s>,
    /// The user's headers: name, and where it is written.
    pub names: &'a [(&'a str, &'a Spot)],
    /// The place where `headers` is written.
    pub spot: Spot,
    /// The place where `envelope` is written, if it adds a content type of its own (`cloudevents`).
    pub envelope: Option<Spot>,
    /// Whether the envelope adds headers without which the body says too little.
    pub needs_headers: bool,
}

impl RouteHeaders<'_, '_> {
    /// Reports each header that the message of this kind (`every record`) has already.
    pub fn refuse(&self, owner: &str, taken: impl Fn(&str) -> bool) {
        for (name, spot) in self.names.iter().filter(|(name, _)| taken(name)) {
            let message = format!("{owner} has `{name}` already");
            self.section.cx.report.problem(spot, message, "choose another name for the header");
        }
    }
}

/// A destination that is the same for every element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fixed {
    /// The destination, without what only tells its messages apart.
    pub destination: Destination,
    /// Name of what is looked for, for a person.
    pub name: String,
}
