//! `/v1/queues/{queue}/elements`: elements with their payloads, without taking them; one by its id, and what may be done with it.

use std::sync::Arc;

use hyper::StatusCode;

use super::errors::problem;
use super::limit;
use crate::Admin;
use crate::access::AdminCaller;
use crate::changes::{Asker, ChangeSubject};
use delaybridge_jobs_http::call::Call;
use delaybridge_jobs_http::fields::JsonFields;
use delaybridge_jobs_http::problem::{Problem, ProblemKind};
use delaybridge_jobs_http::reply::Reply;
use delaybridge_ops::element::{self, ActOutcome, Action, FoundElement, When};
use delaybridge_ops::pause::{length, point};
use delaybridge_ops::peek::{Peek, PeekState, peek};
use delaybridge_ops::{Queue, check_id, dead};

/// Bytes of each payload in a list.
pub const SHOWN: usize = 4096;
/// Elements of a page.
pub const PAGE: usize = 20;
/// Most elements of a page.
const MOST: usize = 100;

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
            ElementChange::Reschedule(When::Now) => "run_now",
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
        let asker = Asker::of(call);
        let subject = ChangeSubject { what: deed.name(), of: queue.id().to_owned(), which: id.to_owned() };
        let id = id.to_owned();
        let by = match &deed {
            ElementChange::Kill { by, .. } => asker.on_behalf_of(by.as_deref()),
            ElementChange::Reschedule(_) | ElementChange::Cancel => String::new(),
        };
        let work = async move {
            let action = match &deed {
                ElementChange::Reschedule(when) => Action::Reschedule(*when),
                ElementChange::Cancel => Action::Cancel,
                ElementChange::Kill { why, .. } => Action::Kill { by: &by, why },
            };
            element::act(&queue, &id, action).await
        };
        self.change(subject, asker, work, |acted| {
            let [element] = &acted.elements;
            let unchanged = if element.unchanged { ", as it was" } else { "" };
            format!("{}: {:?} -> {:?}{unchanged}", element.id.id, element.was, element.state)
        })
        .await
    }

    /// Refuses a text that can be no id of the queue.
    fn known_id(&self, queue: &Queue, id: &str) -> Result<(), Problem> {
        if dead::is_place(id) {
            return Ok(());
        }
        check_id(&self.session().config, queue.id(), id)
            .map_err(|error| Problem::new(ProblemKind::NotFound, error.message))
    }
}
