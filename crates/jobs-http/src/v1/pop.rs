//! `POST /v1/topics/{topic}/pop`: jobs of one topic, or of several in the order of their priority, at once or as soon as
//! there are any.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use hyper::header::{ACCEPT, HeaderName, HeaderValue};

use super::shapes::{PoppedJob, PoppedJobs};
use crate::Api;
use crate::access::Right;
use crate::job_call::{JobCall, NamedInPath as _};
use crate::message::OpenBody;
use delaybridge_http_server::problem::Problem;
use delaybridge_http_server::reply::Reply;
use delaybridge_jobs::{MAX_POP, PopRequest, Reserved};

/// Longest time that a client may wait for jobs.
const MAX_WAIT: Duration = Duration::from_secs(300);

const ID: HeaderName = HeaderName::from_static("delaybridge-job-id");
const TOKEN: HeaderName = HeaderName::from_static("delaybridge-token");
const ATTEMPT: HeaderName = HeaderName::from_static("delaybridge-attempt");
const BYTES: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// Pops jobs.
pub async fn pop(api: Arc<Api>, call: JobCall) -> Result<Reply, Problem> {
    let topics = call.topics(Right::Pop)?;
    let count = match call.query.number("count")?.map(usize::try_from) {
        None => 1,
        Some(Ok(count)) if (1..=MAX_POP).contains(&count) => count,
        Some(_) => return Err(Problem::bad(format!("read `count` in the query: it is 1 to {MAX_POP}"))),
    };
    let ttr = call.query.time(["ttr", "ttr_ms"])?;
    let wait = call.query.time(["wait", "wait_ms"])?.unwrap_or_default();
    if wait > MAX_WAIT {
        let most = MAX_WAIT.as_secs();
        return Err(Problem::bad(format!("read the query: the longest wait is {most}s; ask again after it")));
    }
    let raw = call.headers.get(ACCEPT).is_some_and(|accepted| accepted == BYTES);
    if raw && count > 1 {
        return Err(Problem::bad("pop jobs: an answer of bytes has one job; leave out `count`, or accept JSON"));
    }
    let (jobs, reserved) = api.take(PopRequest { topics, count, ttr, wait }).await?;
    let reply = match raw {
        true => bytes(jobs),
        false if jobs.is_empty() => Reply::empty(StatusCode::NO_CONTENT),
        false => {
            let jobs = jobs.into_iter().map(PoppedJob::from).collect();
            Reply::json(StatusCode::OK, &PoppedJobs { jobs })?
        }
    };
    Ok(reply.hands_over(reserved))
}

/// Answers with the body of one job as it is, with its id and token in headers; no body and 204 if there is none.
fn bytes(mut jobs: Vec<Reserved>) -> Reply {
    let Some(job) = jobs.pop() else { return Reply::empty(StatusCode::NO_CONTENT) };
    let OpenBody { body, content_type, .. } = OpenBody::of(&job.body, &job.content_type);
    let media_type = HeaderValue::try_from(content_type).ok().filter(|media_type| !media_type.is_empty());
    Reply::bytes(StatusCode::OK, media_type.unwrap_or(BYTES), body)
        .header(ID, job.id.to_string())
        .header(TOKEN, job.token.to_string())
        .header(ATTEMPT, job.attempt.to_string())
}
