//! `/api/NAMESPACE/QUEUE/deadletter`: jobs whose tries are used up.

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::json;

use super::answer::answer;
use super::names::{namespace, seconds, topic};
use super::publish::TTL;
use crate::Api;
use crate::access::Right;
use crate::job_call::JobCall;
use crate::v1::errors::problem;
use delaybridge_http_server::problem::Problem;
use delaybridge_http_server::reply::Reply;
use delaybridge_jobs::{JobState, MAX_SWEEP, Which};

/// Most jobs of one request: a hundred calls on the queue.
const MOST: usize = 100 * MAX_SWEEP;

/// Answers the number of dead jobs, and the oldest.
pub async fn peek(api: Arc<Api>, call: JobCall) -> Result<Reply, Problem> {
    let topic = topic(&call, Right::Pop)?;
    let sizes = api.queue.sizes(&topic).await.map_err(|error| problem("peek the dead letters", error))?;
    let (oldest, _turn) = api.read_jobs(&call, (&topic, JobState::Dead), (0, 1), "peek the dead letters").await?;
    let head = oldest.jobs.first().map_or("", |job| job.id.local.as_str());
    let namespace = namespace(&call)?;
    let queue = call.part("queue");
    let body =
        json!({ "namespace": namespace, "queue": queue, "deadletter_size": sizes.dead, "deadletter_head": head });
    Ok(answer(StatusCode::OK, body))
}

/// Answers the number of dead jobs.
pub async fn size(api: Arc<Api>, call: JobCall) -> Result<Reply, Problem> {
    let topic = topic(&call, Right::Pop)?;
    let sizes = api.queue.sizes(&topic).await.map_err(|error| problem("get the size", error))?;
    let namespace = namespace(&call)?;
    let queue = call.part("queue");
    Ok(answer(StatusCode::OK, json!({ "namespace": namespace, "queue": queue, "size": sizes.dead })))
}

/// Lets the oldest dead jobs wait again.
pub async fn respawn(api: Arc<Api>, call: JobCall) -> Result<Reply, Problem> {
    let topic = topic(&call, Right::Admin)?;
    let mut left = limit(&call)?;
    let ttl = seconds(&call, "ttl", TTL)?;
    let mut count = 0;
    while left > 0 {
        let most = left.min(MAX_SWEEP);
        let queue = api.queue.clone();
        let name = topic.clone();
        let work = async move { queue.redrive(&name, Which::Oldest(most), Some(ttl)).await };
        let redriven = api.in_turn(&call, (most, "respawn dead letters"), work).await?;
        count += redriven;
        left -= most;
        if redriven < most as u64 {
            break;
        }
    }
    Ok(answer(StatusCode::OK, json!({ "msg": "respawned", "count": count })))
}

/// Removes the oldest dead jobs.
pub async fn purge(api: Arc<Api>, call: JobCall) -> Result<Reply, Problem> {
    let topic = topic(&call, Right::Admin)?;
    let mut left = limit(&call)?;
    while left > 0 {
        let most = left.min(MAX_SWEEP);
        let queue = api.queue.clone();
        let name = topic.clone();
        let work = async move { queue.purge(&name, Which::Oldest(most)).await };
        let purged = api.in_turn(&call, (most, "delete dead letters"), work).await?;
        left -= most;
        if purged < most as u64 {
            break;
        }
    }
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}

fn limit(call: &JobCall) -> Result<usize, Problem> {
    let limit = call.query.text("limit").map_or(Ok(1), str::parse::<usize>);
    limit.ok().filter(|limit| *limit > 0).map(|limit| limit.min(MOST)).ok_or_else(|| Problem::bad("invalid limit"))
}
