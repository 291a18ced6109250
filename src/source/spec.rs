//! What the configuration of a source becomes: one variant a source.

use std::time::Duration;

use serde_json::{Map, Value};

use super::job_pool::JobPoolSpec;
use super::jobs::JobsSpec;
use super::redisson::config::{self, RedissonSpec};
use super::zset::ZsetSpec;
use super::{job_pool, jobs, redisson, zset};
use crate::jobs::JobSettings;
use crate::settings::keys::{Group, Key, Kind, Table, key};
use crate::settings::problem::Spot;
use crate::settings::reader::Section;
use crate::settings::shown;

/// Where a queue's elements come from. The large ones are boxed: there may be ten thousand queues of Redisson.
#[derive(Debug, Clone)]
pub enum SourceSpec {
    /// A delayed queue of Redisson.
    Redisson(RedissonSpec),
    /// A sorted set with the payloads as members.
    Zset(Box<ZsetSpec>),
    /// A pool of jobs: ids by due time, and the jobs in other keys.
    JobPool(Box<JobPoolSpec>),
    /// A topic of the job queue.
    Jobs(JobsSpec),
}

const REDISSON: Key = key("redisson", Kind::Section(&config::redisson::TABLE), "An `RDelayedQueue` of Redisson.");
const ZSET: Key = key("zset", Kind::Section(&zset::config::zset::TABLE), "A sorted set with the payloads as members.");
const JOB_POOL: Key = key(
    "job_pool",
    Kind::Section(&job_pool::config::job_pool::TABLE),
    "A pool of jobs: ids by due time, and the jobs in other keys.",
);
const JOBS: Key = key("jobs", Kind::Section(&jobs::config::jobs::TABLE), "A topic of the job queue.");

/// The key of each source under `queues.NAME.source`.
pub(crate) static KIND_KEYS: &[Group] = &[Group { of: None, keys: &[REDISSON, ZSET, JOB_POOL, JOBS] }];

/// The tables below.
pub(crate) static TABLES: &[&Table] = &[
    &config::redisson::TABLE,
    &zset::config::zset::TABLE,
    &job_pool::config::job_pool::TABLE,
    &job_pool::config::job::TABLE,
    &job_pool::config::record::TABLE,
    &job_pool::config::status::TABLE,
    &jobs::config::jobs::TABLE,
];

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
    let mut written = section.written();
    written.retain(|name| *name != "redis");
    if written.len() > 1 {
        let message = format!("a queue has one source, and this one has {}", written.len());
        section.cx.report.problem(&section.spot, message, format!("keep one of: {}", written.join(", ")));
    }
    // All are read, so that the problems of all are reported.
    let zset = section.opt_section(&ZSET).map(|zset| zset::config::read(&zset));
    let pool = section.opt_section(&JOB_POOL).map(|pool| job_pool::config::read(&pool));
    let topic = section.opt_section(&JOBS).map(|topic| jobs::config::read(&topic));
    let redisson = section.opt_section(&REDISSON).map(|redisson| config::read(&redisson));
    zset.or(pool).or(topic).or(redisson).unwrap_or_else(|| config::read(&section.section(&REDISSON)))
}

impl SourceSpec {
    /// The settings in effect under their kind, in the shape and the units of the YAML. `rescue_after` matters to a
    /// rescue only.
    pub fn settings(&self, rescue: bool) -> Map<String, Value> {
        let (key, fields) = match self {
            SourceSpec::Redisson(spec) => {
                let mut fields = shown::fields(spec);
                if !rescue {
                    fields.shift_remove(config::redisson::RESCUE_AFTER.name);
                }
                (REDISSON, fields)
            }
            SourceSpec::Zset(spec) => (ZSET, shown::fields(spec)),
            SourceSpec::JobPool(spec) => (JOB_POOL, spec.settings()),
            SourceSpec::Jobs(spec) => (JOBS, shown::fields(spec)),
        };
        Map::from_iter([(key.name.to_owned(), fields.into())])
    }

    /// The key under `source:` in the configuration.
    pub fn kind(&self) -> &'static str {
        match self {
            SourceSpec::Redisson(_) => REDISSON.name,
            SourceSpec::Zset(_) => ZSET.name,
            SourceSpec::JobPool(_) => JOB_POOL.name,
            SourceSpec::Jobs(_) => JOBS.name,
        }
    }

    /// Whether the programs that add elements announce those that are due earlier than all others. Where they do not, a
    /// poll has to find an element before it is due.
    pub fn announces(&self) -> bool {
        match self {
            SourceSpec::Redisson(_) | SourceSpec::Jobs(_) => true,
            SourceSpec::Zset(_) | SourceSpec::JobPool(_) => false,
        }
    }

    /// The queue as one of Redisson, if it is that.
    pub fn redisson(&self) -> Option<&RedissonSpec> {
        match self {
            SourceSpec::Redisson(spec) => Some(spec),
            SourceSpec::Zset(_) | SourceSpec::JobPool(_) | SourceSpec::Jobs(_) => None,
        }
    }

    /// The queue as a sorted set, if it is that.
    pub fn zset(&self) -> Option<&ZsetSpec> {
        match self {
            SourceSpec::Zset(spec) => Some(spec),
            SourceSpec::Redisson(_) | SourceSpec::JobPool(_) | SourceSpec::Jobs(_) => None,
        }
    }

    /// The queue as a pool of jobs, if it is that.
    pub fn job_pool(&self) -> Option<&JobPoolSpec> {
        match self {
            SourceSpec::JobPool(spec) => Some(spec),
            SourceSpec::Redisson(_) | SourceSpec::Zset(_) | SourceSpec::Jobs(_) => None,
        }
    }

    /// The name of the queue in Redis: of Redisson's the key of the list that due elements are moved to, else the key of the
    /// schedule.
    pub fn name(&self) -> &str {
        match self {
            SourceSpec::Redisson(spec) => &spec.name,
            SourceSpec::Zset(spec) => &spec.key,
            SourceSpec::JobPool(spec) => spec.name(),
            SourceSpec::Jobs(spec) => &spec.key,
        }
    }

    /// What all keys of the queue have in common: two queues with the same would take each other's elements. Empty when
    /// the queue has no name.
    pub fn key_tag(&self) -> String {
        match self {
            _ if self.name().is_empty() => String::new(),
            SourceSpec::Redisson(spec) => redisson::tagged(&spec.name),
            SourceSpec::Zset(spec) => zset::tag(&spec.key),
            SourceSpec::JobPool(spec) => spec.tag(),
            SourceSpec::Jobs(spec) => zset::tag(&spec.key),
        }
    }

    /// Tells the source the number of the database that it is in.
    pub(crate) fn in_database(&mut self, database: u32) {
        match self {
            SourceSpec::Redisson(_) | SourceSpec::JobPool(_) | SourceSpec::Jobs(_) => {}
            SourceSpec::Zset(spec) => spec.database = database,
        }
    }

    /// The topic of the job queue, if it is one.
    pub fn topic(&self) -> Option<&JobsSpec> {
        match self {
            SourceSpec::Jobs(spec) => Some(spec),
            SourceSpec::Redisson(_) | SourceSpec::Zset(_) | SourceSpec::JobPool(_) => None,
        }
    }

    /// Tells the source what the job queue allows.
    pub(crate) fn with_jobs(&mut self, settings: &JobSettings) {
        if let SourceSpec::Jobs(spec) = self {
            spec.settle(settings);
        }
    }

    /// Whether due elements are claimed.
    pub fn consumes_due(&self) -> bool {
        self.redisson().is_none_or(|spec| spec.consume.delayed)
    }

    /// Whether a list of elements that others have moved there is drained.
    pub fn consumes_ready(&self) -> bool {
        match self {
            SourceSpec::Redisson(spec) => spec.consume.ready,
            SourceSpec::Zset(_) | SourceSpec::Jobs(_) => false,
            SourceSpec::JobPool(spec) => !spec.ready.is_empty(),
        }
    }

    /// The list that the source's own clients move due elements to, if they do.
    pub fn ready_list(&self) -> Option<&str> {
        self.redisson().map(|spec| spec.name.as_str())
    }

    /// Age of what claims leave behind at which a turn of upkeep starts. Without such things it never does.
    pub fn leftover_max_age(&self) -> Duration {
        self.redisson().map_or(Duration::MAX, |spec| spec.ghost_max_age)
    }

    /// Bytes per second that upkeep may move, on average.
    pub fn upkeep_bandwidth(&self) -> u64 {
        self.redisson().map_or(u64::MAX, |spec| spec.sweep_bandwidth)
    }

    /// How long an element may be overdue before a rescue moves it; `None` where no client would move it.
    pub fn rescue_after(&self) -> Option<Duration> {
        self.redisson().map(|spec| spec.rescue_after)
    }

    /// What every user of such a queue should know, where there is something.
    pub fn note(&self) -> Option<&'static str> {
        self.zset().map(|_| {
            "identical members are one element in Redis, due at the score that was written last: put something unique into each, \
             such as an id"
        })
    }

    /// Whether the ids of elements are texts of their payloads, and a hash is what is left where there is none.
    pub fn names_elements(&self) -> bool {
        self.zset().is_some_and(|spec| matches!(spec.id, zset::Naming::Text(_)))
    }

    /// Whether due elements have their payloads in themselves.
    pub fn has_payload_in_member(&self) -> bool {
        !matches!(self, SourceSpec::JobPool(_) | SourceSpec::Jobs(_))
    }

    /// Whether an element without its body is a dead letter; else its user has deleted it, and it is gone.
    pub fn buries_without_body(&self) -> bool {
        matches!(self, SourceSpec::JobPool(spec) if spec.buries_missing)
    }
}
