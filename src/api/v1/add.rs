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
use serde_json::Value;

use super::errors::problem;
use super::shapes::{AddedJob, AddedJobs};
use crate::api::Api;
use crate::api::access::Right;
use crate::api::call::{Call, Query};
use crate::api::fields::Fields;
use crate::api::problem::{Kind, Problem};
use crate::api::reply::Reply;
use crate::jobs::{Due, NewJob};

/// Most jobs of one request.
pub const BATCH: usize = 1000;
/// The settings of a job, as its query may have them.
pub const SETTINGS: [&str; 9] = ["id", "delay", "delay_ms", "due_ms", "ttr", "ttr_ms", "tries", "ttl", "ttl_ms"];
/// What `curl -d` says of any body.
const FORM: &str = "application/x-www-form-urlencoded";

/// One job.
pub async fn one(api: Arc<Api>, mut call: Call) -> Result<Reply, Problem> {
    let topic = call.topic(Right::Add)?;
    let body = call.body().await?;
    call.query.only(&SETTINGS)?;
    let job = if call.is_json() && call.query.is_empty() {
        job(Fields::parse(&body)?)?
    } else {
        let content_type = call.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let content_type = if call.media_type() == FORM { "" } else { content_type };
        let job = NewJob { content_type: content_type.to_owned(), ..NewJob::new(body) };
        with_settings(job, &mut FromQuery(&call.query))?
    };
    let mut added = api.queue.add(&topic, vec![job]).await.map_err(|error| problem("add the job", error))?;
    let Some(added) = added.pop() else {
        return Err(Problem::new(Kind::Unexpected, "add the job: the answer has none"));
    };
    if added.created {
        return Reply::json(StatusCode::CREATED, &AddedJob::from(added));
    }
    if added.differs {
        let id = added.id;
        let detail =
            format!("add the job: {id} is there with another body; nothing was done; use another id, or delete it");
        return Err(Problem::new(Kind::IdTaken, detail));
    }
    // What became of the one that was added before.
    let there = api.queue.get(&added.id).await.map_err(|error| problem("look at the job that is there", error))?;
    Reply::json(StatusCode::OK, &AddedJob::of_one_that_was_there(added, there.as_ref()))
}

/// Many jobs.
pub async fn batch(api: Arc<Api>, mut call: Call) -> Result<Reply, Problem> {
    let topic = call.topic(Right::Add)?;
    call.query.only(&[])?;
    if !call.is_json() {
        let detail = "add jobs: several jobs are sent as JSON, with content-type application/json";
        return Err(Problem::new(Kind::MediaType, detail));
    }
    let body = call.body().await?;
    let mut fields = Fields::parse(&body)?;
    let items = fields.list("jobs", BATCH)?;
    fields.finish()?;
    let items = items.ok_or_else(|| Problem::bad("read the body: `jobs` is missing: a list of jobs"))?;
    let read = |(at, item): (usize, Value)| job(Fields::of(format!("jobs[{at}]."), item)?);
    let jobs = items.into_iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
    let added = api.queue.add(&topic, jobs).await.map_err(|error| problem("add the jobs", error))?;
    Reply::json(StatusCode::OK, &AddedJobs { jobs: added.into_iter().map(AddedJob::from).collect() })
}

/// A job as a JSON object.
fn job(mut fields: Fields) -> Result<NewJob, Problem> {
    let (body, default_type) = body(&mut fields)?;
    let content_type = fields.text("content_type")?.unwrap_or_else(|| default_type.to_owned());
    let job = with_settings(NewJob { content_type, ..NewJob::new(body) }, &mut fields)?;
    fields.finish()?;
    Ok(job)
}

/// The body: a text is its characters, any other value its JSON.
fn body(fields: &mut Fields) -> Result<(Bytes, &'static str), Problem> {
    match (fields.value("body"), fields.text("body_base64")?) {
        (Some(_), Some(_)) => Err(fields.problem("there are both `body` and `body_base64`; send one of them")),
        (Some(Value::String(text)), None) => Ok((text.into(), "")),
        (Some(value), None) => Ok((value.to_string().into(), "application/json")),
        (None, Some(text)) => match STANDARD.decode(&text) {
            Ok(bytes) => Ok((bytes.into(), "")),
            Err(_) => Err(fields.problem("`body_base64` is not base64 with the usual letters and padding")),
        },
        (None, None) => Err(fields.problem("`body` is missing: a text, or any JSON value; bytes are `body_base64`")),
    }
}

/// Where settings are read from.
trait Settings {
    fn word(&mut self, name: &'static str) -> Result<Option<String>, Problem>;
    fn whole(&mut self, name: &'static str) -> Result<Option<u64>, Problem>;
    fn time(&mut self, names: [&'static str; 2]) -> Result<Option<Duration>, Problem>;
    fn refused(&self, detail: &str) -> Problem;
}

impl Settings for Fields {
    fn word(&mut self, name: &'static str) -> Result<Option<String>, Problem> {
        self.text(name)
    }

    fn whole(&mut self, name: &'static str) -> Result<Option<u64>, Problem> {
        self.number(name)
    }

    fn time(&mut self, names: [&'static str; 2]) -> Result<Option<Duration>, Problem> {
        Fields::time(self, names)
    }

    fn refused(&self, detail: &str) -> Problem {
        self.problem(detail)
    }
}

struct FromQuery<'a>(&'a Query);

impl Settings for FromQuery<'_> {
    fn word(&mut self, name: &'static str) -> Result<Option<String>, Problem> {
        Ok(self.0.text(name).map(str::to_owned))
    }

    fn whole(&mut self, name: &'static str) -> Result<Option<u64>, Problem> {
        self.0.number(name)
    }

    fn time(&mut self, names: [&'static str; 2]) -> Result<Option<Duration>, Problem> {
        self.0.time(names)
    }

    fn refused(&self, detail: &str) -> Problem {
        Problem::bad(format!("read the query: {detail}"))
    }
}

fn with_settings(job: NewJob, from: &mut impl Settings) -> Result<NewJob, Problem> {
    let id = from.word("id")?.map(|id| id.parse()).transpose();
    let id = id.map_err(|error: crate::jobs::InvalidName| from.refused(&format!("`id`: {error}")))?;
    let due = match (from.time(["delay", "delay_ms"])?, from.whole("due_ms")?) {
        (Some(_), Some(_)) => return Err(from.refused("there are both a delay and `due_ms`; send one of them")),
        (Some(delay), None) => Due::After(delay),
        (None, Some(due)) => Due::At(i64::try_from(due).map_err(|_| from.refused("`due_ms` is beyond all times"))?),
        (None, None) => Due::After(Duration::ZERO),
    };
    let ttr = from.time(["ttr", "ttr_ms"])?;
    let tries = from.whole("tries")?.map(u32::try_from).transpose();
    let tries = tries.map_err(|_| from.refused("`tries` is larger than any number of tries"))?;
    let ttl = from.time(["ttl", "ttl_ms"])?;
    Ok(NewJob { id, due, ttr, tries, ttl, ..job })
}
