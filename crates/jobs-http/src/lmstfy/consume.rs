//! `GET /api/NAMESPACE/QUEUE[,QUEUE]`: jobs are handed out; and their end.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use serde_json::{Value, json};

use super::answer::answer;
use super::known::TokenUse;
use super::names::{job, namespace, number, seconds, topics};
use super::shapes::consumed;
use super::tokens::throttle;
use crate::Api;
use crate::access::Right;
use crate::job_call::JobCall;
use crate::v1::errors::problem;
use delaybridge_http_server::problem::Problem;
use delaybridge_http_server::reply::Reply;
use delaybridge_jobs::{JobError, PopRequest};

const COUNT: u32 = 100;
/// Time to run of a request that does not say, in seconds.
const TTR: u32 = 120;
/// Without a time to run a job comes back at once.
const LEAST_TTR: Duration = Duration::from_millis(1);
/// Clients of lmstfy wait no longer for an answer.
const MAX_WAIT: Duration = Duration::from_secs(600);

/// Answers with jobs, or with 404.
pub async fn consume(api: Arc<Api>, call: JobCall) -> Result<Reply, Problem> {
    let topics = topics(&call, Right::Pop)?;
    throttle(&api, &call, TokenUse::Read)?;
    let ttr = seconds(&call, "ttr", TTR)?.max(LEAST_TTR);
    let wait = seconds(&call, "timeout", 0)?.min(MAX_WAIT);
    let count = match number(&call, "count", 1)? {
        count @ 1..=COUNT => count as usize,
        _ => return Err(Problem::bad("invalid count")),
    };
    let (jobs, reserved) = api.take(PopRequest { topics, count, ttr: Some(ttr), wait }).await?;
    let namespace = namespace(&call)?;
    let now_ms = api.queue.now_ms();
    let mut shown: Vec<Value> = jobs.iter().map(|job| consumed(job, namespace, now_ms)).collect();
    let reply = match (shown.len(), count) {
        (0, _) => answer(StatusCode::NOT_FOUND, json!({ "msg": "no job available" })),
        (1, 1) => answer(StatusCode::OK, shown.remove(0)),
        _ => answer(StatusCode::OK, shown.into()),
    };
    Ok(reply.hands_over(reserved))
}

/// Acknowledges a job, whoever asks: lmstfy has no proof of a reservation.
pub async fn ack(api: Arc<Api>, call: JobCall) -> Result<Reply, Problem> {
    if let Some(id) = job(&call, Right::Pop)? {
        match api.queue.delete(&id).await {
            // The answer is the same when there is none.
            Ok(()) | Err(JobError::NotFound) => {}
            Err(error) => return Err(problem("delete the job", error)),
        }
    }
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}
