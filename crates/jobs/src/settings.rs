//! The settings of topics, including the defaults for their jobs.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value};

use super::error::JobError;
use super::name::Topic;
use delaybridge_settings::words::words;
use delaybridge_settings::{Settings, defaults};

/// Maximum time to run.
pub const MAX_TTR: Duration = Duration::from_secs(7 * 24 * 3600);
/// Maximum delay, and maximum time to live.
pub const MAX_DELAY: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// Maximum number of tries.
pub const MAX_TRIES: u32 = 1_000_000;

/// One topic, or `jobs.defaults`. A job may have its own `ttr`, `tries` and `ttl`.
#[derive(Debug, Clone, PartialEq, Eq, Settings)]
#[settings(topic, at = "jobs.topics.NAME", based)]
pub struct TopicSettings {
    /// Time to run: after it an unfinished job returns from its consumer. At most 7 days.
    #[key(duration(1), default = "1m")]
    pub ttr: Duration,
    /// Deliveries of a job; if the last one fails, the job is dead.
    #[key(count(1, 1_000_000), default = "10")]
    pub tries: u32,
    /// Time to live: after it an unfinished job is dropped and counted.
    #[key(Kind::DurationOrNone, default = "none")]
    pub ttl: Option<Duration>,
    /// Jobs that wait, are reserved or are being delivered, at most. Further jobs are refused.
    #[key(count_or("none", 1, u64::MAX), default = "none")]
    pub max_jobs: Option<u64>,
    /// Largest body; larger ones are refused.
    #[key(Kind::Size, default = "1MiB")]
    pub max_body: u64,
    /// Dead jobs, at most; the oldest are removed and counted.
    #[key(count_or("none", 1, u64::MAX), default = "none")]
    pub dead_max_len: Option<u64>,
    /// Retention of a dead job.
    #[key(Kind::DurationOrNone, default = "none")]
    pub dead_ttl: Option<Duration>,
    /// Wait after a first attempt that ran out or was released without a delay. It doubles with each further one.
    #[key(duration(0), default = "0s")]
    pub backoff: Duration,
    /// The longest such wait.
    #[key(duration(0), default = "1h")]
    pub backoff_max: Duration,
    /// Time for which an id chosen by the client is remembered after its job finished; adding it again has no effect.
    #[key(Kind::DurationOrNone, default = "10m")]
    pub remember: Option<Duration>,
}

impl Default for TopicSettings {
    fn default() -> Self {
        defaults()
    }
}

words! {
    /// The treatment of a job for a topic that is not listed in the configuration.
    pub enum UnknownTopics {
        /// The topic is created.
        Create = "create",
        /// The job is refused.
        Refuse = "refuse",
    }
}

/// The settings of all topics.
#[derive(Debug, Clone, PartialEq, Eq, Settings)]
#[settings(topics, at = "jobs")]
pub struct JobSettings {
    /// Default settings of topics.
    #[key(Kind::Section(&topic::TABLE), later = TopicSettings::default())]
    pub defaults: TopicSettings,
    /// Topics with settings of their own, else those of `defaults`. Names have 1 to 255 letters, digits, `_`, `.`, `:` or
    /// `-`; the name `default` means the settings of `defaults`.
    #[key(Kind::Named(&topic::TABLE), later = BTreeMap::new(), show = by_name)]
    pub topics: BTreeMap<Topic, TopicSettings>,
    /// Topics that are not listed, at most; a job for a further one is refused. One without jobs is removed after ten
    /// minutes.
    #[key(count_or("none", 1, 10_000_000), default = "10000")]
    pub max_topics: Option<u64>,
    /// A job for a topic that is not listed creates it, or is refused.
    #[key(word::<UnknownTopics>(), default = "create")]
    pub unknown_topics: UnknownTopics,
}

fn by_name(topics: &BTreeMap<Topic, TopicSettings>) -> Option<Value> {
    Some(
        topics.iter().map(|(name, settings)| (name.to_string(), settings.shown().into())).collect::<Map<_, _>>().into(),
    )
}

impl Default for JobSettings {
    fn default() -> Self {
        JobSettings {
            defaults: TopicSettings::default(),
            topics: BTreeMap::new(),
            max_topics: None,
            unknown_topics: UnknownTopics::Create,
        }
    }
}

impl JobSettings {
    /// Returns the settings of a topic.
    pub fn of(&self, topic: &Topic) -> &TopicSettings {
        self.topics.get(topic).unwrap_or(&self.defaults)
    }
}

pub(super) fn check_ttr(ttr: Duration) -> Result<(), JobError> {
    if (Duration::from_millis(1)..=MAX_TTR).contains(&ttr) {
        Ok(())
    } else {
        Err(JobError::Invalid("the time to run must be 1 ms to 7 days".to_owned()))
    }
}
