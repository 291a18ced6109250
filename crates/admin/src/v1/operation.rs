//! The handler of every operation: the fields of the request, the same run as that of the command line, the answer as JSON.

use std::sync::Arc;

use bytes::Bytes;
use hyper::StatusCode;

use super::errors::problem;
use crate::Admin;
use crate::access::AdminCaller;
use crate::changes::Asker;
use crate::pages::list_place::LIST;
use delaybridge_http_server::call::Call;
use delaybridge_http_server::problem::Problem;
use delaybridge_http_server::reply::Reply;
use delaybridge_ops::operation::{LINES, Remote, RequestFields, Route};

/// Carries out an operation.
pub async fn operation<O: Remote>(admin: Arc<Admin>, mut call: Call<AdminCaller>) -> Result<Reply, Problem> {
    let mut fields = fields(&call, &[]);
    let mut lines = Vec::new();
    // What is searched for does not belong into a URL, and what is only read has no body.
    if O::HAS_LINES {
        lines = call.read(lines_of).await?;
    } else if O::ROUTES.iter().any(Route::has_body) {
        call.query.only(&[])?;
        let read = move |body| fields.add_body(body).map(|()| fields).map_err(|error| problem(&error));
        fields = call.read(read).await?;
    }
    let mut request: O = fields.read().map_err(|error| problem(&error))?;
    if let Some(own) = request.lines() {
        *own = lines;
    }
    if let Some(need) = request.need() {
        admin.access.check(need, &call.caller, &call.headers, request.queue())?;
    }
    Reply::json(StatusCode::OK, &admin.operate(request, Asker::of(&call)).await?)
}

/// The parameters of a page that say how it is shown, or what was done before.
const SHOWN_BY: [&str; 4] = ["still", "reload", "done", LIST];
fn lines_of(body: Bytes) -> Result<Vec<Bytes>, Problem> {
    let lines: Vec<_> = body.split(|byte| *byte == b'\n').take(LINES + 2).map(|line| body.slice_ref(line)).collect();
    // A line break at the end begins no further line.
    let lines = lines.strip_suffix(&[Bytes::new()]).unwrap_or(&lines);
    match lines.len() {
        1..=LINES => Ok(lines.to_vec()),
        _ => Err(Problem::bad(format!("read the body: it has 1 to {LINES} lines, each an object"))),
    }
}

/// Reads an operation from the path and the query of a page.
pub fn read_query<O: Remote>(call: &Call<AdminCaller>) -> Result<O, Problem> {
    fields(call, &SHOWN_BY).read().map_err(|error| problem(&error))
}

/// Returns the texts of the path and of the query, without these parameters.
fn fields(call: &Call<AdminCaller>, without: &[&str]) -> RequestFields {
    let mut fields = RequestFields::default();
    call.path.iter().for_each(|(name, text)| fields.add_text(name, text));
    call.query.pairs().filter(|(name, _)| !without.contains(name)).for_each(|(name, text)| fields.add_text(name, text));
    fields
}
