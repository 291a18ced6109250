//! The keys of `queues.NAME.source.redisson`, and the queue that they describe.

use std::sync::Arc;
use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::keys::tagged;
use super::metric_names::METRIC_NAMES;
use crate::config::{SourceConfig, SourceKind, SourceSettings, works_in_cluster};
use delaybridge_link::KeySpace;
use delaybridge_settings::keys::{Key, Kind, key};
use delaybridge_settings::reader::Section;
use delaybridge_settings::words::words;
use delaybridge_settings::{Settings, shown};

pub(crate) static KIND: SourceKind = SourceKind {
    key: key("redisson", Kind::Section(&redisson::TABLE), "An `RDelayedQueue` of Redisson."),
    tables: &[&redisson::TABLE],
    read,
    metric_names: Some(&METRIC_NAMES),
    recognise: super::recognise,
};

/// An `RDelayedQueue` and its destination queue.
#[derive(Debug, Clone, Settings)]
#[settings(redisson, at = "queues.NAME.source.redisson")]
pub struct RedissonSpec {
    /// Name in Redis, after any `NameMapper`: the key of the ready list.
    #[key(Kind::Text, required)]
    pub name: Box<str>,
    /// Due elements, and the ready list, where every connected Redisson client moves them. Omit `ready` only if Java
    /// consumers read that list.
    #[key(words::<Part>(), default = "[delayed, ready]", read = consume, show = shown::value)]
    pub consume: Consume,
    /// Removal of claimed elements from Redisson's list. `auto`: in slices; the cost does not depend on the depth.
    /// `exact`: in the claim; the cost grows with the depth.
    #[key(word::<ListCleanup>(), default = "auto")]
    pub list_cleanup: ListCleanup,
    /// With `auto`: age of a claimed element in Redisson's list that starts a sweep.
    #[key(duration(1_000), default = "30s")]
    pub ghost_max_age: Duration,
    /// With `auto`: average bytes per second of the sweep.
    #[key(Kind::Size, default = "16MiB")]
    pub sweep_bandwidth: u64,
    /// With `mode: rescue`: time after the due time at which an element is moved.
    #[key(duration(1), default = "10s")]
    pub rescue_after: Duration,
    /// The names of our keys and channels in its Redis.
    #[settings(later = KeySpace::default())]
    pub space: KeySpace,
}

/// The parts of a queue that are consumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Consume {
    /// Due elements of the sorted set are claimed.
    pub delayed: bool,
    /// The ready list is drained.
    pub ready: bool,
}

impl Serialize for Consume {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let parts = [(self.delayed, Part::Delayed), (self.ready, Part::Ready)];
        serializer.collect_seq(parts.into_iter().filter_map(|(consumed, part)| consumed.then_some(part)))
    }
}

words! {
    /// A part of a queue.
    enum Part {
        /// The sorted set.
        Delayed = "delayed",
        /// The ready list.
        Ready = "ready",
    }
}

words! {
    /// The way in which claimed elements leave Redisson's list.
    pub enum ListCleanup {
        /// At the ends at once, `LREM` while it is cheap, the rest by the sweep.
        Auto = "auto",
        /// `LREM` in the claim: no ghost ever, at Redisson's price.
        Exact = "exact",
    }
}

fn consume(section: &Section<'_>, key: &Key) -> Consume {
    let parts = section.some_of::<Part>(key);
    Consume { delayed: parts.contains(&Part::Delayed), ready: parts.contains(&Part::Ready) }
}

pub(crate) fn read(section: &Section<'_>) -> SourceSettings {
    let name_spot = section.spot(&redisson::NAME);
    let spec = RedissonSpec::of(section);
    if !spec.name.is_empty() && !works_in_cluster(&spec.name, &tagged(&spec.name)) {
        let help = "it works on a single Redis; a name with one whole `{tag}`, or without braces, works everywhere";
        let message = "the braces in the name spread the queue's keys over Redis Cluster";
        section.cx.report.warning(&name_spot, message, help);
    }
    SourceSettings {
        config: Arc::new(SourceConfig::Redisson(spec)),
        name_spot,
        rescue_only: [&redisson::RESCUE_AFTER]
            .into_iter()
            .filter(|key| section.has(key))
            .map(|key| (key.name, section.spot(key)))
            .collect(),
    }
}

impl RedissonSpec {
    /// Returns the settings in effect.
    pub(crate) fn fields(&self, rescue: bool) -> Map<String, Value> {
        let mut fields = self.shown();
        if !rescue {
            fields.shift_remove(redisson::RESCUE_AFTER.name);
        }
        fields
    }
}
