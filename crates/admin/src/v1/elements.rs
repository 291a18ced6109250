//! `/v1/queues/{queue}/elements`: elements with their payloads, without taking them.

use std::sync::Arc;

use hyper::StatusCode;

use super::errors::problem;
use super::limit;
use crate::Admin;
use crate::access::AdminCaller;
use delaybridge_jobs_http::call::Call;
use delaybridge_jobs_http::problem::Problem;
use delaybridge_jobs_http::reply::Reply;
use delaybridge_ops::dead::FieldIs;
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

/// The text itself is not quoted: it has a value of a payload in it.
pub fn read_field(text: &str) -> Result<FieldIs, Problem> {
    text.parse().map_err(|problem| Problem::bad(format!("read `field`: {problem}")))
}

impl Admin {
    /// Refuses a text that can be no id of the queue.
    ///
    /// # Errors
    /// It can be none.
    pub fn known_id(&self, queue: &Queue, id: &str) -> Result<(), Problem> {
        if dead::is_place(id) {
            return Ok(());
        }
        check_id(&self.session().config, queue.id(), id).map_err(|error| problem(&error))
    }
}
