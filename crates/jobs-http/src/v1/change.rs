//! `PATCH /v1/jobs/{id}`: another due time, priority or body of a job that waits.

use std::sync::Arc;

use hyper::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;

use super::add::{CONTENT, body, due, priority};
use crate::Api;
use crate::access::Right;
use crate::job_call::{JobCall, NamedInPath as _};
use crate::weight::weight_of;
use delaybridge_http_server::fields::JsonFields;
use delaybridge_http_server::problem::Problem;
use delaybridge_http_server::reply::Reply;
use delaybridge_jobs::JobChange;

/// The outcome of a change.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ChangedJob {
    /// The job's id.
    id: String,
    /// False if the job was as wanted already.
    changed: bool,
    /// The time at which the job becomes, or became, ready.
    due_ms: i64,
    /// The state.
    #[schemars(extend("enum" = ["delay", "ready"]))]
    state: &'static str,
}

/// Changes a waiting job.
pub async fn change(api: Arc<Api>, mut call: JobCall) -> Result<Reply, Problem> {
    let id = call.job(Right::Admin)?;
    let now_ms = api.queue.now_ms();
    let change = call.read(move |body| wanted(body, now_ms)).await?;
    let queue = api.queue.clone();
    let name = id.to_string();
    let weight = change.body.as_ref().map_or(1, |body| weight_of(body.len()));
    let work = async move { queue.change(&id, &change).await };
    let changed = api.in_turn(&call, (weight, "change the job"), work).await?;
    let state = changed.state.as_str();
    let due_ms = changed.due_ms;
    Reply::json(StatusCode::OK, &ChangedJob { id: name, changed: changed.changed, due_ms, state })
}

/// Reads the change in a JSON object. A content type stays unless it is given, or the body is a JSON value.
fn wanted(sent: bytes::Bytes, now_ms: i64) -> Result<JobChange, Problem> {
    let mut fields = JsonFields::parse(sent)?;
    let content_type = fields.text(CONTENT)?;
    let body = body(&mut fields)?;
    let of_body = body.as_ref().map(|(_, media_type)| (*media_type).to_owned()).filter(|of_body| !of_body.is_empty());
    let due = due(&mut fields, now_ms)?;
    let if_due_ms = fields.number("if_due_ms")?.map(i64::try_from).transpose();
    let if_due_ms = if_due_ms.map_err(|_| fields.problem("`if_due_ms` is beyond all times"))?;
    let priority = priority(&mut fields)?;
    let nothing = due.is_none() && priority.is_none() && body.is_none() && content_type.is_none();
    if nothing {
        return Err(
            fields.problem("nothing is to be changed: send `delay`, `due`, `priority`, `content_type` or `body`")
        );
    }
    fields.finish()?;
    Ok(JobChange { due, priority, content_type: content_type.or(of_body), body: body.map(|(body, _)| body), if_due_ms })
}
