//! `/v1/topics`: which there are, how many jobs they have, what they allow, and whether they hand out any.

use std::sync::Arc;

use hyper::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;

use super::errors::problem;
use super::jobs::JobShape;
use super::limits;
use super::shapes::Count;
use crate::Api;
use crate::access::Right;
use crate::job_call::{JobCall, NamedInPath as _};
use delaybridge_http_server::fields::JsonFields;
use delaybridge_http_server::problem::Problem;
use delaybridge_http_server::reply::Reply;
use delaybridge_jobs::{Allowed, JobState, MAX_BATCH, MAX_PAGE, Sizes, Topic};

/// One topic.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Topic")]
pub struct TopicShape {
    /// The topic's name.
    topic: String,
    /// The numbers of jobs by state.
    #[serde(flatten)]
    sizes: Sizes,
    /// The limits in effect.
    limits: Allowed,
}

/// A page of topics.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Topics")]
pub struct TopicsShape {
    /// The topics.
    topics: Vec<TopicShape>,
    /// The topic after which the next page begins, if there may be more.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// A page of jobs.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Jobs")]
pub struct JobsShape {
    /// The jobs.
    pub jobs: Vec<JobShape>,
    /// The `skip` of the next page, if there are more jobs of this state. Large jobs make a page shorter than its `limit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// Names that are read at a time.
const SCANNED: usize = 1_000;

/// Answers with a page of topics, in alphabetical order; of those that the caller may look at.
pub async fn list(api: Arc<Api>, call: JobCall) -> Result<Reply, Problem> {
    let limit = limit(&call, MAX_PAGE)?;
    let after = call.query.text("after").map(str::parse::<Topic>).transpose();
    let after = after.map_err(|error| Problem::bad(format!("read `after` in the query: {error}")))?;
    let what = "list the topics";
    // The names of others are none of the caller's business, not even as the place to go on at.
    let mut names = Vec::new();
    let mut from = after;
    while names.len() <= limit {
        let page = api.queue.topics(from.as_ref(), SCANNED).await.map_err(|error| problem(what, error))?;
        from = page.last().filter(|_| page.len() == SCANNED).cloned();
        names.extend(page.into_iter().filter(|name| call.caller.may(Right::Admin, name.as_str())));
        if from.is_none() {
            break;
        }
    }
    let more = names.len() > limit;
    names.truncate(limit);
    let next = names.last().filter(|_| more).map(Topic::to_string);
    let mut topics = Vec::new();
    for name in &names {
        topics.push(topic(&api, name).await?);
    }
    Reply::json(StatusCode::OK, &TopicsShape { topics, next })
}

/// Answers with one topic.
pub async fn get(api: Arc<Api>, call: JobCall) -> Result<Reply, Problem> {
    let name = call.topic(Right::Admin)?;
    Reply::json(StatusCode::OK, &topic(&api, &name).await?)
}

/// Answers with jobs of one state, in the order of their times.
pub async fn peek(api: Arc<Api>, call: JobCall) -> Result<Reply, Problem> {
    let name = call.topic(Right::Admin)?;
    let asked = call.query.text("state").unwrap_or("ready");
    let state = JobState::ALL.into_iter().find(|state| state.as_str() == asked);
    let state = state.ok_or_else(|| Problem::bad("read `state` in the query: it is delay, ready, reserved or dead"))?;
    jobs(&api, &name, state, &call).await
}

/// Pauses a topic: nothing is handed out.
pub async fn pause(api: Arc<Api>, call: JobCall) -> Result<Reply, Problem> {
    let name = call.topic(Right::Admin)?;
    api.may_make("pause the topic", &call, &name).await?;
    api.queue.pause(&name).await.map_err(|error| problem("pause the topic", error))?;
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}

/// Resumes a topic: its jobs are handed out again.
pub async fn resume(api: Arc<Api>, call: JobCall) -> Result<Reply, Problem> {
    let name = call.topic(Right::Admin)?;
    api.queue.resume(&name).await.map_err(|error| problem("resume the topic", error))?;
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}

/// The most jobs that one request removes.
pub const MOST_EMPTIED: u64 = 10_000;

/// The outcome of emptying a topic.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EmptiedTopic {
    /// The number of removed jobs.
    count: u64,
    /// The number of jobs that still wait.
    left: u64,
}

/// Removes waiting jobs for good.
pub async fn empty(api: Arc<Api>, mut call: JobCall) -> Result<Reply, Problem> {
    let name = call.topic(Right::Admin)?;
    let mut fields = call.read(JsonFields::parse).await?;
    let limit = fields.number("limit")?.unwrap_or(MOST_EMPTIED);
    if !(1..=MOST_EMPTIED).contains(&limit) {
        return Err(fields.problem(&format!("`limit` is 1 to {MOST_EMPTIED}")));
    }
    fields.finish()?;
    let queue = api.queue.clone();
    let work = async move { queue.empty(&name, limit).await };
    let emptied = api.in_turn(&call, (MAX_BATCH, "empty the topic"), work).await?;
    Reply::json(StatusCode::OK, &EmptiedTopic { count: emptied.removed, left: emptied.left })
}

/// Removes a topic with all of its jobs.
pub async fn destroy(api: Arc<Api>, call: JobCall) -> Result<Reply, Problem> {
    let name = call.topic(Right::Admin)?;
    let force = call.query.flag("force")?.unwrap_or(false);
    let count = api.queue.destroy(&name, force).await.map_err(|error| problem("remove the topic", error))?;
    Reply::json(StatusCode::OK, &Count { count })
}

/// Answers with a page of jobs.
pub async fn jobs(api: &Api, name: &Topic, state: JobState, call: &JobCall) -> Result<Reply, Problem> {
    let skip = call.query.number("skip")?.unwrap_or(0);
    let limit = limit(call, MAX_PAGE)?;
    let (page, turn) = api.read_jobs(call, (name, state), (skip, limit), "look at the jobs").await?;
    let jobs = page.jobs.into_iter().map(JobShape::from).collect();
    Ok(Reply::json(StatusCode::OK, &JobsShape { jobs, next: page.next })?.in_turn(turn))
}

/// Reads `limit` of the query: 1 to `most`; `most` if it is left out.
pub fn limit(call: &JobCall, most: usize) -> Result<usize, Problem> {
    match call.query.number("limit")? {
        None => Ok(most),
        Some(limit) => match usize::try_from(limit) {
            Ok(limit) if (1..=most).contains(&limit) => Ok(limit),
            _ => Err(Problem::bad(format!("read `limit` in the query: it is 1 to {most}"))),
        },
    }
}

async fn topic(api: &Api, name: &Topic) -> Result<TopicShape, Problem> {
    let sizes = api.queue.sizes(name).await.map_err(|error| problem("look at the topic", error))?;
    Ok(TopicShape { topic: name.to_string(), sizes, limits: limits::of(api, name).await? })
}
