//! Redrive and purge of many dead letters: a question with their number first, then the deed.

use std::sync::Arc;

use hyper::StatusCode;
use maud::html;

use super::dead::query_of;
use super::layout::{View, encoded, page, see_other};
use super::show::number;
use crate::Admin;
use crate::access::AdminCaller;
use crate::changes::Asker;
use crate::forms::form;
use crate::v1::dead::filter_of;
use delaybridge_jobs_http::call::Call;
use delaybridge_jobs_http::problem::{Problem, ProblemKind};
use delaybridge_jobs_http::reply::Reply;
use delaybridge_ops::dead::{FILTER_NAMES, Letters, Pace};
use delaybridge_ops::operations::CountDead;

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

/// Asks for a confirmation, with the number of letters.
pub async fn ask(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    call.query.only(&FILTER_NAMES)?;
    let deed = SweepKind::of(&call)?;
    let filter = filter_of(&call.query)?;
    let id = call.part("queue");
    let wanted = CountDead { queue: id.to_owned(), filter: filter.clone(), ..CountDead::default() };
    let counted = admin.operate(wanted, Asker::of(&call)).await?;
    let path = format!("/queues/{}/dead/{}/ask", encoded(id), deed.word());
    let view = View::of(&path, &call.caller, admin.access.has_tokens());
    let matched = number(counted.matched);
    let body = html! {
        nav.crumbs aria-label="Where you are" {
            a href=(view.up) { "Queues" } " / " a href={ "../../../" (encoded(id)) } { (id) } " / "
            a href={ "../../dead?" (query_of(&call.query)) } { "dead letters" } " / " span aria-current="page" { (deed.word()) }
        }
        h1 { @match deed { SweepKind::Redrive => "Deliver again?", SweepKind::Purge => "Remove for good?" } }
        p { strong { (matched) } " of them now: " (filter.words()) " of " (id) "." }
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
            @for name in FILTER_NAMES {
                @if let Some(value) = call.query.text(name).filter(|value| !value.is_empty()) {
                    input type="hidden" name=(name) value=(value);
                }
            }
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
    let known: Vec<&str> = FILTER_NAMES.iter().chain(&["rate", "sure"]).copied().collect();
    fields.only(&known)?;
    let filter = filter_of(&fields)?;
    let rate = match fields.text("rate").filter(|rate| !rate.trim().is_empty()) {
        None => None,
        Some(_) => fields.number("rate")?.filter(|rate| *rate > 0).map(|rate| rate as f64),
    };
    let which = Letters { all: filter.is_empty(), filter, ..Letters::default() };
    let queue = admin.queue(&call).await?;
    let (asker, pace) = (Asker::of(&call), Pace { dry_run: false, rate });
    let done = match deed {
        SweepKind::Redrive => format!("{} redriven", admin.redrive(queue, which, pace, asker).await?.redriven),
        SweepKind::Purge if fields.text("sure").is_none() => {
            return Err(Problem::bad("read the form: they are removed for good; confirm that"));
        }
        SweepKind::Purge => format!("{} purged", admin.purge(queue, which, pace, asker).await?.purged),
    };
    Ok(see_other(&format!("../dead?done={}", encoded(&done))))
}
