//! Why a call on the job queue has no result, as far as a caller branches on it.

use super::name::{InvalidName, Topic};
use crate::link::{BadReply, LinkError};

/// Why a call has no result.
#[derive(Debug, Clone, thiserror::Error)]
pub enum JobError {
    /// There is no such job: it was never added, or it is gone: finished, deleted, or past its time to live.
    #[error("there is no such job")]
    NotFound,
    /// The job is not reserved under this token: its time to run was over, and it was given back, or another consumer has it.
    #[error("the job is not reserved under this token any more")]
    Conflict,
    /// The topic has as many jobs as it may have; nothing was added.
    #[error("topic {topic} is full: it may have {limit} jobs")]
    Full {
        /// The topic.
        topic: Topic,
        /// Its `max_jobs`.
        limit: u64,
    },
    /// There are as many topics as there may be; nothing was added.
    #[error("there are {limit} topics, which is as many as there may be")]
    TooManyTopics {
        /// The job queue's `max_topics`.
        limit: u64,
    },
    /// A body is larger than the topic allows; nothing was added.
    #[error("the body has {size} bytes, topic {topic} allows {limit}")]
    TooLarge {
        /// The topic.
        topic: Topic,
        /// Bytes of the body.
        size: usize,
        /// Its `max_body`.
        limit: u64,
    },
    /// The request contradicts itself, or a limit that is the same for all topics.
    #[error("{0}")]
    Invalid(String),
    /// A name that is none.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// More consumers wait than this process serves.
    #[error("{limit} consumers are waiting already")]
    Busy {
        /// How many may wait.
        limit: usize,
    },
    /// Redis gave no answer, or an error. See [`outcome_unknown`](JobError::outcome_unknown).
    #[error(transparent)]
    Unavailable(#[from] LinkError),
    /// The reply has a shape that this version does not know.
    #[error(transparent)]
    Reply(#[from] BadReply),
}

impl JobError {
    /// Whether the call may have taken effect all the same: everything except an answer of the server that it did not, or
    /// that nothing was sent. Each call says what sending it again does.
    pub fn outcome_unknown(&self) -> bool {
        matches!(self, JobError::Unavailable(LinkError::Unknown { .. } | LinkError::Malformed(_)) | JobError::Reply(_))
    }
}
