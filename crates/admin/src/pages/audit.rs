//! `GET /audit`: who did what when.

use std::sync::Arc;

use hyper::StatusCode;
use maud::{Markup, html};

use super::layout::{View, encoded, page};
use crate::Admin;
use crate::access::AdminCaller;
use crate::changes::Asker;
use crate::v1::operation::read_query;
use delaybridge_core::clock::utc;
use delaybridge_http_server::call::Call;
use delaybridge_http_server::problem::Problem;
use delaybridge_http_server::reply::Reply;
use delaybridge_ops::audit::OperatorChange;
use delaybridge_ops::operations::Audit;

/// Returns the page.
pub async fn show(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    call.query.only(&["queue", "limit"])?;
    let request: Audit = read_query(&call)?;
    let found = admin.operate(request, Asker::of(&call)).await?;
    let view = View::of("/audit", &call.caller, admin.access.has_tokens());
    let queue = call.query.text("queue").unwrap_or_default();
    let body = html! {
        h1 { "Changes by operators" }
        p.muted {
            "The changes of operators, the latest first: by the command line over Redis, by the API and by this page. The last 1,000 of each "
            "queue are kept in Redis."
        }
        form.filters method="get" action="audit" role="search" {
            label { span { "queue" } input name="queue" value=(queue) size="16" autocomplete="off" spellcheck="false"; }
            button type="submit" { "Filter" }
        }
        @for error in &found.errors { p.problem { (error.queue) ": " (error.message) } }
        @if found.changes.is_empty() { p.empty { "There are none." } }
        @else {
            div.scroll {
                table.cards {
                    thead {
                        tr { @for name in ["Time", "Queue", "What", "Which", "By", "From", "Result"] { th scope="col" { (name) } } }
                    }
                    tbody { @for change in &found.changes { (line(change)) } }
                }
            }
        }
    };
    Ok(page(StatusCode::OK, &view, "Changes by operators", &body))
}

fn line(change: &OperatorChange) -> Markup {
    html! {
        tr {
            th scope="row" { (utc(change.at_ms)) }
            td data-label="Queue" { a href={ "queues/" (encoded(&change.queue)) } { (change.queue) } }
            td data-label="What" { (change.what) }
            td.why data-label="Which" { (change.which) }
            td data-label="By" { (change.by) }
            td data-label="From" { (change.from) }
            td.why data-label="Result" {
                @match &change.problem {
                    Some(problem) => { span.badge.bad { "failed" } " " (problem) },
                    None => (change.result.as_deref().unwrap_or_default()),
                }
            }
        }
    }
}
