//! The errors of the job queue, as far as callers branch on them.

use super::job::JobState;
use super::name::{InvalidName, Topic};
use delaybridge_link::{BadReply, LinkError, Shortfall};

/// The reason why a call has no result.
#[derive(Debug, Clone, thiserror::Error)]
pub enum JobError {
    /// The job does not exist: it was never added, or was finished, deleted, or past its time to live.
    #[error("there is no such job")]
    NotFound,
    /// The job is not reserved under this token: its time to run ended, it was given back, or another consumer has it.
    #[error("the job is not reserved under this token any more")]
    Conflict,
    /// The job does not wait, so it cannot be changed; nothing was done.
    #[error("the job is {}", state.as_str())]
    NotWaiting {
        /// The state of the job.
        state: JobState,
    },
    /// The job has another due time than the caller has seen; nothing was done.
    #[error("the job has another due time, {due_ms}")]
    OtherDue {
        /// The due time, in ms since 1970.
        due_ms: i64,
    },
    /// The job cannot be changed for this reason; nothing was done.
    #[error("{0}")]
    Fixed(&'static str),
    /// The topic has its maximum number of jobs; nothing was added.
    #[error("topic {topic} is full: it may have {limit} jobs")]
    Full {
        /// The topic.
        topic: Topic,
        /// The `max_jobs` of the topic.
        limit: u64,
    },
    /// The topic has its maximum number of unique keys; nothing was added.
    #[error("topic {topic} holds {limit} unique keys, which is as many as there may be")]
    TooManyKeys {
        /// The topic.
        topic: Topic,
        /// The maximum number.
        limit: u64,
    },
    /// The topic has its maximum number of recurring jobs; nothing was added.
    #[error("topic {topic} has {limit} recurring jobs, which is as many as there may be")]
    TooManyRecurring {
        /// The topic.
        topic: Topic,
        /// The maximum number.
        limit: u64,
    },
    /// There is no recurring job of this name.
    #[error("there is no recurring job of this name")]
    NoRecurring,
    /// The topic has jobs that a consumer or a queue has; nothing was removed.
    #[error("topic {topic} is in use: {reserved} jobs are reserved, and a queue delivers {forwarding}")]
    InUse {
        /// The topic.
        topic: Topic,
        /// The number of reserved jobs.
        reserved: u64,
        /// The number of jobs that a queue delivers.
        forwarding: u64,
    },
    /// The topic is not in the configuration, and only those may have jobs; nothing was done.
    #[error("topic {topic} is not listed in the configuration, which refuses others")]
    UnknownTopic {
        /// The topic.
        topic: Topic,
    },
    /// The maximum number of topics is reached; nothing was added.
    #[error("there are {limit} topics, which is as many as there may be")]
    TooManyTopics {
        /// The `max_topics` of the job queue.
        limit: u64,
    },
    /// A body is larger than the topic allows; nothing was added.
    #[error("the body has {size} bytes, topic {topic} allows {limit}")]
    TooLarge {
        /// The topic.
        topic: Topic,
        /// Size of the body, in bytes.
        size: usize,
        /// The `max_body` of the topic.
        limit: u64,
    },
    /// The request is contradictory, or exceeds a limit common to all topics.
    #[error("{0}")]
    Invalid(String),
    /// An invalid name.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The maximum number of waiting consumers is reached.
    #[error("{limit} consumers are waiting already")]
    Busy {
        /// The maximum number.
        limit: usize,
    },
    /// The jobs are in Redis, and not on as many replicas or disks as is needed; repeating the call adds nothing twice.
    #[error("it is not durable: {shortfall}")]
    NotDurable {
        /// The durability that is missing.
        shortfall: Shortfall,
    },
    /// Redis did not reply, or replied with an error. See [`outcome_unknown`](JobError::outcome_unknown).
    #[error(transparent)]
    Unavailable(#[from] LinkError),
    /// The reply has an unknown shape.
    #[error(transparent)]
    Reply(#[from] BadReply),
}

impl JobError {
    /// Returns whether the call may have taken effect nevertheless: true unless the server answered that it did not, or
    /// nothing was sent. Each call documents what repeating it does.
    pub fn outcome_unknown(&self) -> bool {
        matches!(
            self,
            JobError::Unavailable(LinkError::Unknown { .. } | LinkError::Malformed(_))
                | JobError::Reply(_)
                | JobError::NotDurable { .. }
        )
    }
}
