//! The kinds of sources as the configuration sees them, and the settings of one source.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Map, Value};

use super::job_pool::{self, JobPool, JobPoolSpec};
use super::jobs::{self, JobsSource, JobsSpec};
use super::redisson::{self, RedissonSource, RedissonSpec};
use super::zset::{self, Naming, ZsetSource, ZsetSpec};
use delaybridge_core::metric::SourceTerms;
use delaybridge_ledger::{Packed, Source};
use delaybridge_link::{KeyPrefix, KeySpace, hashed};
use delaybridge_settings::Settings as _;
use delaybridge_settings::keys::{Key, Table};
use delaybridge_settings::problem::Spot;
use delaybridge_settings::reader::Section;

/// First characters of keys in Redis that belong to sources or to the daemon.
pub const RESERVED_KEYS: [&str; 2] = ["redisson_delay_queue", "delaybridge:"];

/// Returns whether the ledger's keys share a slot with this key, as Redis Cluster demands. No tag leads to the slot of a key
/// that has a `}` but no tag of its own.
pub(crate) fn works_in_cluster(key: &str, tag: &str) -> bool {
    hashed(&format!("{}leases:{tag}", KeyPrefix::DEFAULT)) == hashed(key)
}

/// A kind of source.
pub struct SourceKind {
    /// The key under `queues.NAME.source`, with the table behind it.
    pub key: Key,
    /// Every table of its keys, in the order of the reference.
    pub tables: &'static [&'static Table],
    /// Reads what is behind `key`.
    pub read: fn(&Section<'_>) -> SourceSettings,
    /// The names of metrics and log lines that only this kind has.
    pub metric_names: Option<&'static SourceTerms>,
    /// Reads an element that comes without its queue; `None` for bytes in no format of this kind.
    pub recognise: fn(&Bytes) -> Option<Packed>,
}

impl fmt::Debug for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key.name)
    }
}

/// The settings that were read of one source.
pub struct SourceSettings {
    /// The source.
    pub config: Arc<SourceConfig>,
    /// The place where its name is written.
    pub name_spot: Spot,
    /// Keys that were written and only matter with `mode: rescue`: their names, and where they are.
    pub rescue_only: Vec<(&'static str, Spot)>,
}

/// The checked settings of one queue's source: makes the source, and answers what others have to know before.
#[derive(Clone, Debug)]
pub enum SourceConfig {
    /// An `RDelayedQueue` of Redisson.
    Redisson(RedissonSpec),
    /// A sorted set with the payloads as members.
    Zset(Box<ZsetSpec>),
    /// Ids in sorted sets, and the jobs in other keys.
    JobPool(Box<JobPoolSpec>),
    /// A topic of the job queue.
    Jobs(JobsSpec),
}

impl SourceConfig {
    /// Returns the kind.
    pub fn kind(&self) -> &'static SourceKind {
        match self {
            SourceConfig::Redisson(_) => &redisson::KIND,
            SourceConfig::Zset(_) => &zset::KIND,
            SourceConfig::JobPool(_) => &job_pool::KIND,
            SourceConfig::Jobs(_) => &jobs::KIND,
        }
    }

    /// Makes the source.
    pub fn build(&self) -> Arc<dyn Source> {
        match self {
            SourceConfig::Redisson(spec) => Arc::new(RedissonSource::of(spec)),
            SourceConfig::Zset(spec) => Arc::new(ZsetSource::of(spec)),
            SourceConfig::JobPool(spec) => Arc::new(JobPool::of(spec)),
            SourceConfig::Jobs(spec) => Arc::new(JobsSource::of(spec)),
        }
    }

    /// Returns the settings in effect under their kind, in the shape and the units of the YAML. `rescue`: the queue is
    /// in `mode: rescue`.
    pub fn settings(&self, rescue: bool) -> Map<String, Value> {
        let fields = match self {
            SourceConfig::Redisson(spec) => spec.fields(rescue),
            SourceConfig::Zset(spec) => spec.fields(),
            SourceConfig::JobPool(spec) => spec.fields(),
            SourceConfig::Jobs(spec) => spec.shown(),
        };
        Map::from_iter([(self.kind().key.name.to_owned(), fields.into())])
    }

    /// Returns the name of the queue in Redis: of Redisson's the key of the list that due elements are moved to, else
    /// the key of the schedule. Empty when none was written.
    pub fn name(&self) -> &str {
        match self {
            SourceConfig::Redisson(spec) => &spec.name,
            SourceConfig::Zset(spec) => &spec.key,
            SourceConfig::JobPool(spec) => spec.first_bucket(),
            SourceConfig::Jobs(spec) => &spec.key,
        }
    }

    /// Returns the part that all keys of the queue with this name have in common: two queues with the same would take
    /// each other's elements. Empty when the queue has no name.
    pub fn key_tag(&self) -> String {
        match self {
            _ if self.name().is_empty() => String::new(),
            SourceConfig::Redisson(spec) => redisson::tagged(&spec.name),
            SourceConfig::Zset(_) | SourceConfig::JobPool(_) | SourceConfig::Jobs(_) => zset::tag(self.name()),
        }
    }

    /// Gives our keys and channels the names that they have in the queue's Redis.
    pub fn set_space(&mut self, space: KeySpace) {
        match self {
            SourceConfig::Redisson(spec) => spec.space = space,
            SourceConfig::Zset(spec) => spec.space = space,
            SourceConfig::JobPool(spec) => spec.space = space,
            SourceConfig::Jobs(spec) => spec.set_space(space),
        }
    }

    /// Returns the settings of a queue of Redisson.
    pub fn redisson(&self) -> Option<&RedissonSpec> {
        if let SourceConfig::Redisson(spec) = self { Some(spec) } else { None }
    }

    /// Returns the settings of a job pool.
    pub fn job_pool(&self) -> Option<&JobPoolSpec> {
        if let SourceConfig::JobPool(spec) = self { Some(spec) } else { None }
    }

    /// Returns the settings of a topic of the job queue.
    pub fn jobs(&self) -> Option<&JobsSpec> {
        if let SourceConfig::Jobs(spec) = self { Some(spec) } else { None }
    }

    /// Returns whether the programs that add elements announce those that are due earlier than all others. Where they
    /// do not, a poll has to find an element before it is due.
    pub fn announces(&self) -> bool {
        matches!(self, SourceConfig::Redisson(_) | SourceConfig::Jobs(_))
    }

    /// Returns whether all that can be due earlier than what was known is announced: only our own scripts write the schedule.
    pub fn announces_all(&self) -> bool {
        matches!(self, SourceConfig::Jobs(_))
    }

    /// Returns whether due elements are claimed.
    pub fn consumes_due(&self) -> bool {
        self.redisson().is_none_or(|spec| spec.consume.delayed)
    }

    /// Returns whether a list of elements that others have moved there is drained.
    pub fn consumes_ready(&self) -> bool {
        match self {
            SourceConfig::Redisson(spec) => spec.consume.ready,
            SourceConfig::JobPool(spec) => !spec.ready.is_empty(),
            SourceConfig::Zset(_) | SourceConfig::Jobs(_) => false,
        }
    }

    /// Returns the age of what claims leave behind at which a turn of upkeep starts. Without such things it never does.
    pub fn leftover_max_age(&self) -> Duration {
        self.redisson().map_or(Duration::MAX, |spec| spec.ghost_max_age)
    }

    /// Returns the bytes per second that upkeep may move, on average.
    pub fn upkeep_bandwidth(&self) -> u64 {
        self.redisson().map_or(u64::MAX, |spec| spec.sweep_bandwidth)
    }

    /// Returns a note that every user of such a queue should know, where there is one.
    pub fn note(&self) -> Option<&'static str> {
        matches!(self, SourceConfig::Zset(_)).then_some(zset::NOTE)
    }

    /// Returns whether the ids of elements are texts of their payloads, and a hash is what is left where there is none.
    pub fn names_elements(&self) -> bool {
        matches!(self, SourceConfig::Zset(spec) if matches!(spec.id, Naming::Text(_)))
    }

    /// Returns whether no two elements ever have the same id, due time and payload, unless a program offers one again
    /// on purpose: ids are random.
    pub fn has_unique_ids(&self) -> bool {
        self.redisson().is_some()
    }

    /// Returns whether due elements have their payloads in themselves.
    pub fn has_payload_in_member(&self) -> bool {
        matches!(self, SourceConfig::Redisson(_) | SourceConfig::Zset(_))
    }

    /// Returns whether an element without its body is a dead letter; else its user has deleted it, and it is gone.
    pub fn buries_without_body(&self) -> bool {
        self.job_pool().is_some_and(|spec| spec.buries_missing)
    }
}
