//! `PUT /api/NAMESPACE/QUEUE`: jobs are added.

use std::sync::Arc;

use bytes::Bytes;
use hyper::StatusCode;
use serde_json::json;

use super::answer::answer;
use super::known::TokenUse;
use super::names::{job, number, seconds, topic};
use super::shapes::{JobAttributes, envelope};
use super::tokens::throttle;
use crate::Api;
use crate::access::Right;
use crate::job_call::JobCall;
use crate::v1::errors::problem;
use delaybridge_core::json::{Json, NoParts};
use delaybridge_http_server::problem::{Problem, ProblemKind};
use delaybridge_http_server::reply::Reply;
use delaybridge_jobs::{Added, Due, JobError, JobId, NewJob, Topic};

/// Largest body of a job.
const BODY: usize = 1 << 20;
/// Most jobs of one request.
const BULK: usize = 64;
/// Time to live of a job that does not say, in seconds.
pub const TTL: u32 = 86_400;

/// Adds one job.
pub async fn one(api: Arc<Api>, mut call: JobCall) -> Result<Reply, Problem> {
    let topic = topic(&call, Right::Add)?;
    let id = publish(&api, &mut call, &topic).await?;
    Ok(answer(StatusCode::CREATED, json!({ "msg": "published", "job_id": id.local.as_str() })))
}

/// Replaces a job by another one. That one is added first: a crash in between leaves both, and not none.
pub async fn again(api: Arc<Api>, mut call: JobCall) -> Result<Reply, Problem> {
    let topic = topic(&call, Right::Add)?;
    let old = job(&call, Right::Pop)?;
    let id = publish(&api, &mut call, &topic).await?;
    if let Some(old) = old {
        match api.queue.delete(&old).await {
            Ok(()) | Err(JobError::NotFound) => {}
            Err(error) => return Err(problem("delete the old job", error)),
        }
    }
    Ok(answer(StatusCode::CREATED, json!({ "msg": "published", "job_id": id.local.as_str() })))
}

async fn publish(api: &Api, call: &mut JobCall, topic: &Topic) -> Result<JobId, Problem> {
    throttle(api, call, TokenUse::Write)?;
    let settings = PublishSettings::of(call)?;
    let attributes = JobAttributes::of(&call.headers)?;
    let job = call.read(move |body| settings.job(body, &attributes)).await?;
    let added = api.add("publish the job", call, topic, vec![job]).await?;
    let added = added.into_iter().next().map(|added| added.id);
    added.ok_or_else(|| Problem::new(ProblemKind::Unexpected, "publish the job: the answer has none"))
}

/// Adds many jobs: all of them, or none.
pub async fn bulk(api: Arc<Api>, mut call: JobCall) -> Result<Reply, Problem> {
    let topic = topic(&call, Right::Add)?;
    throttle(&api, &call, TokenUse::Write)?;
    let settings = PublishSettings::of(&call)?;
    let attributes = JobAttributes::of(&call.headers)?;
    let jobs = call.read(move |body| {
        let items = match Json::read(body).map(|list| list.items(BULK)) {
            Ok(Ok(items)) if items.is_empty() => return Err(Problem::bad("no jobs")),
            Ok(Ok(items)) => items,
            Ok(Err(NoParts::Many(_))) => return Err(Problem::bad("too many jobs")),
            Ok(Err(NoParts::Kind)) | Err(_) => {
                return Err(Problem::bad("request body should be an array of objects"));
            }
        };
        // Each job has the bytes that were sent.
        items.iter().map(|item| settings.job(item.bytes().clone(), &attributes)).collect::<Result<Vec<_>, _>>()
    });
    let jobs = jobs.await?;
    let added = api.add("publish the jobs", &call, &topic, jobs).await?;
    let ids: Vec<_> = added.iter().map(|Added { id, .. }| id.local.as_str()).collect();
    Ok(answer(StatusCode::CREATED, json!({ "msg": "published", "job_ids": ids })))
}

struct PublishSettings {
    delay: std::time::Duration,
    ttl: std::time::Duration,
    tries: u16,
}

impl PublishSettings {
    fn of(call: &JobCall) -> Result<PublishSettings, Problem> {
        let delay = seconds(call, "delay", 0)?;
        let ttl = seconds(call, "ttl", TTL)?;
        let tries = u16::try_from(number(call, "tries", 1)?).map_err(|_| Problem::bad("invalid tries"))?;
        if !ttl.is_zero() && ttl <= delay {
            return Err(Problem::bad("ttl is shorter than delay"));
        }
        if tries == 0 {
            return Err(Problem::bad("tries shouldn't be zero"));
        }
        Ok(PublishSettings { delay, ttl, tries })
    }

    fn job(&self, body: Bytes, attributes: &JobAttributes) -> Result<NewJob, Problem> {
        if body.len() > BODY {
            return Err(Problem::new(ProblemKind::TooLarge, "body too large"));
        }
        let (body, content_type) = envelope(body, attributes);
        Ok(NewJob {
            unique: None,
            due: Due::After(self.delay),
            ttl: Some(self.ttl),
            tries: Some(self.tries.into()),
            content_type: content_type.to_owned(),
            ..NewJob::new(body)
        })
    }
}
