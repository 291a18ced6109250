//! `PUT /v1/jobs/{id}/...`: what a consumer says of a job that it has. The token of the answer to `pop` is the proof that it
//! has it.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use serde::Serialize;

use super::errors::problem;
use crate::api::Api;
use crate::api::access::Right;
use crate::api::call::Call;
use crate::api::problem::Problem;
use crate::api::reply::Reply;
use crate::jobs::{JobId, Release, Settled, Token};

/// What became of a job that was given back.
#[derive(Debug, Serialize)]
struct ReleasedJob {
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    due_ms: Option<i64>,
}

/// A reservation that was extended.
#[derive(Debug, Serialize)]
struct TouchedJob {
    deadline_ms: i64,
}

/// It is done.
pub async fn finish(api: Arc<Api>, call: Call) -> Result<Reply, Problem> {
    call.query.only(&["token"])?;
    let (id, token) = reserved(&call)?;
    api.queue.finish(&id, token).await.map_err(|error| problem("finish the job", error))?;
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}

/// It is given back, for later.
pub async fn release(api: Arc<Api>, call: Call) -> Result<Reply, Problem> {
    call.query.only(&["token", "delay_ms", "count_attempt", "reason"])?;
    let (id, token) = reserved(&call)?;
    let delay = Duration::from_millis(call.query.number("delay_ms")?.unwrap_or(0));
    let how = match call.query.text("count_attempt").unwrap_or("true") {
        "true" => Release::Counted,
        "false" => Release::Uncounted,
        _ => return Err(Problem::bad("read `count_attempt` in the query: expected true or false")),
    };
    let reason = call.query.text("reason").unwrap_or_default();
    let released = api.queue.release(&id, token, delay, how, reason).await;
    let (settled, time_ms) = released.map_err(|error| problem("release the job", error))?;
    let (outcome, due_ms) = match settled {
        Settled::Done => ("released", Some(time_ms)),
        Settled::Dead => ("dead", None),
        Settled::Expired => ("expired", None),
    };
    Reply::json(StatusCode::OK, &ReleasedJob { outcome, due_ms })
}

/// It needs more time.
pub async fn touch(api: Arc<Api>, call: Call) -> Result<Reply, Problem> {
    call.query.only(&["token", "ttr_ms"])?;
    let (id, token) = reserved(&call)?;
    let ttr = call.query.number("ttr_ms")?.map(Duration::from_millis);
    let deadline_ms = api.queue.touch(&id, token, ttr).await.map_err(|error| problem("touch the job", error))?;
    Reply::json(StatusCode::OK, &TouchedJob { deadline_ms })
}

/// It can never be done.
pub async fn bury(api: Arc<Api>, call: Call) -> Result<Reply, Problem> {
    call.query.only(&["token", "reason"])?;
    let (id, token) = reserved(&call)?;
    let reason = call.query.text("reason").unwrap_or_default();
    api.queue.bury(&id, token, reason).await.map_err(|error| problem("bury the job", error))?;
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}

fn reserved(call: &Call) -> Result<(JobId, Token), Problem> {
    let id = call.job(Right::Pop)?;
    let token = call.query.text("token").unwrap_or_default();
    if token.is_empty() {
        return Err(Problem::bad("read the query: `token` is missing: the one that `pop` answered with the job"));
    }
    let token = token.parse().map_err(|error| Problem::bad(format!("read the query: {error}")))?;
    Ok((id, token))
}
