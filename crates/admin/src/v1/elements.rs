//! `/v1/queues/{queue}/elements`: elements with their payloads, without taking them; one by its id, and what may be done with it.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use tokio::time::timeout;

use super::errors::problem;
use super::{filter, limit};
use crate::Admin;
use crate::access::AdminCaller;
use crate::changes::{Asker, ChangeSubject};
use delaybridge_core::json::Json;
use delaybridge_jobs_http::call::Call;
use delaybridge_jobs_http::fields::JsonFields;
use delaybridge_jobs_http::problem::{Problem, ProblemKind};
use delaybridge_jobs_http::reply::Reply;
use delaybridge_jobs_http::room::who;
use delaybridge_ops::element::{self, ActOutcome, Action, FoundElement, When};
use delaybridge_ops::pause::{length, point};
use delaybridge_ops::peek::{Peek, PeekState, peek};
use delaybridge_ops::progress::Unwatched;
use delaybridge_ops::search::{self, Search};
use delaybridge_ops::{Queue, check_id, dead};

/// Bytes of each payload in a list.
pub const SHOWN: usize = 4096;
/// Elements of a page.
pub const PAGE: usize = 20;
/// Most elements of a page.
const MOST: usize = 100;
/// Most fields of a search.
const FIELDS: usize = 16;
/// Time limit of a search, less than what clients wait for an answer.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(20);

/// A page of the elements in a state.
pub async fn list(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    let (state, first, limit) = (state(&call)?, first(&call)?, limit(&call, PAGE, MOST)?);
    let ask = Peek { state, first, limit, payload_bytes: Some(SHOWN), routes: false };
    let queue = admin.queue(&call).await?;
    Reply::json(StatusCode::OK, &peek(&queue, &ask).await.map_err(|error| problem(&error))?)
}

/// The state that a request asks for.
pub fn state(call: &Call<AdminCaller>) -> Result<PeekState, Problem> {
    match call.query.text("state").unwrap_or("scheduled") {
        "scheduled" => Ok(PeekState::Scheduled),
        "retry" => Ok(PeekState::Retry),
        "in_flight" => Ok(PeekState::InFlight),
        "ready" => Ok(PeekState::Ready),
        _ => Err(Problem::bad("read `state` in the query: it is scheduled, retry, in_flight or ready")),
    }
}

/// The cursor of a page: how many elements are before it.
pub fn first(call: &Call<AdminCaller>) -> Result<usize, Problem> {
    match call.query.text("after").filter(|after| !after.is_empty()) {
        None => Ok(0),
        Some(after) => {
            after.parse().map_err(|_| Problem::bad("read `after` in the query: it is the `next` of the page before"))
        }
    }
}

/// Elements to look at, at most, and unless a request says otherwise.
const LOOKED_AT: u64 = 10_000;
/// Elements that are answered unless a request says otherwise.
const MATCHES: u64 = 20;

/// Elements by fields of their payload.
pub async fn search(admin: Arc<Admin>, mut call: Call<AdminCaller>) -> Result<Reply, Problem> {
    let mut fields = call.read(JsonFields::parse).await?;
    let texts = fields.list("fields", FIELDS)?.unwrap_or_default();
    let limit = number(&mut fields, "limit", LOOKED_AT, LOOKED_AT)?;
    let matches = number(&mut fields, "matches", MATCHES, MOST as u64)? as usize;
    let after = fields.text("after")?.filter(|after| !after.is_empty());
    fields.finish()?;
    let field = |text: &Json| match text.text() {
        Some(text) => filter::read_field(&String::from_utf8_lossy(&text)),
        None => Err(Problem::bad("read `fields`: expected texts, as orderId=7")),
    };
    let wanted = texts.iter().map(field).collect::<Result<Vec<_>, _>>()?;
    if wanted.is_empty() {
        return Err(Problem::bad("read `fields`: it names none; write orderId=7"));
    }
    let after = after.map(|after| after.parse()).transpose();
    let after = after.map_err(|problem| Problem::bad(format!("read `after`: {problem}")))?;
    let queue = admin.queue(&call).await?;
    let ask = Search { fields: wanted, limit, matches, after };
    let _turn = admin.searches.take(&who(call.peer, &call.caller), 1, "search the queue").await?;
    let found = timeout(SEARCH_TIMEOUT, search::search(&queue, &ask, &mut Unwatched)).await;
    let mut hits = match found {
        Ok(found) => found.map_err(|error| problem(&error))?,
        Err(_) => {
            let detail = "search the queue: it took more than 20 s; send a smaller `limit`";
            return Err(Problem::new(ProblemKind::Unavailable, detail).retry_after(Duration::from_secs(1)));
        }
    };
    for element in &mut hits.elements {
        element.content = std::mem::take(&mut element.content).shortened(SHOWN);
    }
    Reply::json(StatusCode::OK, &hits)
}

/// A whole number from 1 to `most` in the body.
fn number(fields: &mut JsonFields, name: &'static str, usual: u64, most: u64) -> Result<u64, Problem> {
    match fields.number(name)?.unwrap_or(usual) {
        number if (1..=most).contains(&number) => Ok(number),
        _ => Err(Problem::bad(format!("read `{name}`: it is 1 to {most}"))),
    }
}

/// Everything that is known of one element.
pub async fn one(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    Reply::json(StatusCode::OK, &admin.element(&call, call.part("id")).await?.1)
}

/// Due now.
pub async fn run_now(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    answer(&admin.act(&call, call.part("id"), ElementChange::Reschedule(When::Now)).await?)
}

/// Due at another time: `in` or `at_ms`.
pub async fn reschedule(admin: Arc<Admin>, mut call: Call<AdminCaller>) -> Result<Reply, Problem> {
    let mut fields = call.read(JsonFields::parse).await?;
    let (after, at) = (fields.text("in")?, fields.number("at_ms")?);
    fields.finish()?;
    answer(&admin.act(&call, call.part("id"), ElementChange::Reschedule(when(after.as_deref(), at)?)).await?)
}

/// To the dead letters.
pub async fn kill(admin: Arc<Admin>, mut call: Call<AdminCaller>) -> Result<Reply, Problem> {
    let mut fields = call.read(JsonFields::parse).await?;
    let (by, why) = (fields.text("by")?, fields.text("why")?);
    fields.finish()?;
    let why = why.unwrap_or_else(|| "no reason given".to_owned());
    answer(&admin.act(&call, call.part("id"), ElementChange::Kill { by, why }).await?)
}

/// Gone for good.
pub async fn cancel(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    answer(&admin.act(&call, call.part("id"), ElementChange::Cancel).await?)
}

fn answer(acted: &ActOutcome) -> Result<Reply, Problem> {
    Reply::json(StatusCode::OK, acted)
}

/// The time that is meant.
///
/// # Errors
/// None, both, or what is no time.
pub fn when(after: Option<&str>, at: Option<u64>) -> Result<When, Problem> {
    match (after, at) {
        (Some(text), None) => {
            length(text).map(When::In).map_err(|problem| Problem::bad(format!("read `in`: {problem}")))
        }
        (None, Some(ms)) => {
            point(&ms.to_string()).map(When::At).map_err(|problem| Problem::bad(format!("read `at_ms`: {problem}")))
        }
        (None, None) => Err(Problem::bad("read the time: say when, by `in` or by `at_ms`")),
        (Some(_), Some(_)) => Err(Problem::bad("read the time: there are both `in` and `at_ms`")),
    }
}

/// An action on an element.
#[derive(Debug, Clone)]
pub enum ElementChange {
    /// Due at this time.
    Reschedule(When),
    /// Gone for good.
    Cancel,
    /// To the dead letters.
    Kill {
        /// The person, if not the token's name.
        by: Option<String>,
        /// Why.
        why: String,
    },
}

impl ElementChange {
    fn name(&self) -> &'static str {
        match self {
            ElementChange::Reschedule(When::Now) => "run-now",
            ElementChange::Reschedule(_) => "reschedule",
            ElementChange::Cancel => "cancel",
            ElementChange::Kill { .. } => "kill",
        }
    }
}

impl Admin {
    /// One element of the queue in the path.
    ///
    /// # Errors
    /// There is none of this id, or Redis cannot be asked.
    pub async fn element(
        self: &Arc<Self>,
        call: &Call<AdminCaller>,
        id: &str,
    ) -> Result<(Queue, FoundElement), Problem> {
        let queue = self.queue(call).await?;
        self.known_id(&queue, id)?;
        let found = element::find(&queue, id).await.map_err(|error| problem(&error))?;
        Ok((queue, found))
    }

    /// Does something with one element of the queue in the path.
    ///
    /// # Errors
    /// There is none of this id, its state forbids it, or Redis does not answer.
    pub async fn act(
        self: &Arc<Self>,
        call: &Call<AdminCaller>,
        id: &str,
        deed: ElementChange,
    ) -> Result<ActOutcome, Problem> {
        let queue = self.queue(call).await?;
        self.known_id(&queue, id)?;
        let person = match &deed {
            ElementChange::Kill { by, .. } => by.as_deref(),
            ElementChange::Reschedule(_) | ElementChange::Cancel => None,
        };
        let asker = Asker::of(call).on_behalf_of(person);
        let by = asker.name.clone();
        let subject = ChangeSubject { what: deed.name(), of: queue.id().to_owned(), which: id.to_owned() };
        let id = id.to_owned();
        let work = async move {
            let action = match &deed {
                ElementChange::Reschedule(when) => Action::Reschedule(*when),
                ElementChange::Cancel => Action::Cancel,
                ElementChange::Kill { why, .. } => Action::Kill { by: &by, why },
            };
            element::act(&queue, &id, action).await
        };
        self.change(subject, asker, work, |acted| acted.elements[0].words()).await
    }

    /// Refuses a text that can be no id of the queue.
    ///
    /// # Errors
    /// It can be none.
    pub fn known_id(&self, queue: &Queue, id: &str) -> Result<(), Problem> {
        if dead::is_place(id) {
            return Ok(());
        }
        check_id(&self.session().config, queue.id(), id)
            .map_err(|error| Problem::new(ProblemKind::NotFound, error.message))
    }
}
