//! The shapes of answers. Times are milliseconds since 1970 by Redis's clock.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use schemars::JsonSchema;
use serde::Serialize;

use crate::message::{MessageShape, OpenBody};
use delaybridge_jobs::{Added, JobInfo, JobState, Reserved};

/// The outcome of adding a job.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "AddedJob")]
pub struct AddedShape {
    /// The job's id; that of the existing job if it was not added because of its unique key.
    pub id: String,
    /// False if a job with the client's own id was there already, or was finished lately, or if another job holds its unique
    /// key.
    pub created: bool,
    /// The id of the job that holds its unique key, if one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub existing: Option<String>,
    /// In a batch: a job with this id and another body is there; nothing was added.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub conflict: bool,
    /// The time at which the job becomes ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_ms: Option<i64>,
    /// The state; `gone` if the job was finished lately; left out for a job of a batch that was there already.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["delay", "ready", "reserved", "dead", "forwarding", "gone"]))]
    pub state: Option<&'static str>,
}

impl From<Added> for AddedShape {
    fn from(added: Added) -> AddedShape {
        AddedShape {
            id: added.id.to_string(),
            created: added.created,
            existing: added.held.then(|| added.id.to_string()),
            conflict: added.differs,
            due_ms: added.due_ms,
            state: added.state.map(|state| state.as_str()),
        }
    }
}

impl AddedShape {
    /// Describes a job that was not added, because the job `there` has its id or holds its unique key; `None`: that one
    /// is gone.
    pub fn of_one_that_was_there(added: Added, there: Option<&JobInfo>) -> AddedShape {
        let waits = |job: &&JobInfo| matches!(job.state, JobState::Delay | JobState::Ready);
        AddedShape {
            due_ms: there.filter(waits).map(|job| job.time_ms),
            state: Some(there.map_or("gone", |job| job.state.as_str())),
            ..AddedShape::from(added)
        }
    }
}

/// The outcomes of a batch, in the order of the request.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "AddedJobs")]
pub struct AddedShapes {
    /// The jobs.
    pub jobs: Vec<AddedShape>,
}

/// A body: as text, or in base64 if it is none.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BodyShape {
    /// The body, if it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    /// The body in base64, if it is no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
    /// The content type that the client, or the publisher of the message, gave.
    #[serde(skip_serializing_if = "String::is_empty")]
    content_type: String,
    /// The rest of the message, if the job is one of an input.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<MessageShape>,
}

impl BodyShape {
    /// Describes a body as text or as base64.
    pub fn of(body: &Bytes, content_type: &str) -> BodyShape {
        let OpenBody { body, content_type, message } = OpenBody::of(body, content_type);
        match std::str::from_utf8(&body) {
            Ok(text) => BodyShape { body: Some(text.to_owned()), body_base64: None, content_type, message },
            Err(_) => BodyShape { body: None, body_base64: Some(STANDARD.encode(&body)), content_type, message },
        }
    }
}

pub(super) fn is_zero(priority: &u8) -> bool {
    *priority == 0
}

/// A job that was handed out.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PoppedJob {
    /// The job's id.
    id: String,
    /// The job's topic.
    topic: String,
    /// The token that settles the job.
    token: String,
    /// The body.
    #[serde(flatten)]
    body: BodyShape,
    /// The number of this attempt.
    attempt: u32,
    /// Attempts that are left if this one fails.
    tries_left: u32,
    /// The priority; left out if it is 0.
    #[serde(skip_serializing_if = "is_zero")]
    priority: u8,
    /// The consumer's time to run.
    ttr_ms: u64,
    /// The end of that time.
    deadline_ms: i64,
    /// The time at which the job was added.
    added_ms: i64,
    /// The time at which the job is dropped if it is not finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_ms: Option<i64>,
}

impl From<Reserved> for PoppedJob {
    fn from(job: Reserved) -> PoppedJob {
        PoppedJob {
            topic: job.id.topic.to_string(),
            id: job.id.to_string(),
            token: job.token.to_string(),
            body: BodyShape::of(&job.body, &job.content_type),
            attempt: job.attempt,
            tries_left: job.tries_left,
            priority: job.priority,
            ttr_ms: u64::try_from(job.ttr.as_millis()).unwrap_or(u64::MAX),
            deadline_ms: job.deadline_ms,
            added_ms: job.added_ms,
            expires_ms: job.expires_ms,
        }
    }
}

/// Jobs that were handed out.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PoppedJobs {
    /// The jobs.
    pub jobs: Vec<PoppedJob>,
}

/// The number of jobs that were redriven or removed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Count {
    /// The number of jobs.
    pub count: u64,
}
