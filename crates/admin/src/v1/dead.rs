//! `/v1/queues/{queue}/dead`: dead letters, listed, counted, shown, redriven and purged.

use std::sync::Arc;

use bytes::Bytes;
use hyper::StatusCode;

use super::errors::problem;
use super::limit;
use crate::Admin;
use crate::access::AdminCaller;
use crate::changes::Asker;
use delaybridge_jobs_http::call::{Call, Query};
use delaybridge_jobs_http::problem::Problem;
use delaybridge_jobs_http::reply::Reply;
use delaybridge_ops::Queue;
use delaybridge_ops::dead::{
    self, FILTER_NAMES, Filter, LINES, Letters, LettersBody, LineBatch, LineReport, Pace, Purged, Redriven,
};
use delaybridge_ops::operation::{ChangeSubject, ChangeTarget, RequestFields};
use delaybridge_ops::progress::Unwatched;

/// Letters of a page.
pub const PAGE: usize = 50;
/// Most letters of a page.
const MOST: usize = 200;

/// A page of dead letters, the latest first.
pub async fn list(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    let filter = asked(&admin, &call)?;
    let limit = limit(&call, PAGE, MOST)?;
    let queue = admin.queue(&call).await?;
    let page = dead::page(&queue, &filter, limit, after(&call.query)?).await.map_err(|error| problem(&error))?;
    Reply::json(StatusCode::OK, &page)
}

/// The filter of a query, with the right that it needs.
pub fn asked(admin: &Admin, call: &Call<AdminCaller>) -> Result<Filter, Problem> {
    let filter = filter_of(&call.query)?;
    if let Some(need) = filter.need() {
        admin.access.check(need, &call.caller, &call.headers, Some(call.part("queue")))?;
    }
    Ok(filter)
}

/// The filter of a query or a form. Several values of one part are separated by commas.
///
/// # Errors
/// What cannot be read.
pub fn filter_of(query: &Query) -> Result<Filter, Problem> {
    let mut fields = RequestFields::default();
    for name in FILTER_NAMES {
        fields.add_text(name, query.text(name).unwrap_or_default().trim());
    }
    let filter: Filter = fields.read().map_err(|error| problem(&error))?;
    filter.check().map_err(|error| problem(&error))?;
    Ok(filter)
}

/// The cursor of a page.
pub fn after(query: &Query) -> Result<Option<&str>, Problem> {
    match query.text("after").filter(|after| !after.is_empty()) {
        Some(after) if !dead::is_place(after) => {
            Err(Problem::bad("read `after` in the query: it is the `next` of the page before"))
        }
        after => Ok(after),
    }
}

/// Everything that one letter keeps.
pub async fn one(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    let queue = admin.queue(&call).await?;
    let which = Letters { ids: vec![call.part("id").to_owned()], ..Letters::default() };
    Reply::json(StatusCode::OK, &dead::show(&queue, &which, 1).await.map_err(|error| problem(&error))?)
}

/// Letters with everything that they keep, the oldest first.
pub async fn export(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    let filter = asked(&admin, &call)?;
    let after = after(&call.query)?.map(str::to_owned);
    let queue = admin.queue(&call).await?;
    let which = Letters { filter, after, ..Letters::default() };
    Reply::json(StatusCode::OK, &dead::export_page(&queue, &which).await.map_err(|error| problem(&error))?)
}

/// Makes letters of exported ones.
pub async fn import(admin: Arc<Admin>, mut call: Call<AdminCaller>) -> Result<Reply, Problem> {
    let flag = |name: &str| match call.query.text(name) {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(Problem::bad(format!("read `{name}` in the query: it is true or false"))),
    };
    let (dry_run, stops) = (flag("dry_run")?, flag("stops")?);
    let run = call.query.number("run")?.ok_or_else(|| {
        Problem::bad(
            "read `run` in the query: it is missing; send a number that no other import has, and keep it for all lines",
        )
    })?;
    let first = call.query.number("first")?.unwrap_or(1);
    let lines = call.read(lines_of).await?;
    let queue = admin.queue(&call).await?;
    let batch = LineBatch { run, first, lines, dry_run, stops };
    let subject = ChangeSubject {
        what: if dry_run { "try_import" } else { "import" },
        of: ChangeTarget::Queue(queue.id().to_owned()),
        which: batch.words(),
    };
    let work = async move { Ok(dead::import_lines(&queue, &batch).await) };
    Reply::json(StatusCode::OK, &admin.change(subject, Asker::of(&call), work, LineReport::words).await?)
}

/// The lines of a body.
fn lines_of(body: Bytes) -> Result<Vec<Bytes>, Problem> {
    let lines: Vec<_> = body.split(|byte| *byte == b'\n').take(LINES + 2).map(|line| body.slice_ref(line)).collect();
    // A line break at the end begins no further line.
    let lines = lines.strip_suffix(&[Bytes::new()]).unwrap_or(&lines);
    match lines.len() {
        1..=LINES => Ok(lines.to_vec()),
        _ => Err(Problem::bad(format!(
            "read the body: it has 1 to {LINES} lines, each a letter as `dead export` writes it"
        ))),
    }
}

/// Redrives dead letters.
pub async fn redrive(admin: Arc<Admin>, mut call: Call<AdminCaller>) -> Result<Reply, Problem> {
    let (which, pace) = which(&mut call).await?;
    let queue = admin.queue(&call).await?;
    Reply::json(StatusCode::OK, &admin.redrive(queue, which, pace, Asker::of(&call)).await?)
}

/// Removes dead letters for good.
pub async fn purge(admin: Arc<Admin>, mut call: Call<AdminCaller>) -> Result<Reply, Problem> {
    let (which, pace) = which(&mut call).await?;
    let queue = admin.queue(&call).await?;
    Reply::json(StatusCode::OK, &admin.purge(queue, which, pace, Asker::of(&call)).await?)
}

/// Reads which letters the body means, and the pace.
async fn which(call: &mut Call<AdminCaller>) -> Result<(Letters, Pace), Problem> {
    let mut fields = RequestFields::default();
    fields.add_body(call.read(Ok::<Bytes, Problem>).await?).map_err(|error| problem(&error))?;
    fields.read::<LettersBody>().and_then(LettersBody::read).map_err(|error| problem(&error))
}

impl Admin {
    /// Redrives dead letters.
    ///
    /// # Errors
    /// Redis does not answer; the message says how many were redriven before.
    pub async fn redrive(
        self: &Arc<Self>,
        queue: Queue,
        which: Letters,
        pace: Pace,
        asker: Asker,
    ) -> Result<Redriven, Problem> {
        let subject = subject(if pace.dry_run { "try_redrive" } else { "redrive" }, &queue, &which);
        let work = async move { dead::redrive(&queue, &which, pace, &mut Unwatched).await };
        self.change(subject, asker, work, |done| format!("{} matched, {} redriven", done.matched, done.redriven)).await
    }

    /// Removes dead letters for good.
    ///
    /// # Errors
    /// Redis does not answer; the message says how many were removed before.
    pub async fn purge(
        self: &Arc<Self>,
        queue: Queue,
        which: Letters,
        pace: Pace,
        asker: Asker,
    ) -> Result<Purged, Problem> {
        let subject = subject(if pace.dry_run { "try_purge" } else { "purge" }, &queue, &which);
        let work = async move { dead::purge(&queue, &which, pace, &mut Unwatched).await };
        self.change(subject, asker, work, |done| format!("{} matched, {} purged", done.matched, done.purged)).await
    }
}

fn subject(what: &'static str, queue: &Queue, which: &Letters) -> ChangeSubject {
    ChangeSubject { what, of: ChangeTarget::Queue(queue.id().to_owned()), which: which.words() }
}
