//! `POST /v1/topics/{topic}/jobs`: one job, as a JSON object or as a body of any type with its settings in the query; and
//! `.../batch`: many, all of them or none.
//!
//! A query with settings says that the body of the request is the body of the job, whatever its type.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::CONTENT_TYPE;

use super::errors::problem;
use super::shapes::{AddedShape, AddedShapes};
use crate::Api;
use crate::access::Right;
use crate::job_call::{JobCall, NamedInPath as _};
use delaybridge_core::json::Json;
use delaybridge_http_server::call::Query;
use delaybridge_http_server::fields::JsonFields;
use delaybridge_http_server::problem::{Problem, ProblemKind};
use delaybridge_http_server::reply::Reply;
use delaybridge_http_server::text::moment;
use delaybridge_jobs::{Due, MAX_PRIORITY, NewJob, Unique, UniqueUntil};

/// Most jobs of one request.
pub const BATCH: usize = 1000;
/// The settings of a job, as its query may have them.
pub const SETTINGS: [&str; 15] = [
    "id",
    "delay",
    "delay_ms",
    "due",
    "due_ms",
    "ttr",
    "ttr_ms",
    "tries",
    "ttl",
    "ttl_ms",
    "priority",
    "unique",
    "unique_for",
    "unique_for_ms",
    "unique_until",
];
/// The fields of a job that are its body.
const BODY: [&str; 2] = ["body", "body_base64"];
/// The field of a job that says what its body is.
pub(super) const CONTENT: &str = "content_type";
/// The media type that `curl -d` gives any body.
const FORM: &str = "application/x-www-form-urlencoded";

/// Adds one job.
pub async fn one(api: Arc<Api>, mut call: JobCall) -> Result<Reply, Problem> {
    let topic = call.topic(Right::Add)?;
    let content_type = call.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let content_type = if call.media_type() == FORM { "" } else { content_type }.to_owned();
    let query = call.query.clone();
    let is_json = call.is_json();
    let says_json = call.says_json();
    let now_ms = api.queue.now_ms();
    let job = call.read(move |body| {
        if is_json && query.is_empty() && (says_json || is_object(&body)) {
            return job(JsonFields::parse(body)?, now_ms);
        }
        if !is_json && query.is_empty() && is_job_with_settings(&body) {
            return Err(Problem::bad(
                "add the job: the body looks like a job with settings, but its content-type is not application/json: nothing would \
                 read them; send that content-type, or the settings in the query; `?delay=0s` says that all of it is the body of a job",
            ));
        }
        if is_json && is_job(&body) {
            return Err(Problem::bad(
                "add the job: there are settings in the query, and the body looks like a job with settings of its own; send one of \
                 them, or a body like this one with another content-type",
            ));
        }
        with_settings(NewJob { content_type, ..NewJob::new(body) }, &mut FromQuery(&query), now_ms)
    });
    let job = job.await?;
    let mut added = api.add("add the job", &call, &topic, vec![job]).await?;
    let Some(added) = added.pop() else {
        return Err(Problem::new(ProblemKind::Unexpected, "add the job: the answer has none"));
    };
    if added.created {
        return Reply::json(StatusCode::CREATED, &AddedShape::from(added));
    }
    if added.differs {
        let id = added.id;
        let detail =
            format!("add the job: {id} is there with another body; nothing was done; use another id, or delete it");
        return Err(Problem::new(ProblemKind::IdTaken, detail));
    }
    // What became of the one that was added before.
    let there = api.queue.get(&added.id).await.map_err(|error| problem("look at the job that is there", error))?;
    Reply::json(StatusCode::OK, &AddedShape::of_one_that_was_there(added, there.as_ref()))
}

/// Adds many jobs.
pub async fn batch(api: Arc<Api>, mut call: JobCall) -> Result<Reply, Problem> {
    let topic = call.topic(Right::Add)?;
    if !call.is_json() {
        let detail = "add jobs: several jobs are sent as JSON, with content-type application/json";
        return Err(Problem::new(ProblemKind::MediaType, detail));
    }
    let now_ms = api.queue.now_ms();
    let jobs = call.read(move |body| jobs(body, now_ms)).await?;
    let added = api.add("add the jobs", &call, &topic, jobs).await?;
    Reply::json(StatusCode::OK, &AddedShapes { jobs: added.into_iter().map(AddedShape::from).collect() })
}

/// Returns whether a body of which nobody said that it is JSON is to be read as a job: an object is, and nothing at
/// all.
fn is_object(body: &Bytes) -> bool {
    body.trim_ascii().is_empty() || body.trim_ascii_start().starts_with(b"{") && Json::read(body.clone()).is_ok()
}

/// Returns whether a body is a job with its settings, and not the body of one.
fn is_job(body: &Bytes) -> bool {
    JsonFields::parse(body.clone()).is_ok_and(|fields| {
        fields.names().any(|name| BODY.contains(&name))
            && fields.names().all(|name| BODY.contains(&name) || name == CONTENT || SETTINGS.contains(&name))
    })
}

/// Returns whether a body is a job with a setting that would be ignored if the whole were taken for the body of one.
fn is_job_with_settings(body: &Bytes) -> bool {
    is_job(body)
        && JsonFields::parse(body.clone()).is_ok_and(|fields| fields.names().any(|name| SETTINGS.contains(&name)))
}

fn jobs(body: Bytes, now_ms: i64) -> Result<Vec<NewJob>, Problem> {
    let mut fields = JsonFields::parse(body)?;
    let items = fields.list("jobs", BATCH)?;
    fields.finish()?;
    let items = items.ok_or_else(|| Problem::bad("read the body: `jobs` is missing: a list of jobs"))?;
    let read = |(at, item): (usize, &Json)| job(JsonFields::of(format!("jobs[{at}]."), item)?, now_ms);
    items.iter().enumerate().map(read).collect()
}

fn job(mut fields: JsonFields, now_ms: i64) -> Result<NewJob, Problem> {
    let none = "`body` is missing: a text, or any JSON value; bytes are `body_base64`";
    let (body, default_type) = body(&mut fields)?.ok_or_else(|| fields.problem(none))?;
    let content_type = fields.text(CONTENT)?.unwrap_or_else(|| default_type.to_owned());
    let job = with_settings(NewJob { content_type, ..NewJob::new(body) }, &mut fields, now_ms)?;
    fields.finish()?;
    Ok(job)
}

/// Reads the body with its media type, if there is one: a text is its characters, any other value its JSON as it was
/// sent.
pub(super) fn body(fields: &mut JsonFields) -> Result<Option<(Bytes, &'static str)>, Problem> {
    match (fields.any("body"), fields.bytes("body_base64")?) {
        (Some(_), Some(_)) => Err(fields.problem("there are both `body` and `body_base64`; send one of them")),
        (Some(value), None) => match value.text() {
            Some(text) => Ok(Some((text, ""))),
            None => Ok(Some((value.bytes().clone(), "application/json"))),
        },
        (None, Some(text)) => match STANDARD.decode(&text) {
            Ok(bytes) => Ok(Some((bytes.into(), ""))),
            Err(_) => Err(fields.problem("`body_base64` is not base64 with the usual letters and padding")),
        },
        (None, None) => Ok(None),
    }
}

/// A source of settings.
pub(super) trait SettingsSource {
    fn word(&mut self, name: &'static str) -> Result<Option<String>, Problem>;
    fn whole(&mut self, name: &'static str) -> Result<Option<u64>, Problem>;
    fn time(&mut self, names: [&'static str; 2]) -> Result<Option<Duration>, Problem>;
    /// Returns whether it is there without a value.
    fn is_null(&self, name: &str) -> bool;
    fn refused(&self, detail: &str) -> Problem;
}

impl SettingsSource for JsonFields {
    fn word(&mut self, name: &'static str) -> Result<Option<String>, Problem> {
        self.text(name)
    }

    fn whole(&mut self, name: &'static str) -> Result<Option<u64>, Problem> {
        self.number(name)
    }

    fn time(&mut self, names: [&'static str; 2]) -> Result<Option<Duration>, Problem> {
        JsonFields::time(self, names)
    }

    fn is_null(&self, name: &str) -> bool {
        JsonFields::is_null(self, name)
    }

    fn refused(&self, detail: &str) -> Problem {
        self.problem(detail)
    }
}

struct FromQuery<'a>(&'a Query);

impl SettingsSource for FromQuery<'_> {
    fn word(&mut self, name: &'static str) -> Result<Option<String>, Problem> {
        Ok(self.0.text(name).map(str::to_owned))
    }

    fn whole(&mut self, name: &'static str) -> Result<Option<u64>, Problem> {
        self.0.number(name)
    }

    fn time(&mut self, names: [&'static str; 2]) -> Result<Option<Duration>, Problem> {
        self.0.time(names)
    }

    fn is_null(&self, _: &str) -> bool {
        false
    }

    fn refused(&self, detail: &str) -> Problem {
        Problem::bad(format!("read the query: {detail}"))
    }
}

/// Reads the due time, if there is one. A `null` is refused: a client that has lost its delay does not mean at once.
pub(super) fn due(from: &mut impl SettingsSource, now_ms: i64) -> Result<Option<Due>, Problem> {
    if let Some(name) = ["delay", "delay_ms", "due", "due_ms"].into_iter().find(|name| from.is_null(name)) {
        return Err(from.refused(&format!("`{name}` is null; leave it out, or send a time")));
    }
    let at = match (from.word("due")?, from.whole("due_ms")?) {
        (Some(_), Some(_)) => return Err(from.refused("there are both `due` and `due_ms`; send one of them")),
        (Some(text), None) => Some(moment(&text).map_err(|problem| from.refused(&format!("`due`: {problem}")))?),
        (None, ms) => ms.map(i64::try_from).transpose().map_err(|_| from.refused("`due_ms` is beyond all times"))?,
    };
    match (from.time(["delay", "delay_ms"])?, at) {
        (Some(_), Some(_)) => Err(from.refused("there are both a delay and a due time; send one of them")),
        (Some(delay), None) => Ok(Some(Due::After(delay))),
        (None, Some(at_ms)) => match Due::said(at_ms, now_ms) {
            Ok(due) => Ok(Some(due)),
            Err(problem) => Err(from.refused(&format!("the due time {problem}"))),
        },
        (None, None) => Ok(None),
    }
}

fn with_settings(job: NewJob, from: &mut impl SettingsSource, now_ms: i64) -> Result<NewJob, Problem> {
    let id = from.word("id")?.map(|id| id.parse()).transpose();
    let id = id.map_err(|error: delaybridge_jobs::InvalidName| from.refused(&format!("`id`: {error}")))?;
    let due = due(from, now_ms)?.unwrap_or(Due::After(Duration::ZERO));
    let ttr = from.time(["ttr", "ttr_ms"])?;
    let tries = from.whole("tries")?.map(u32::try_from).transpose();
    let tries = tries.map_err(|_| from.refused("`tries` is larger than any number of tries"))?;
    let ttl = from.time(["ttl", "ttl_ms"])?;
    let priority = priority(from)?.unwrap_or(0);
    let unique = unique(from)?;
    Ok(NewJob { id, due, ttr, tries, ttl, priority, unique, ..job })
}

pub(super) fn priority(from: &mut impl SettingsSource) -> Result<Option<u8>, Problem> {
    let priority = from.whole("priority")?.map(u8::try_from).transpose();
    priority
        .ok()
        .filter(|priority| priority.is_none_or(|priority| priority <= MAX_PRIORITY))
        .ok_or_else(|| from.refused(&format!("`priority` is 0 to {MAX_PRIORITY}, and the highest is handed out first")))
}

fn unique(from: &mut impl SettingsSource) -> Result<Option<Unique>, Problem> {
    let key = from.word("unique")?.map(|key| key.parse()).transpose();
    let key = key.map_err(|error: delaybridge_jobs::InvalidName| from.refused(&format!("`unique`: {error}")))?;
    let lasts = from.time(["unique_for", "unique_for_ms"])?;
    let until = from.word("unique_until")?;
    let until = match until.as_deref() {
        None => None,
        Some("finished") => Some(UniqueUntil::Finished),
        Some("expired") => Some(UniqueUntil::Expired),
        Some(_) => return Err(from.refused("`unique_until` is `finished` or `expired`")),
    };
    match (key, lasts) {
        (Some(key), Some(lasts)) => Ok(Some(Unique { key, lasts, until: until.unwrap_or(UniqueUntil::Finished) })),
        (Some(_), None) => Err(from.refused("`unique` needs a time: send `unique_for` too")),
        (None, None) if until.is_none() => Ok(None),
        (None, _) => Err(from.refused("`unique_for` and `unique_until` need a key: send `unique` too")),
    }
}
