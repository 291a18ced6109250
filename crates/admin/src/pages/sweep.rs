//! Redrive and purge of many dead letters: a question with their number first, then the deed.

use std::sync::Arc;

use hyper::StatusCode;
use maud::html;

use super::chosen::{ID, hidden, ids};
use super::dead::{filter_fields, filter_of, query_of};
use super::layout::{View, crumbs, encoded, page, see_other};
use super::show::number;
use crate::Admin;
use crate::access::AdminCaller;
use crate::changes::Asker;
use crate::forms::form;
use delaybridge_http_server::call::{Call, Query};
use delaybridge_http_server::problem::{Problem, ProblemKind};
use delaybridge_http_server::reply::Reply;
use delaybridge_ops::dead::{FILTER_NAMES, Letters};
use delaybridge_ops::operations::{CountDead, Counted, Purge, Redrive, Redriven};
use delaybridge_ops::plural;

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

/// Returns the letters that a query or a form means. Refuses rows of which none is ticked.
fn which_of(queue: &str, query: &Query) -> Result<Letters, Problem> {
    let queue = queue.to_owned();
    let filter = filter_of(query)?;
    match query.text(CHOSEN) {
        Some(_) => Ok(Letters { queue, ids: Some(ids(query)?), ..Letters::default() }),
        // Rows that are named must not end as everything.
        None if query.pairs().any(|(name, _)| name == ID) => {
            Err(Problem::bad("read the form: it names rows, and lacks `chosen`"))
        }
        None => Ok(Letters { queue, all: filter.is_empty(), filter, ..Letters::default() }),
    }
}

/// Counts the letters that are meant and still there.
async fn counted(admin: &Arc<Admin>, asker: Asker, which: &Letters) -> Result<Counted, Problem> {
    let Letters { queue, filter, .. } = which.clone();
    if which.ids.is_none() {
        return admin.operate(CountDead { queue, filter, ..CountDead::default() }, asker).await;
    }
    let letters = Letters { dry_run: true, ..which.clone() };
    let found = admin.operate(Redrive { letters }, asker).await?;
    Ok(Counted { matched: found.matched as u64, ..Counted::default() })
}

/// Asks for a confirmation, with the number of letters.
pub async fn ask(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    call.query.only(&[&FILTER_NAMES[..], &[CHOSEN, ID]].concat())?;
    let deed = SweepKind::of(&call)?;
    let id = call.part("queue");
    let which = which_of(id, &call.query)?;
    let counted = counted(&admin, Asker::of(&call), &which).await?;
    let path = format!("/queues/{}/dead/{}/ask", encoded(id), deed.word());
    let view = View::of(&path, &call.caller, admin.access.has_tokens());
    let matched = number(counted.matched);
    let back = format!("../../dead?{}", query_of(&call.query));
    let body = html! {
        (crumbs(
            &[("Queues", view.up.clone()), (id, format!("../../../{}", encoded(id))), ("dead letters", back.clone())],
            deed.word(),
        ))
        h1 { @match deed { SweepKind::Redrive => "Deliver again?", SweepKind::Purge => "Remove for good?" } }
        @if let Some(ids) = &which.ids {
            p { strong { (plural::count(counted.matched, "dead letter")) } " of " (id) ", of " (ids.len()) " that you chose:" }
            ul.links { @for id in ids { li.mono { (id) } } }
        } @else { p { strong { (matched) } " of them now: " (which.filter.words()) " of " (id) "." } }
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
            @if let Some(ids) = &which.ids { input type="hidden" name=(CHOSEN) value="1"; (hidden(ids)) }
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
            " " a href=(back) { "Leave them" }
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
    let rate = match fields.text("rate").filter(|rate| !rate.trim().is_empty()) {
        None => None,
        Some(_) => fields.number("rate")?.filter(|rate| *rate > 0).map(|rate| rate as f64),
    };
    let letters = Letters { rate, ..which_of(call.part("queue"), &fields)? };
    let asker = Asker::of(&call);
    let done = match deed {
        SweepKind::Redrive => redriven(&admin.operate(Redrive { letters }, asker).await?),
        SweepKind::Purge if fields.text("sure").is_none() => {
            return Err(Problem::bad("read the form: they are removed for good; confirm that"));
        }
        SweepKind::Purge => format!("{} purged", admin.operate(Purge { letters, yes: true }, asker).await?.purged),
    };
    // What fits a filter is gone from the list; the rest of a choice is where it was.
    let filter = fields.text(CHOSEN).map(|_| format!("&{}", query_of(&fields))).unwrap_or_default();
    Ok(see_other(&format!("../dead?done={}{filter}", encoded(&done))))
}

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
