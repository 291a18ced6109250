//! Looks at a queue and at jobs, and the end of a queue.

use std::collections::BTreeMap;
use std::sync::Arc;

use hyper::StatusCode;
use serde_json::json;

use super::answer::answer;
use super::names::{self, namespace, topic};
use super::shapes::looked_at;
use crate::Api;
use crate::access::Right;
use crate::job_call::JobCall;
use crate::v1::errors::problem;
use crate::weight::READ;
use delaybridge_http_server::problem::{Problem, ProblemKind};
use delaybridge_http_server::reply::Reply;
use delaybridge_jobs::{JobState, MAX_PAGE};

/// Queues that one answer names.
const MOST: usize = 10_000;

/// Answers with the next job that is ready.
pub async fn peek(api: Arc<Api>, call: JobCall) -> Result<Reply, Problem> {
    let topic = topic(&call, Right::Pop)?;
    let (page, _turn) = api.read_jobs(&call, (&topic, JobState::Ready), (0, 1), "peek").await?;
    Ok(match page.jobs.first() {
        Some(job) => answer(StatusCode::OK, looked_at(job, namespace(&call)?, api.queue.now_ms())),
        None => answer(StatusCode::NOT_FOUND, json!({ "error": "the queue is empty" })),
    })
}

/// Answers with a job, whatever its state.
pub async fn job(api: Arc<Api>, call: JobCall) -> Result<Reply, Problem> {
    let not_found = || Problem::new(ProblemKind::NoSuchJob, "look at the job");
    let id = names::job(&call, Right::Pop)?.ok_or_else(not_found)?;
    let queue = api.queue.clone();
    let job = api.in_turn(&call, (READ, "look at the job"), async move { queue.get(&id).await }).await?;
    let job = job.ok_or_else(not_found)?;
    Ok(answer(StatusCode::OK, looked_at(&job, namespace(&call)?, api.queue.now_ms())))
}

/// Answers the number of ready jobs.
pub async fn size(api: Arc<Api>, call: JobCall) -> Result<Reply, Problem> {
    let topic = topic(&call, Right::Pop)?;
    let sizes = api.queue.sizes(&topic).await.map_err(|error| problem("get the size", error))?;
    let namespace = namespace(&call)?;
    let queue = call.part("queue");
    Ok(answer(StatusCode::OK, json!({ "namespace": namespace, "queue": queue, "size": sizes.ready })))
}

/// Answers with the queues of every namespace, of those that the caller may look at.
pub async fn info(api: Arc<Api>, call: JobCall) -> Result<Reply, Problem> {
    let mut all = BTreeMap::<String, Vec<String>>::new();
    let mut after = None;
    let mut seen = 0;
    loop {
        let names = api.queue.topics(after.as_ref(), MAX_PAGE).await;
        let names = names.map_err(|error| problem("list the queues", error))?;
        for name in names.iter().filter(|name| call.caller.may(Right::Admin, name.as_str())) {
            // Topics without a dot are none of lmstfy's.
            if let Some((namespace, queue)) = name.as_str().split_once('.') {
                all.entry(namespace.to_owned()).or_default().push(queue.to_owned());
            }
        }
        seen += names.len();
        match names.into_iter().last() {
            Some(last) if seen < MOST => after = Some(last),
            _ => return Ok(answer(StatusCode::OK, json!(all))),
        }
    }
}

/// Removes the queue with all of its jobs.
pub async fn destroy(api: Arc<Api>, call: JobCall) -> Result<Reply, Problem> {
    let topic = topic(&call, Right::Admin)?;
    api.queue.destroy(&topic, true).await.map_err(|error| problem("destroy the queue", error))?;
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}
