//! `PUT /v1/jobs/{id}/...`: what a consumer says of a job that it has. The token of the answer to `pop` is the proof that it
//! has it.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;

use super::errors::problem;
use crate::Api;
use crate::access::Right;
use crate::job_call::{JobCall, NamedInPath as _};
use delaybridge_http_server::call::Query;
use delaybridge_http_server::fields::JsonFields;
use delaybridge_http_server::problem::Problem;
use delaybridge_http_server::reply::Reply;
use delaybridge_jobs::{JobId, Release, Settled, Token};

/// The outcome of a release.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReleasedJob {
    /// The outcome.
    #[schemars(extend("enum" = ["released", "dead", "expired"]))]
    outcome: &'static str,
    /// The time at which the job becomes ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    due_ms: Option<i64>,
}

/// A reservation that was extended.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TouchedJob {
    /// The end of the time to run.
    deadline_ms: i64,
}

/// Finishes a job.
pub async fn finish(api: Arc<Api>, mut call: JobCall) -> Result<Reply, Problem> {
    let (id, token, _) = said(&mut call, &[]).await?;
    api.queue.finish(&id, token).await.map_err(|error| problem("finish the job", error))?;
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}

/// Gives a job back, for later.
pub async fn release(api: Arc<Api>, mut call: JobCall) -> Result<Reply, Problem> {
    let (id, token, said) = said(&mut call, &["delay", "delay_ms", "count_attempt", "reason"]).await?;
    let how = if said.count_attempt.unwrap_or(true) { Release::Counted } else { Release::Uncounted };
    let released = api.queue.release(&id, token, said.delay, how, &said.reason).await;
    let (settled, time_ms) = released.map_err(|error| problem("release the job", error))?;
    let (outcome, due_ms) = match settled {
        Settled::Done => ("released", Some(time_ms)),
        Settled::Dead => ("dead", None),
        Settled::Expired => ("expired", None),
    };
    Reply::json(StatusCode::OK, &ReleasedJob { outcome, due_ms })
}

/// Extends the time to run of a job.
pub async fn touch(api: Arc<Api>, mut call: JobCall) -> Result<Reply, Problem> {
    let (id, token, said) = said(&mut call, &["ttr", "ttr_ms"]).await?;
    let deadline_ms = api.queue.touch(&id, token, said.ttr).await.map_err(|error| problem("touch the job", error))?;
    Reply::json(StatusCode::OK, &TouchedJob { deadline_ms })
}

/// Buries a job.
pub async fn bury(api: Arc<Api>, mut call: JobCall) -> Result<Reply, Problem> {
    let (id, token, said) = said(&mut call, &["reason"]).await?;
    api.queue.bury(&id, token, &said.reason).await.map_err(|error| problem("bury the job", error))?;
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}

/// The parameters of a consumer beside the token.
#[derive(Default)]
struct Said {
    delay: Option<Duration>,
    ttr: Option<Duration>,
    count_attempt: Option<bool>,
    reason: String,
}

/// Reads the job, the proof that the consumer has it, and what it says: in the query, or as JSON in the body.
async fn said(call: &mut JobCall, names: &[&'static str]) -> Result<(JobId, Token, Said), Problem> {
    let id = call.job(Right::Pop)?;
    let in_the_body =
        call.read(|body| if body.is_empty() { Ok(None) } else { JsonFields::parse(body).map(Some) }).await?;
    let (token, said) = match in_the_body {
        Some(_) if !call.query.is_empty() => {
            return Err(Problem::bad("read the request: there are a query and a body; send one of them"));
        }
        Some(fields) => in_body(fields, names)?,
        None => in_query(&call.query)?,
    };
    if token.is_empty() {
        return Err(Problem::bad("read the request: `token` is missing: the one that `pop` answered with the job"));
    }
    let token = token.parse().map_err(|error| Problem::bad(format!("read the request: {error}")))?;
    Ok((id, token, said))
}

pub(super) const DELAY: [&str; 2] = ["delay", "delay_ms"];
pub(super) const TTR: [&str; 2] = ["ttr", "ttr_ms"];

fn in_query(query: &Query) -> Result<(String, Said), Problem> {
    let count_attempt = query.flag("count_attempt")?;
    let reason = query.text("reason").unwrap_or_default().to_owned();
    let said = Said { delay: query.time(DELAY)?, ttr: query.time(TTR)?, count_attempt, reason };
    Ok((query.text("token").unwrap_or_default().to_owned(), said))
}

fn in_body(mut fields: JsonFields, names: &[&'static str]) -> Result<(String, Said), Problem> {
    let token = fields.text("token")?.unwrap_or_default();
    let mut said = Said::default();
    if names.contains(&"delay") {
        said.delay = fields.time(DELAY)?;
    }
    if names.contains(&"ttr") {
        said.ttr = fields.time(TTR)?;
    }
    if names.contains(&"count_attempt") {
        said.count_attempt = fields.flag("count_attempt")?;
    }
    if names.contains(&"reason") {
        said.reason = fields.text("reason")?.unwrap_or_default();
    }
    fields.finish()?;
    Ok((token, said))
}
