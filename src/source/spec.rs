//! What the configuration of a source becomes: one variant a source.

use std::time::Duration;

use serde_json::{Map, Value};

use super::redisson::config::{self, RedissonSpec};
use crate::settings::keys::{Group, Key, Kind, Table, key};
use crate::settings::problem::Spot;
use crate::settings::reader::Section;
use crate::settings::shown;

/// Where a queue's elements come from.
#[derive(Debug, Clone)]
pub enum SourceSpec {
    /// A delayed queue of Redisson.
    Redisson(RedissonSpec),
}

const REDISSON: Key = key("redisson", Kind::Section(&config::redisson::TABLE), "An `RDelayedQueue` of Redisson.");

/// The key of each source under `queues.NAME.source`.
pub(crate) static KIND_KEYS: &[Group] = &[Group { of: None, keys: &[REDISSON] }];

/// The tables below.
pub(crate) static TABLES: &[&Table] = &[&config::redisson::TABLE];

/// First characters of keys in Redis that belong to sources or to the daemon.
pub(crate) const RESERVED_KEYS: [&str; 2] = ["redisson_delay_queue", "delaybridge:"];

/// What was read of one source.
pub(crate) struct SourceSettings {
    /// The source.
    pub(crate) spec: SourceSpec,
    /// Where its name is written.
    pub(crate) name_spot: Spot,
    /// Keys that were written and only matter with `mode: rescue`: their names, and where they are.
    pub(crate) rescue_only: Vec<(&'static str, Spot)>,
}

/// Reads what is under `source:`.
pub(crate) fn read(section: &Section<'_>) -> SourceSettings {
    config::read(&section.section(&REDISSON))
}

impl SourceSpec {
    /// The settings in effect under their kind, in the shape and the units of the YAML. `rescue_after` matters to a
    /// rescue only.
    pub fn settings(&self, rescue: bool) -> Map<String, Value> {
        let SourceSpec::Redisson(spec) = self;
        let mut fields = shown::fields(spec);
        if !rescue {
            fields.shift_remove(config::redisson::RESCUE_AFTER.name);
        }
        Map::from_iter([(REDISSON.name.to_owned(), fields.into())])
    }

    /// The name of the queue in Redis, which is also the key of the list that due elements are moved to.
    pub fn name(&self) -> &str {
        let SourceSpec::Redisson(spec) = self;
        &spec.name
    }

    /// What all keys of the queue have in common: two queues with the same would take each other's elements. Empty when
    /// the queue has no name.
    pub fn key_tag(&self) -> String {
        match self.name() {
            "" => String::new(),
            name => super::redisson::tagged(name),
        }
    }

    /// Whether due elements are claimed.
    pub fn consumes_due(&self) -> bool {
        let SourceSpec::Redisson(spec) = self;
        spec.consume.delayed
    }

    /// Whether the list of elements that others have moved there is drained.
    pub fn consumes_ready(&self) -> bool {
        let SourceSpec::Redisson(spec) = self;
        spec.consume.ready
    }

    /// Age of what claims leave behind at which a turn of upkeep starts.
    pub fn leftover_max_age(&self) -> Duration {
        let SourceSpec::Redisson(spec) = self;
        spec.ghost_max_age
    }

    /// Bytes per second that upkeep may move, on average.
    pub fn upkeep_bandwidth(&self) -> u64 {
        let SourceSpec::Redisson(spec) = self;
        spec.sweep_bandwidth
    }

    /// How long an element may be overdue before a rescue moves it.
    pub fn rescue_after(&self) -> Duration {
        let SourceSpec::Redisson(spec) = self;
        spec.rescue_after
    }
}
