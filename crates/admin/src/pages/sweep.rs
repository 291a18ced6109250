//! Redrive and purge of many dead letters: a question with their number first, then the deed.

use std::sync::Arc;

use hyper::StatusCode;
use maud::html;

use super::chosen::{ID, hidden, ids};
use super::dead::{filter_fields, query_of};
use super::layout::{View, encoded, page, see_other};
use super::show::number;
use crate::Admin;
use crate::access::AdminCaller;
use crate::changes::Asker;
use crate::forms::form;
use crate::v1::dead::filter_of;
use crate::v1::errors::problem;
use delaybridge_jobs_http::call::{Call, Query};
use delaybridge_jobs_http::problem::{Problem, ProblemKind};
use delaybridge_jobs_http::reply::Reply;
use delaybridge_ops::dead::{FILTER_NAMES, Letters, Pace, Redriven, redrive as redrive_letters};
use delaybridge_ops::operations::{CountDead, Counted};
use delaybridge_ops::plural;
use delaybridge_ops::progress::Unwatched;

/// Redrive or purge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SweepKind {
    Redrive,
    Purge,
}

impl SweepKind {
    fn of(call: &Call<AdminCaller>) -> Result<SweepKind, Problem> {
        match call.part("id") {
            "redrive" => Ok(SweepKind::Redrive),
            "purge" => Ok(SweepKind::Purge),
            _ => Err(Problem::new(ProblemKind::NoSuchPath, "find the path: dead letters are redriven or purged")),
        }
    }

    fn word(self) -> &'static str {
        match self {
            SweepKind::Redrive => "redrive",
            SweepKind::Purge => "purge",
        }
    }
}

/// The parameter that says that only ticked rows are meant, and the filter is only kept for the way back.
const CHOSEN: &str = "chosen";

/// The letters that a query or a form means.
///
/// # Errors
/// What cannot be read; or rows are meant, and none is ticked.
fn which_of(query: &Query) -> Result<Letters, Problem> {
    let filter = filter_of(query)?;
    match query.text(CHOSEN) {
        Some(_) => Ok(Letters { ids: ids(query)?, ..Letters::default() }),
        None => Ok(Letters { all: filter.is_empty(), filter, ..Letters::default() }),
    }
}

/// Counts the letters that are meant and still there.
async fn counted(admin: &Arc<Admin>, call: &Call<AdminCaller>, which: &Letters) -> Result<Counted, Problem> {
    if which.ids.is_empty() {
        let queue = call.part("queue").to_owned();
        let wanted = CountDead { queue, filter: which.filter.clone(), ..CountDead::default() };
        return admin.operate(wanted, Asker::of(call)).await;
    }
    let (queue, dry) = (admin.queue(call).await?, Pace { dry_run: true, rate: None });
    let found = redrive_letters(&queue, which, dry, &mut Unwatched).await.map_err(|error| problem(&error))?;
    Ok(Counted { matched: found.matched as u64, ..Counted::default() })
}

/// Asks for a confirmation, with the number of letters.
pub async fn ask(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    call.query.only(&[&FILTER_NAMES[..], &[CHOSEN, ID]].concat())?;
    let deed = SweepKind::of(&call)?;
    let which = which_of(&call.query)?;
    let id = call.part("queue");
    let counted = counted(&admin, &call, &which).await?;
    let path = format!("/queues/{}/dead/{}/ask", encoded(id), deed.word());
    let view = View::of(&path, &call.caller, admin.access.has_tokens());
    let matched = number(counted.matched);
    let body = html! {
        nav.crumbs aria-label="Where you are" {
            a href=(view.up) { "Queues" } " / " a href={ "../../../" (encoded(id)) } { (id) } " / "
            a href={ "../../dead?" (query_of(&call.query)) } { "dead letters" } " / " span aria-current="page" { (deed.word()) }
        }
        h1 { @match deed { SweepKind::Redrive => "Deliver again?", SweepKind::Purge => "Remove for good?" } }
        @if which.ids.is_empty() { p { strong { (matched) } " of them now: " (which.filter.words()) " of " (id) "." } }
        @else {
            p { strong { (plural::count(counted.matched, "dead letter")) } " of " (id) ", of " (which.ids.len()) " that you chose:" }
            ul.links { @for id in &which.ids { li.mono { (id) } } }
        }
        @if !counted.totals.is_empty() {
            div.scroll {
                table.cards {
                    thead { tr { th scope="col" { "Reason" } th scope="col" { "Code" } th scope="col" { "Sink" } th.n scope="col" { "Letters" } } }
                    tbody {
                        @for total in &counted.totals {
                            tr {
                                th scope="row" { (total.reason) }
                                td data-label="Code" { code { (total.code) } }
                                td data-label="Sink" { (total.sink) }
                                td.n data-label="Letters" { (number(total.count)) }
                            }
                        }
                    }
                }
            }
        }
        form.act method="post" action={ "../" (deed.word()) } {
            (filter_fields(&call.query))
            @if !which.ids.is_empty() { input type="hidden" name=(CHOSEN) value="1"; (hidden(&which.ids)) }
            @match deed {
                SweepKind::Redrive => {
                    p { "They are due now, and delivered as any other element. What was redriven is not redriven twice." }
                    label { "At most " input name="rate" type="number" min="1" max="100000" size="6" placeholder="all at once"; " a second" }
                }
                SweepKind::Purge => p.problem { label { input type="checkbox" name="sure" value="1" required; " Their payloads are lost." } },
            }
            @match deed {
                SweepKind::Redrive => button type="submit" { "Redrive " (matched) },
                SweepKind::Purge => button.danger.full type="submit" { "Remove " (matched) " for good" },
            }
            " " a href={ "../../dead?" (query_of(&call.query)) } { "Leave them" }
        }
    };
    Ok(page(StatusCode::OK, &view, deed.word(), &body))
}

/// Delivers letters again, and shows what is left.
pub async fn redrive(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    sweep(admin, call, SweepKind::Redrive).await
}

/// Removes letters, and shows what is left.
pub async fn purge(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    sweep(admin, call, SweepKind::Purge).await
}

async fn sweep(admin: Arc<Admin>, mut call: Call<AdminCaller>, deed: SweepKind) -> Result<Reply, Problem> {
    let fields = form(&mut call).await?;
    fields.only(&[&FILTER_NAMES[..], &["rate", "sure", CHOSEN, ID]].concat())?;
    let which = which_of(&fields)?;
    let rate = match fields.text("rate").filter(|rate| !rate.trim().is_empty()) {
        None => None,
        Some(_) => fields.number("rate")?.filter(|rate| *rate > 0).map(|rate| rate as f64),
    };
    let queue = admin.queue(&call).await?;
    let (asker, pace) = (Asker::of(&call), Pace { dry_run: false, rate });
    let done = match deed {
        SweepKind::Redrive => redriven(&admin.redrive(queue, which, pace, asker).await?),
        SweepKind::Purge if fields.text("sure").is_none() => {
            return Err(Problem::bad("read the form: they are removed for good; confirm that"));
        }
        SweepKind::Purge => format!("{} purged", admin.purge(queue, which, pace, asker).await?.purged),
    };
    // What fits a filter is gone from the list; the rest of a choice is where it was.
    let filter = fields.text(CHOSEN).map(|_| format!("&{}", query_of(&fields))).unwrap_or_default();
    Ok(see_other(&format!("../dead?done={}{filter}", encoded(&done))))
}

/// What was redriven, and what could not be.
fn redriven(done: &Redriven) -> String {
    let mut words = format!("{} redriven", done.redriven);
    if done.left + done.failed > 0 {
        words.push_str(&format!("; {} left as they were", done.left + done.failed));
    }
    if let Some(first) = done.errors.first() {
        words.push_str(&format!(": {}", first.message));
    }
    words
}
