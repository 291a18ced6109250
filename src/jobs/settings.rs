//! What a topic allows, and what its jobs have when they do not say.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::name::Topic;
use crate::settings::shown;

/// Longest time to run.
pub const MAX_TTR: Duration = Duration::from_secs(7 * 24 * 3600);
/// Longest delay, and longest time to live.
pub const MAX_DELAY: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// Most tries.
pub const MAX_TRIES: u32 = 1_000_000;

/// One topic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TopicSettings {
    /// How long a consumer may have a job before it comes back.
    #[serde(serialize_with = "shown::duration")]
    pub ttr: Duration,
    /// How often a job is handed out before it is dead.
    pub tries: u32,
    /// How long after it was added a job is dropped, if it is not finished; `None` is never.
    #[serde(serialize_with = "shown::duration_or_none")]
    pub ttl: Option<Duration>,
    /// Most jobs that are not dead; `None` is no limit.
    #[serde(serialize_with = "shown::or_none")]
    pub max_jobs: Option<u64>,
    /// Most bytes of a body.
    #[serde(serialize_with = "shown::size")]
    pub max_body: u64,
    /// Most dead jobs; the oldest go first. `None` is no limit.
    #[serde(serialize_with = "shown::or_none")]
    pub dead_max_len: Option<u64>,
    /// How long a dead job is kept; `None` is for ever.
    #[serde(serialize_with = "shown::duration_or_none")]
    pub dead_ttl: Option<Duration>,
    /// How long after a job with the client's own id was finished the same id is still known; `None` is not at all.
    #[serde(serialize_with = "shown::duration_or_none")]
    pub remember: Option<Duration>,
}

impl Default for TopicSettings {
    fn default() -> Self {
        TopicSettings {
            ttr: Duration::from_secs(60),
            tries: 10,
            ttl: None,
            max_jobs: None,
            max_body: 1 << 20,
            dead_max_len: None,
            dead_ttl: None,
            remember: Some(Duration::from_secs(600)),
        }
    }
}

/// All topics: those with settings of their own, and the rest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobSettings {
    /// Topics that are named nowhere else.
    pub defaults: TopicSettings,
    /// Topics with settings of their own.
    pub topics: BTreeMap<Topic, TopicSettings>,
    /// Most topics, those with settings of their own apart; `None` is no limit.
    pub max_topics: Option<u64>,
}

impl JobSettings {
    /// The settings of a topic.
    pub fn of(&self, topic: &Topic) -> &TopicSettings {
        self.topics.get(topic).unwrap_or(&self.defaults)
    }
}
