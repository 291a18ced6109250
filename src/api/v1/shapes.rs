//! The shapes of answers. Times are milliseconds since 1970 by Redis's clock.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Serialize;

use crate::jobs::{Added, JobInfo, JobState, Reserved};

/// What became of a job that was to be added.
#[derive(Debug, Serialize)]
pub struct AddedJob {
    /// The job's id.
    pub id: String,
    /// False if a job with the client's own id was there already, or was finished lately.
    pub created: bool,
    /// A job of this id is there with another body; of this one nothing is kept. Only in the answer to a batch.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub conflict: bool,
    /// When it becomes ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_ms: Option<i64>,
    /// Its state; not known of a job of a batch that was there already. `gone`: it was finished lately.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<&'static str>,
}

impl From<Added> for AddedJob {
    fn from(added: Added) -> AddedJob {
        AddedJob {
            id: added.id.to_string(),
            created: added.created,
            conflict: added.differs,
            due_ms: added.due_ms,
            state: added.state.map(|state| state.as_str()),
        }
    }
}

impl AddedJob {
    /// Of a job that was not added, because this one has its id; `None`: it had.
    pub fn of_one_that_was_there(added: Added, there: Option<&JobInfo>) -> AddedJob {
        let waits = |job: &&JobInfo| matches!(job.state, JobState::Delay | JobState::Ready);
        AddedJob {
            due_ms: there.filter(waits).map(|job| job.time_ms),
            state: Some(there.map_or("gone", |job| job.state.as_str())),
            ..AddedJob::from(added)
        }
    }
}

/// Several of them, in the order of the request.
#[derive(Debug, Serialize)]
pub struct AddedJobs {
    /// The jobs.
    pub jobs: Vec<AddedJob>,
}

/// A body: as text, or in base64 if it is none.
#[derive(Debug, Serialize)]
pub struct BodyShape {
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    content_type: String,
}

impl BodyShape {
    /// Of these bytes.
    pub fn of(body: &Bytes, content_type: String) -> BodyShape {
        match std::str::from_utf8(body) {
            Ok(text) => BodyShape { body: Some(text.to_owned()), body_base64: None, content_type },
            Err(_) => BodyShape { body: None, body_base64: Some(STANDARD.encode(body)), content_type },
        }
    }
}

/// A job that was handed out.
#[derive(Debug, Serialize)]
pub struct PoppedJob {
    id: String,
    topic: String,
    token: String,
    #[serde(flatten)]
    body: BodyShape,
    attempt: u32,
    tries_left: u32,
    ttr_ms: u64,
    deadline_ms: i64,
    added_ms: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_ms: Option<i64>,
}

impl From<Reserved> for PoppedJob {
    fn from(job: Reserved) -> PoppedJob {
        PoppedJob {
            topic: job.id.topic.to_string(),
            id: job.id.to_string(),
            token: job.token.to_string(),
            body: BodyShape::of(&job.body, job.content_type),
            attempt: job.attempt,
            tries_left: job.tries_left,
            ttr_ms: u64::try_from(job.ttr.as_millis()).unwrap_or(u64::MAX),
            deadline_ms: job.deadline_ms,
            added_ms: job.added_ms,
            expires_ms: job.expires_ms,
        }
    }
}

/// Jobs that were handed out.
#[derive(Debug, Serialize)]
pub struct PoppedJobs {
    /// The jobs.
    pub jobs: Vec<PoppedJob>,
}
