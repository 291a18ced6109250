//! A kind of sink, as the configuration sees it: its keys, the function that reads them, its error codes.

use std::sync::Arc;
use std::time::Duration;

use super::spec::{Connector, Target};
use delaybridge_core::codes::Codes;
use delaybridge_core::template::Template;
use delaybridge_settings::keys::{Group, Key, Kind, Table, duration, key};
use delaybridge_settings::problem::{Report, Spot};
use delaybridge_settings::reader::Section;

/// `timeout` of a sink, with a default that most kinds have.
pub const TIMEOUT: Key =
    key("timeout", duration(1), "Time limit of a delivery. 80 % of every queue's `lease` must exceed it.")
        .default("10s");

/// `max_rate` of a sink.
pub const MAX_RATE: Key = key("max_rate", Kind::Rate, "Deliveries of all queues together.").default("none");

/// The keys that every sink has, behind its own.
pub static COMMON: &[Group] = &[Group { of: None, keys: &[TIMEOUT, MAX_RATE] }];

/// A kind of sink.
pub struct SinkKind {
    /// The key under `sinks.NAME`, with the table behind it.
    pub key: Key,
    /// The name in messages and in the reference (`Kafka`).
    pub title: &'static str,
    /// Every table of its keys, in the order of the reference.
    pub tables: &'static [&'static Table],
    /// Destination keys, for `to:`. The same keys may be in the sink's own table as defaults. Where two kinds have a key
    /// of the same name, both read the same of it: a text or a template.
    pub to: &'static [Key],
    /// The destination keys that `dead_letter:` takes.
    pub dead_letter: &'static [Key],
    /// Reads the section behind `key`. If the kind is not in this binary, the name of its cargo feature.
    pub read: Result<fn(&Section<'_>) -> SinkSettings, &'static str>,
    /// Error codes of the kind, with cause and cure.
    pub codes: fn() -> Codes,
}

/// The settings of one sink, as they were read.
pub struct SinkSettings {
    /// The checked settings.
    pub connector: Arc<dyn Connector>,
    /// Longest a delivery may take; `None` is `auto`.
    pub timeout: Option<Duration>,
    /// The place where that is written.
    pub timeout_spot: Spot,
    /// Elements per second over all queues; `None` is unlimited.
    pub max_rate: Option<f64>,
    /// Reads a destination in the sink.
    pub target: ReadTarget,
}

impl SinkSettings {
    /// Creates the settings with this time-out, and with the rate in the section.
    pub fn new(
        section: &Section<'_>,
        timeout: Option<Duration>,
        connector: impl Connector,
        target: impl Fn(&RouteSite<'_, '_>) -> Option<(Arc<dyn Target>, Spot)> + 'static,
    ) -> SinkSettings {
        SinkSettings {
            connector: Arc::new(connector),
            timeout,
            timeout_spot: section.spot(&TIMEOUT),
            max_rate: section.rate(&MAX_RATE),
            target: Box::new(target),
        }
    }
}

/// Reads the destination that the keys of a route make together with those of its sink, and where it is written.
/// `None` after a problem, which is reported.
pub type ReadTarget = Box<dyn Fn(&RouteSite<'_, '_>) -> Option<(Arc<dyn Target>, Spot)>>;

/// A route, while its destination is read.
pub struct RouteSite<'a, 's> {
    /// The route's map: an item of `to:`, or `dead_letter:`.
    pub section: &'a Section<'s>,
    /// The sink's name.
    pub sink: &'a str,
    /// The place where that is written.
    pub sink_spot: &'a Spot,
    /// Reports a template that asks for what elements of the queue do not have.
    pub fits: &'a dyn Fn(&Template, &Spot),
    /// The hash tag that decides the slot of the queue's keys in Redis Cluster; empty when the queue has no name.
    pub slot: &'a str,
    /// The key of an order by key, where the queue has one of its own.
    pub order_key: Option<&'a Template>,
    /// Whether it is the queue's only destination.
    pub alone: bool,
    /// Whether dead letters go there, and not elements.
    pub dead: bool,
    /// Whether messages of an input go there: the address in a message's own header comes first, and without any other
    /// address it keeps its own.
    pub carried: bool,
}

impl RouteSite<'_, '_> {
    /// Returns the report that takes problems.
    pub fn report(&self) -> &Report {
        &self.section.cx.report
    }
}
