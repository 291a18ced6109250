//! Jobs as callers see them: what they add, what they are handed, what became of it.

use std::time::Duration;

use bytes::Bytes;

use super::look::JobState;
use super::name::{JobId, LocalId, Token};

/// When a job becomes ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// So long after it was added, by Redis's clock.
    After(Duration),
    /// At this time, milliseconds since 1970; in the past: at once.
    At(i64),
}

/// A job to be added. What is `None` comes from the topic's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewJob {
    /// The client's own id. Adding it again is harmless: the job that is there stays as it is.
    pub id: Option<LocalId>,
    /// When it becomes ready.
    pub due: Due,
    /// Its time to run.
    pub ttr: Option<Duration>,
    /// How often it is handed out.
    pub tries: Option<u32>,
    /// Its time to live, from now on; zero is for ever.
    pub ttl: Option<Duration>,
    /// What the body is, as the client said; handed out with it. At most 255 bytes.
    pub content_type: String,
    /// The body.
    pub body: Bytes,
}

impl NewJob {
    /// A job that is ready at once, with everything else from the topic's settings.
    pub fn new(body: impl Into<Bytes>) -> NewJob {
        NewJob {
            id: None,
            due: Due::After(Duration::ZERO),
            ttr: None,
            tries: None,
            ttl: None,
            content_type: String::new(),
            body: body.into(),
        }
    }
}

/// What became of a job that was to be added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Added {
    /// Its id.
    pub id: JobId,
    /// False if a job with the client's own id was there already, or was finished lately: nothing was changed.
    pub created: bool,
    /// The job that is there has another body: this one is not kept anywhere.
    pub differs: bool,
    /// When it becomes ready, milliseconds since 1970; `None` if it was not created.
    pub due_ms: Option<i64>,
    /// Its state; `None` if it was not created.
    pub state: Option<JobState>,
}

/// A job that was handed out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reserved {
    /// The job.
    pub id: JobId,
    /// The reservation: what settles the job has to name it.
    pub token: Token,
    /// The body.
    pub body: Bytes,
    /// What the client said that the body is; empty if nothing.
    pub content_type: String,
    /// How often it was handed out, this time included.
    pub attempt: u32,
    /// How often it will be handed out if this attempt fails.
    pub tries_left: u32,
    /// The time to run of this reservation.
    pub ttr: Duration,
    /// When this reservation ends, milliseconds since 1970 by Redis's clock.
    pub deadline_ms: i64,
    /// When it was added.
    pub added_ms: i64,
    /// When it is dropped if it is not finished; `None` is never.
    pub expires_ms: Option<i64>,
}

/// What became of a job that its consumer settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// What was asked for.
    Done,
    /// It was released after its last try, and is dead.
    Dead,
    /// It was past its time to live, and is gone.
    Expired,
}
