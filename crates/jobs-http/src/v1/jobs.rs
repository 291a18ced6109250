//! `/v1/jobs/{id}`: one job, whatever its state.

use std::sync::Arc;

use hyper::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;

use super::errors::problem;
use super::shapes::{BodyShape, is_zero};
use crate::Api;
use crate::access::Right;
use crate::job_call::{JobCall, NamedInPath as _};
use crate::weight::READ;
use delaybridge_http_server::problem::Problem;
use delaybridge_http_server::reply::Reply;
use delaybridge_jobs::{JobError, JobInfo, JobState};

/// A job. The times depend on its state.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Job")]
pub struct JobShape {
    /// The job's id.
    id: String,
    /// The job's topic.
    topic: String,
    /// The state.
    #[schemars(extend("enum" = ["delay", "ready", "reserved", "dead", "forwarding"]))]
    state: &'static str,
    /// The time at which a waiting job becomes, or became, ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    due_ms: Option<i64>,
    /// The end of the reservation.
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline_ms: Option<i64>,
    /// The time at which the job died.
    #[serde(skip_serializing_if = "Option::is_none")]
    died_ms: Option<i64>,
    /// The time at which the job was handed out last.
    #[serde(skip_serializing_if = "Option::is_none")]
    reserved_ms: Option<i64>,
    /// The time at which the job was added.
    added_ms: i64,
    /// The time at which the job is dropped if it is not finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_ms: Option<i64>,
    /// Attempts so far.
    attempts: u32,
    /// Attempts before the job is dead.
    tries: u32,
    /// A consumer's time to run.
    ttr_ms: u32,
    /// The priority; left out if it is 0.
    #[serde(skip_serializing_if = "is_zero")]
    priority: u8,
    /// The reason why the last reservation ended.
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
    /// The body.
    #[serde(flatten)]
    body: BodyShape,
}

impl From<JobInfo> for JobShape {
    fn from(job: JobInfo) -> JobShape {
        let of = |states: &[JobState]| Some(job.time_ms).filter(|_| states.contains(&job.state));
        JobShape {
            due_ms: of(&[JobState::Delay, JobState::Ready]),
            deadline_ms: of(&[JobState::Reserved]),
            died_ms: of(&[JobState::Dead]),
            topic: job.id.topic.to_string(),
            id: job.id.to_string(),
            state: job.state.as_str(),
            reserved_ms: job.reserved_ms,
            added_ms: job.added_ms,
            expires_ms: job.expires_ms,
            attempts: job.attempts,
            tries: job.tries,
            ttr_ms: job.ttr_ms,
            priority: job.priority,
            reason: job.reason,
            body: BodyShape::of(&job.body, &job.content_type),
        }
    }
}

/// Answers with the job.
pub async fn get(api: Arc<Api>, call: JobCall) -> Result<Reply, Problem> {
    let id = call.job(Right::Admin)?;
    let what = "look at the job";
    let queue = api.queue.clone();
    let job = api.in_turn(&call, (READ, what), async move { queue.get(&id).await }).await?;
    let job = job.ok_or_else(|| problem(what, JobError::NotFound))?;
    Reply::json(StatusCode::OK, &JobShape::from(job))
}

/// Removes a job for good.
pub async fn delete(api: Arc<Api>, call: JobCall) -> Result<Reply, Problem> {
    let id = call.job(Right::Admin)?;
    api.queue.delete(&id).await.map_err(|error| problem("delete the job", error))?;
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}
