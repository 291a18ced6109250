//! The settings of topics, including the defaults for their jobs.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::error::JobError;
use super::name::Topic;
use delaybridge_settings::shown;

/// Maximum time to run.
pub const MAX_TTR: Duration = Duration::from_secs(7 * 24 * 3600);
/// Maximum delay, and maximum time to live.
pub const MAX_DELAY: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// Maximum number of tries.
pub const MAX_TRIES: u32 = 1_000_000;

/// The settings of one topic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TopicSettings {
    /// The time to run: how long a consumer may have a job before it comes back.
    #[serde(serialize_with = "shown::duration")]
    pub ttr: Duration,
    /// The number of times that a job is handed out before it is dead.
    pub tries: u32,
    /// The time after its addition at which an unfinished job is dropped; `None` is never.
    #[serde(serialize_with = "shown::duration_or_none")]
    pub ttl: Option<Duration>,
    /// Maximum number of jobs that are not dead; `None` is no limit.
    #[serde(serialize_with = "shown::or_none")]
    pub max_jobs: Option<u64>,
    /// Maximum size of a body, in bytes.
    #[serde(serialize_with = "shown::size")]
    pub max_body: u64,
    /// Maximum number of dead jobs, the oldest of which are removed first; `None` is no limit.
    #[serde(serialize_with = "shown::or_none")]
    pub dead_max_len: Option<u64>,
    /// The time for which a dead job is kept; `None` is for ever.
    #[serde(serialize_with = "shown::duration_or_none")]
    pub dead_ttl: Option<Duration>,
    /// The time for which the client's id of a finished job is remembered; `None` is not at all.
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

/// The settings of all topics.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobSettings {
    /// The settings of topics without their own.
    pub defaults: TopicSettings,
    /// The topics with settings of their own.
    pub topics: BTreeMap<Topic, TopicSettings>,
    /// Maximum number of topics, not counting those with settings of their own; `None` is no limit.
    pub max_topics: Option<u64>,
}

impl JobSettings {
    /// The settings of a topic.
    pub fn of(&self, topic: &Topic) -> &TopicSettings {
        self.topics.get(topic).unwrap_or(&self.defaults)
    }
}

/// Checks the length of a reservation.
pub(super) fn check_ttr(ttr: Duration) -> Result<(), JobError> {
    match (Duration::from_millis(1)..=MAX_TTR).contains(&ttr) {
        true => Ok(()),
        false => Err(JobError::Invalid("the time to run must be 1 ms to 7 days".to_owned())),
    }
}
