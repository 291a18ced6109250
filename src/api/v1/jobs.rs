//! `/v1/jobs/{id}`: one job, whatever its state.

use std::sync::Arc;

use hyper::StatusCode;
use serde::Serialize;

use super::errors::problem;
use super::shapes::BodyShape;
use crate::api::Api;
use crate::api::access::Right;
use crate::api::call::Call;
use crate::api::problem::Problem;
use crate::api::reply::Reply;
use crate::jobs::{JobError, JobInfo, JobState};

/// All about a job. Which times there are depends on its state.
#[derive(Debug, Serialize)]
pub struct JobShape {
    id: String,
    topic: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    due_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    died_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reserved_ms: Option<i64>,
    added_ms: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_ms: Option<i64>,
    attempts: u32,
    tries: u32,
    ttr_ms: u32,
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
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
            reason: job.reason,
            body: BodyShape::of(&job.body, job.content_type),
        }
    }
}

/// The job.
pub async fn get(api: Arc<Api>, call: Call) -> Result<Reply, Problem> {
    call.query.only(&[])?;
    let id = call.job(Right::Admin)?;
    let what = "look at the job";
    let job = api.queue.get(&id).await.map_err(|error| problem(what, error))?;
    let job = job.ok_or_else(|| problem(what, JobError::NotFound))?;
    Reply::json(StatusCode::OK, &JobShape::from(job))
}

/// It is removed for good.
pub async fn delete(api: Arc<Api>, call: Call) -> Result<Reply, Problem> {
    call.query.only(&[])?;
    let id = call.job(Right::Admin)?;
    api.queue.delete(&id).await.map_err(|error| problem("delete the job", error))?;
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}
