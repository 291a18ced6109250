//! `/v1/topics/{topic}/limits`: what a topic allows, in place of what the configuration says.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;

use super::errors::problem;
use crate::Api;
use crate::access::Right;
use crate::job_call::{JobCall, NamedInPath as _};
use delaybridge_http_server::fields::JsonFields;
use delaybridge_http_server::problem::Problem;
use delaybridge_http_server::reply::Reply;
use delaybridge_jobs::{Allowed, Limits, Topic};

/// Reads the limits of a topic.
pub async fn of(api: &Api, topic: &Topic) -> Result<Allowed, Problem> {
    let set = api.queue.limits(topic).await.map_err(|error| problem("read the limits", error))?;
    Ok(set.shown(api.queue.settings().of(topic)))
}

/// Replaces the limits that were set. Without a body, or with `{}`, those of the configuration are in effect again.
pub async fn set(api: Arc<Api>, mut call: JobCall) -> Result<Reply, Problem> {
    let topic = call.topic(Right::Admin)?;
    let mut fields = call.read(JsonFields::parse).await?;
    // Zero lifts a limit where there may be none; elsewhere it is refused.
    let mut or_none = |name| Ok::<_, Problem>(fields.number(name)?.map(|n| Some(n).filter(|n| *n > 0)));
    let ttl = or_none("ttl_ms")?;
    let dead_ttl = or_none("dead_ttl_ms")?;
    let max_jobs = or_none("max_jobs")?;
    let dead_max_len = or_none("dead_max_len")?;
    let tries = fields.number("tries")?;
    let limits = Limits {
        ttr: fields.number("ttr_ms")?.map(Duration::from_millis),
        tries: tries.map(|tries| u32::try_from(tries).unwrap_or(u32::MAX)),
        ttl: ttl.map(|ttl| ttl.map(Duration::from_millis)),
        max_jobs,
        max_body: fields.number("max_body")?,
        dead_max_len,
        dead_ttl: dead_ttl.map(|ttl| ttl.map(Duration::from_millis)),
        backoff: fields.number("backoff_ms")?.map(Duration::from_millis),
        backoff_max: fields.number("backoff_max_ms")?.map(Duration::from_millis),
    };
    fields.finish()?;
    api.may_make("set the limits", &call, &topic).await?;
    api.queue.set_limits(&topic, &limits).await.map_err(|error| problem("set the limits", error))?;
    Reply::json(StatusCode::OK, &of(&api, &topic).await?)
}

/// Answers with the limits in effect.
pub async fn get(api: Arc<Api>, call: JobCall) -> Result<Reply, Problem> {
    let topic = call.topic(Right::Admin)?;
    Reply::json(StatusCode::OK, &of(&api, &topic).await?)
}
