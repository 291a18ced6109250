//! The five endpoints of ouqiang/delay-queue, so that its clients work unchanged. The method does not matter, the status is
//! always 200, and `code` says whether it worked.
//!
//! An id has no topic there. A job is looked for in the topics that this process has seen it in, then in all; see
//! `docs/lmstfy.md` for what differs.

use std::sync::Arc;
use std::time::Duration;

use hyper::{Method, StatusCode};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use super::Api;
use super::access::Right;
use super::call::Call;
use super::problem::{Kind, Problem};
use super::reply::Reply;
use super::routes::{Dialect, Route, routes};
use super::v1::errors::problem;
use crate::jobs::{Due, JobError, JobId, JobInfo, LocalId, NewJob, PopRequest, Topic};

/// The endpoints. Clients send `POST`; any other method is served as well.
pub static ROUTES: &[Route] = routes! { Dialect::Ouqiang;
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

/// How long its `pop` waits for a job.
const WAIT: Duration = Duration::from_secs(178);
/// Topics that a job is looked for in.
const TOPICS: usize = 100;
/// Jobs whose topic is known.
const KNOWN: usize = 10_000;

/// Topics of jobs that this process has seen.
#[derive(Debug, Default)]
pub struct Seen(Mutex<std::collections::HashMap<LocalId, Topic>>);

impl Seen {
    fn note(&self, id: &JobId) {
        let mut seen = self.0.lock();
        if seen.len() >= KNOWN {
            seen.clear();
        }
        seen.insert(id.local.clone(), id.topic.clone());
    }
}

/// A problem as these clients expect it.
pub(super) fn reply(problem: &Problem) -> Reply {
    answer(1, &problem.detail, Value::Null)
}

fn answer(code: u8, message: &str, data: Value) -> Reply {
    // A value of this type always has JSON.
    Reply::json(StatusCode::OK, &json!({ "code": code, "message": message, "data": data }))
        .unwrap_or_else(|_| Reply::empty(StatusCode::INTERNAL_SERVER_ERROR))
}

/// A job is added under the client's id.
async fn push(api: Arc<Api>, mut call: Call) -> Result<Reply, Problem> {
    let fields = fields(&mut call).await?;
    let (id, topic) = (text(&fields, "id")?, text(&fields, "topic")?);
    let seconds = |name: &str, most: u64| match fields.get(name).map_or(Some(0), Value::as_u64) {
        Some(seconds) if (1..=most).contains(&seconds) => Some(Duration::from_secs(seconds)),
        _ => None,
    };
    if id.is_empty() {
        return Err(Problem::bad(NO_ID));
    }
    if topic.is_empty() {
        return Err(Problem::bad(NO_TOPIC));
    }
    let delay = seconds("delay", 1 << 31).ok_or_else(|| Problem::bad(WRONG_DELAY))?;
    let ttr = seconds("ttr", 86_400).ok_or_else(|| Problem::bad(WRONG_TTR))?;
    let body = text(&fields, "body")?.to_owned();
    let topic = call.topic_named(Right::Add, topic)?;
    let local: LocalId = id.parse().map_err(|error| Problem::bad(format!("push the job: {error}")))?;
    let job = NewJob { id: Some(local.clone()), due: Due::After(delay), ttr: Some(ttr), ..NewJob::new(body.clone()) };
    let added = api.queue.add(&topic, vec![job]).await.map_err(|error| problem("push the job", error))?;
    let id = JobId { topic, local };
    if !added.iter().all(|added| added.created) {
        let there = api.queue.get(&id).await.map_err(|error| problem("look at the job of this id", error))?;
        // The same again is what a client sends that got no answer. Another body under the id would be lost.
        if there.is_some_and(|there| there.body != body) {
            return Err(Problem::new(Kind::IdTaken, TAKEN));
        }
    }
    api.seen.note(&id);
    Ok(answer(0, ADDED, Value::Null))
}

/// A job of one of the topics, which commas separate, as soon as there is one.
async fn pop(api: Arc<Api>, mut call: Call) -> Result<Reply, Problem> {
    let fields = fields(&mut call).await?;
    let names = text(&fields, "topic")?;
    let names = names.split(',').map(str::trim).filter(|name| !name.is_empty()).take(super::lmstfy::QUEUES);
    let topics = names.map(|name| call.topic_named(Right::Pop, name)).collect::<Result<Vec<_>, _>>()?;
    if topics.is_empty() {
        return Err(Problem::bad(NO_TOPIC));
    }
    let (jobs, reserved) = api.take(PopRequest { topics, count: 1, ttr: None, wait: WAIT }).await?;
    let data = jobs.first().map_or(Value::Null, |job| {
        api.seen.note(&job.id);
        json!({ "id": job.id.local.as_str(), "body": String::from_utf8_lossy(&job.body) })
    });
    Ok(answer(0, DONE, data).hands_over(reserved))
}

/// The job is gone, whoever has it.
async fn remove(api: Arc<Api>, mut call: Call) -> Result<Reply, Problem> {
    if let Some(job) = find(&api, &mut call, Right::Pop).await? {
        match api.queue.delete(&job.id).await {
            Ok(()) | Err(JobError::NotFound) => {}
            Err(error) => return Err(problem("delete the job", error)),
        }
    }
    Ok(answer(0, DONE, Value::Null))
}

/// The job.
async fn get(api: Arc<Api>, mut call: Call) -> Result<Reply, Problem> {
    let data = find(&api, &mut call, Right::Pop).await?.map_or(Value::Null, |job| {
        json!({
            "topic": job.id.topic.as_str(),
            "id": job.id.local.as_str(),
            "delay": job.time_ms / 1000,
            "ttr": job.ttr_ms.div_ceil(1000),
            "body": String::from_utf8_lossy(&job.body),
        })
    });
    Ok(answer(0, DONE, data))
}

/// The job with the id of the request: in the topic of the request, if it names one; in the one where it was seen; in any.
async fn find(api: &Api, call: &mut Call, right: Right) -> Result<Option<JobInfo>, Problem> {
    let fields = fields(call).await?;
    let id = text(&fields, "id")?;
    if id.is_empty() {
        return Err(Problem::bad(NO_ID));
    }
    let Ok(local) = id.parse::<LocalId>() else { return Ok(None) };
    let said = text(&fields, "topic")?;
    let topics = if said.is_empty() {
        let seen = api.seen.0.lock().get(&local).cloned();
        let all = api.queue.topics(None, TOPICS).await.map_err(|error| problem("list the topics", error))?;
        seen.into_iter().chain(all).collect()
    } else {
        vec![call.topic_named(right, said)?]
    };
    for topic in topics.into_iter().filter(|topic| call.caller.may(right, topic.as_str())) {
        let id = JobId { topic, local: local.clone() };
        if let Some(job) = api.queue.get(&id).await.map_err(|error| problem("look for the job", error))? {
            return Ok(Some(job));
        }
    }
    Ok(None)
}

async fn fields(call: &mut Call) -> Result<Map<String, Value>, Problem> {
    let body = call.body().await?;
    match serde_json::from_slice(&body) {
        Ok(Value::Object(fields)) => Ok(fields),
        _ => Err(Problem::bad(NO_JSON)),
    }
}

/// A text without the space around it; empty if there is none.
fn text<'a>(fields: &'a Map<String, Value>, name: &str) -> Result<&'a str, Problem> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text.trim()),
        Some(_) => Err(Problem::bad(NO_JSON)),
    }
}
