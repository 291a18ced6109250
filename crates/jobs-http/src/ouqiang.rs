//! The five endpoints of ouqiang/delay-queue, so that its clients work unchanged. The method does not matter, the status is
//! always 200, and `code` says whether it worked.
//!
//! An id has no topic there. A job is looked for in all topics, and a request that may mean jobs of two of them is refused; see
//! `docs/lmstfy.md` for what differs.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use super::Api;
use super::access::Right;
use super::job_call::{JobCall, NamedInPath as _};
use super::message::OpenBody;
use super::route::{ApiDialect, ApiRoute, ApiRule, routes};
use super::v1::errors::problem;
use delaybridge_http_server::fields::JsonFields;
use delaybridge_http_server::problem::{Problem, ProblemKind};
use delaybridge_http_server::reply::Reply;
use delaybridge_jobs::{Due, JobError, JobId, LocalId, NewJob, PopRequest, Topic};

/// The endpoints. Clients send `POST`; any other method is served as well.
pub static ROUTES: &[ApiRoute] = routes! { ApiDialect::Ouqiang;
    POST "/push" ouqiang_push => push;
    POST "/pop" ouqiang_pop => pop;
    POST "/finish" ouqiang_finish => remove;
    POST "/delete" ouqiang_delete => remove;
    POST "/get" ouqiang_get => get;
};

const DONE: &str = "操作成功";
const ADDED: &str = "添加成功";
const NO_JSON: &str = "解析json失败";
const NO_ID: &str = "job id不能为空";
const NO_TOPIC: &str = "topic不能为空";
const WRONG_DELAY: &str = "delay 取值范围1 - (2^31 - 1)";
const WRONG_TTR: &str = "ttr 取值范围1 - 86400";
const TAKEN: &str = "job id已存在";
const MANY: &str = "job id不唯一";
const NAME_IT: &str = "send the `topic` beside the `id`";

/// The time that a `pop` waits for a job.
const WAIT: Duration = Duration::from_secs(178);
/// Topics that a job is looked for in.
const TOPICS: usize = 1_000;
/// Topics that are looked at side by side.
const SIDE_BY_SIDE: usize = 32;

/// Converts a problem to an answer as these clients expect it.
pub(super) fn reply(problem: &Problem) -> Reply {
    answer(1, &problem.detail, Value::Null)
}

fn answer(code: u8, message: &str, data: Value) -> Reply {
    // A value of this type always has JSON.
    Reply::json(StatusCode::OK, &json!({ "code": code, "message": message, "data": data }))
        .unwrap_or_else(|_| Reply::empty(StatusCode::INTERNAL_SERVER_ERROR))
}

/// Adds a job under the client's id, if no other topic has the id.
async fn push(api: Arc<Api>, mut call: JobCall) -> Result<Reply, Problem> {
    let mut fields = fields(&mut call).await?;
    let id = text(&mut fields, "id")?;
    let topic = text(&mut fields, "topic")?;
    let mut seconds = |name: &'static str, most: u64, wrong: &str| match fields.number(name) {
        Ok(Some(seconds)) if (1..=most).contains(&seconds) => Ok(Duration::from_secs(seconds)),
        _ => Err(Problem::bad(wrong)),
    };
    if id.is_empty() {
        return Err(Problem::bad(NO_ID));
    }
    if topic.is_empty() {
        return Err(Problem::bad(NO_TOPIC));
    }
    let delay = seconds("delay", 1 << 31, WRONG_DELAY)?;
    let ttr = seconds("ttr", 86_400, WRONG_TTR)?;
    let body = text(&mut fields, "body")?;
    let topic = call.topic_named(Right::Add, &topic)?;
    let local: LocalId = id.parse().map_err(|error| Problem::bad(format!("push the job: {error}")))?;
    if let Some(other) =
        topics_of(&api, &call, &[Right::Add, Right::Pop], &local).await?.into_iter().find(|other| *other != topic)
    {
        return Err(Problem::new(ProblemKind::IdTaken, format!("{TAKEN}: topic {other} has a job of this id")));
    }
    let job = NewJob { id: Some(local.clone()), due: Due::After(delay), ttr: Some(ttr), ..NewJob::new(body.clone()) };
    let added = api.add("push the job", &call, &topic, vec![job]).await?;
    if !added.iter().all(|added| added.created) {
        let id = JobId { topic, local };
        let there = api.queue.get(&id).await.map_err(|error| problem("look at the job of this id", error))?;
        // The same again is what a client sends that got no answer. Another body under the id would be lost.
        if there.is_some_and(|there| there.body != body) {
            return Err(Problem::new(ProblemKind::IdTaken, TAKEN));
        }
    }
    Ok(answer(0, ADDED, Value::Null))
}

/// Pops a job of one of the topics, which commas separate, as soon as there is one.
async fn pop(api: Arc<Api>, mut call: JobCall) -> Result<Reply, Problem> {
    let names = text(&mut fields(&mut call).await?, "topic")?;
    let names = names.split(',').map(str::trim).filter(|name| !name.is_empty()).take(super::lmstfy::QUEUES);
    let topics = names.map(|name| call.topic_named(Right::Pop, name)).collect::<Result<Vec<_>, _>>()?;
    if topics.is_empty() {
        return Err(Problem::bad(NO_TOPIC));
    }
    let (jobs, reserved) = api.take(PopRequest { topics, count: 1, ttr: None, wait: WAIT }).await?;
    let data = jobs
        .first()
        .map_or(Value::Null, |job| json!({ "id": job.id.local.as_str(), "body": String::from_utf8_lossy(&OpenBody::of(&job.body, &job.content_type).body) }));
    Ok(answer(0, DONE, data).hands_over(reserved))
}

/// Deletes the job, whoever has it.
async fn remove(api: Arc<Api>, mut call: JobCall) -> Result<Reply, Problem> {
    if let Some(job) = find(&api, &mut call).await? {
        match api.queue.delete(&job).await {
            Ok(()) | Err(JobError::NotFound) => {}
            Err(error) => return Err(problem("delete the job", error)),
        }
    }
    Ok(answer(0, DONE, Value::Null))
}

async fn get(api: Arc<Api>, mut call: JobCall) -> Result<Reply, Problem> {
    let job = match find(&api, &mut call).await? {
        Some(id) => api.queue.get(&id).await.map_err(|error| problem("look at the job", error))?,
        None => None,
    };
    let data = job.map_or(Value::Null, |job| {
        json!({
            "topic": job.id.topic.as_str(),
            "id": job.id.local.as_str(),
            "delay": job.time_ms / 1000,
            "ttr": job.ttr_ms.div_ceil(1000),
            "body": String::from_utf8_lossy(&OpenBody::of(&job.body, &job.content_type).body),
        })
    });
    Ok(answer(0, DONE, data))
}

/// Finds the job with the id of the request: in the topic of the request, if it names one; else in the one topic that
/// has the id.
async fn find(api: &Api, call: &mut JobCall) -> Result<Option<JobId>, Problem> {
    let mut fields = fields(call).await?;
    let id = text(&mut fields, "id")?;
    let said = text(&mut fields, "topic")?;
    if id.is_empty() {
        return Err(Problem::bad(NO_ID));
    }
    let Ok(local) = id.parse::<LocalId>() else { return Ok(None) };
    if !said.is_empty() {
        return Ok(Some(JobId { topic: call.topic_named(Right::Pop, &said)?, local }));
    }
    let mut topics = topics_of(api, call, &[Right::Pop], &local).await?;
    match topics.len() {
        0 | 1 => Ok(topics.pop().map(|topic| JobId { topic, local })),
        n => {
            topics.sort();
            let detail =
                format!("{MANY}: {n} topics have a job of this id, {} and {}; {NAME_IT}", topics[0], topics[1]);
            Err(Problem::new(ProblemKind::Conflict, detail))
        }
    }
}

/// Finds the topics that have a job of this id, of those that the caller has one of these rights on.
async fn topics_of(api: &Api, call: &JobCall, rights: &[Right], id: &LocalId) -> Result<Vec<Topic>, Problem> {
    let failed = |error| problem("look for the job in all topics", error);
    let mut all = Vec::new();
    let mut after = None;
    loop {
        let page = api.queue.topics(after.as_ref(), TOPICS).await.map_err(failed)?;
        after = page.last().cloned().filter(|_| page.len() == TOPICS);
        let may = |topic: &Topic| rights.iter().any(|right| call.caller.may(*right, topic.as_str()));
        all.extend(page.into_iter().filter(may));
        if all.len() > TOPICS {
            let detail = format!("look for the job: there are more than {TOPICS} topics; {NAME_IT}");
            return Err(Problem::new(ProblemKind::TooMany, detail));
        }
        if after.is_none() {
            break;
        }
    }
    let look = |topic: Topic| async move {
        let id = JobId { topic, local: id.clone() };
        Ok::<_, JobError>(api.queue.has(&id).await?.then_some(id.topic))
    };
    let found = stream::iter(all).map(look).buffer_unordered(SIDE_BY_SIDE);
    found.try_filter_map(async |topic| Ok(topic)).try_collect().await.map_err(failed)
}

async fn fields(call: &mut JobCall) -> Result<JsonFields, Problem> {
    call.read(JsonFields::parse).await.map_err(|problem| match problem.kind {
        ProblemKind::BadRequest => Problem::bad(NO_JSON),
        _ => problem,
    })
}

/// Reads a text without the space around it; empty if there is none.
fn text(fields: &mut JsonFields, name: &'static str) -> Result<String, Problem> {
    let text = fields.text(name).map_err(|_| Problem::bad(NO_JSON))?.unwrap_or_default();
    Ok(text.trim().to_owned())
}
