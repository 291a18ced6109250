//! `/v1/topics/{topic}/recurring`: jobs that are added at the times of a cron expression.

use std::sync::Arc;

use hyper::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;

use super::add::{CONTENT, body, priority};
use super::errors::problem;
use super::shapes::BodyShape;
use super::topics::limit;
use crate::Api;
use crate::access::Right;
use crate::job_call::{JobCall, NamedInPath as _};
use bytes::Bytes;
use delaybridge_http_server::fields::JsonFields;
use delaybridge_http_server::problem::Problem;
use delaybridge_http_server::reply::Reply;
use delaybridge_jobs::{
    CronSchedule, JobError, MAX_PAGE, MissedFirings, Recurring, RecurringName, RecurringState, SetRecurring,
};

/// A recurring job.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "RecurringJob")]
pub struct RecurringShape {
    /// The name.
    name: String,
    /// The cron expression; left out if another version wrote the definition, which this one cannot read.
    #[serde(skip_serializing_if = "Option::is_none")]
    cron: Option<String>,
    /// The time zone of the expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    zone: Option<String>,
    /// The treatment of missed firings.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["skip", "once", "all"]))]
    missed: Option<&'static str>,
    /// Whether it is paused.
    paused: bool,
    /// The next firing; left out while it is paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_ms: Option<i64>,
    /// A consumer's time to run, if it has its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    ttr_ms: Option<u64>,
    /// Attempts before a job is dead, if it has its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    tries: Option<u32>,
    /// The time to live of a job, if it has its own; 0 is for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_ms: Option<u64>,
    /// The priority of a job, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<u8>,
    /// The size of the body, in bytes.
    size: u64,
    /// The body; left out in a list.
    #[serde(flatten)]
    body: Option<BodyShape>,
}

impl From<RecurringState> for RecurringShape {
    fn from(state: RecurringState) -> RecurringShape {
        let RecurringState { name, definition, next_ms, paused, size, body, .. } = state;
        let of = definition.as_ref();
        let millis = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let content_type = || of.map_or_else(String::new, |of| of.content_type.clone());
        RecurringShape {
            name: name.to_string(),
            cron: of.map(|of| of.schedule.expression().to_owned()),
            zone: of.map(|of| of.schedule.zone().to_owned()),
            missed: of.map(|of| of.missed.as_str()),
            paused,
            next_ms,
            ttr_ms: of.and_then(|of| of.ttr).map(millis),
            tries: of.and_then(|of| of.tries),
            ttl_ms: of.and_then(|of| of.ttl).map(millis),
            priority: of.map(|of| of.priority).filter(|priority| *priority > 0),
            size,
            body: body.map(|body| BodyShape::of(&body, &content_type())),
        }
    }
}

/// A page of recurring jobs.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "RecurringJobs")]
pub struct RecurringList {
    /// The recurring jobs.
    recurring: Vec<RecurringShape>,
    /// The name after which the next page begins, if there are more.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// The outcome of adding or changing a recurring job.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SetRecurringJob")]
pub struct SetRecurringShape {
    /// The name.
    name: String,
    /// Whether there was none of this name.
    created: bool,
    /// False if it was as wanted already.
    changed: bool,
    /// The next firing; left out while it is paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_ms: Option<i64>,
}

/// The outcome of a pause or of its end.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SwitchedRecurring {
    /// The name.
    name: String,
    /// Whether it is paused.
    paused: bool,
    /// False if it was so already.
    changed: bool,
}

fn name(call: &JobCall) -> Result<RecurringName, Problem> {
    call.part("name").parse().map_err(|error| Problem::bad(format!("read the path: {error}")))
}

/// Answers with a page of recurring jobs.
pub async fn list(api: Arc<Api>, call: JobCall) -> Result<Reply, Problem> {
    let topic = call.topic(Right::Admin)?;
    let after = call.query.text("after").map(str::parse::<RecurringName>).transpose();
    let after = after.map_err(|error| Problem::bad(format!("read `after` in the query: {error}")))?;
    let page = api.queue.recurring_page(&topic, after.as_ref(), limit(&call, MAX_PAGE)?).await;
    let page = page.map_err(|error| problem("list the recurring jobs", error))?;
    let next = page.recurring.last().filter(|_| page.more).map(|last| last.name.to_string());
    let recurring = page.recurring.into_iter().map(RecurringShape::from).collect();
    Reply::json(StatusCode::OK, &RecurringList { recurring, next })
}

/// Answers with one recurring job.
pub async fn get(api: Arc<Api>, call: JobCall) -> Result<Reply, Problem> {
    let topic = call.topic(Right::Admin)?;
    let name = name(&call)?;
    let found = api.queue.recurring(&topic, &name).await;
    let found = found.map_err(|error| problem("look at the recurring job", error))?;
    Reply::json(StatusCode::OK, &RecurringShape::from(found))
}

/// Adds or changes a recurring job.
pub async fn set(api: Arc<Api>, mut call: JobCall) -> Result<Reply, Problem> {
    let topic = call.topic(Right::Admin)?;
    let name = name(&call)?;
    let what = "set the recurring job";
    let (recurring, body) = call.read(wanted).await?;
    api.may_make(what, &call, &topic).await?;
    let set = api.queue.set_recurring(&topic, &name, &recurring, &body).await;
    let SetRecurring { created, changed, next_ms } = set.map_err(|error| problem(what, error))?;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    Reply::json(status, &SetRecurringShape { name: name.to_string(), created, changed, next_ms })
}

/// Reads the definition in a JSON object, and the body.
fn wanted(sent: Bytes) -> Result<(Recurring, Bytes), Problem> {
    let mut fields = JsonFields::parse(sent)?;
    let none = "`body` is missing: a text, or any JSON value; bytes are `body_base64`";
    let (body, default_type) = body(&mut fields)?.ok_or_else(|| fields.problem(none))?;
    let cron =
        fields.text("cron")?.ok_or_else(|| fields.problem("`cron` is missing: an expression as `30 4 * * *`"))?;
    let zone = fields.text("zone")?.unwrap_or_else(|| "UTC".to_owned());
    let schedule = CronSchedule::new(&cron, &zone).map_err(|rule| fields.problem(&rule))?;
    let missed = match fields.text("missed")?.as_deref() {
        None | Some("once") => MissedFirings::Once,
        Some("skip") => MissedFirings::Skip,
        Some("all") => MissedFirings::All,
        Some(_) => return Err(fields.problem("`missed` is `skip`, `once` or `all`")),
    };
    let tries = fields.number("tries")?.map(u32::try_from).transpose();
    let recurring = Recurring {
        schedule,
        missed,
        ttr: fields.time(["ttr", "ttr_ms"])?,
        tries: tries.map_err(|_| fields.problem("`tries` is larger than any number of tries"))?,
        ttl: fields.time(["ttl", "ttl_ms"])?,
        priority: priority(&mut fields)?.unwrap_or(0),
        content_type: fields.text(CONTENT)?.unwrap_or_else(|| default_type.to_owned()),
    };
    fields.finish()?;
    Ok((recurring, body))
}

/// Removes a recurring job.
pub async fn delete(api: Arc<Api>, call: JobCall) -> Result<Reply, Problem> {
    let topic = call.topic(Right::Admin)?;
    let name = name(&call)?;
    let deleted = api.queue.delete_recurring(&topic, &name).await;
    deleted.map_err(|error| problem("delete the recurring job", error))?;
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}

/// Pauses a recurring job.
pub async fn pause(api: Arc<Api>, call: JobCall) -> Result<Reply, Problem> {
    let topic = call.topic(Right::Admin)?;
    let name = name(&call)?;
    switched(&name, true, api.queue.pause_recurring(&topic, &name).await)
}

/// Lets a recurring job fire again.
pub async fn resume(api: Arc<Api>, call: JobCall) -> Result<Reply, Problem> {
    let topic = call.topic(Right::Admin)?;
    let name = name(&call)?;
    switched(&name, false, api.queue.resume_recurring(&topic, &name).await)
}

fn switched(name: &RecurringName, paused: bool, changed: Result<bool, JobError>) -> Result<Reply, Problem> {
    let what = if paused { "pause the recurring job" } else { "resume the recurring job" };
    let changed = changed.map_err(|error| problem(what, error))?;
    Reply::json(StatusCode::OK, &SwitchedRecurring { name: name.to_string(), paused, changed })
}
