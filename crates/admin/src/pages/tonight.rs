//! `GET /ahead`: what falls due over all queues, half hour by half hour.

use std::sync::Arc;

use hyper::StatusCode;
use maud::{Markup, html};

use super::layout::{View, encoded, page};
use super::show::{number, when};
use crate::Admin;
use crate::access::AdminCaller;
use crate::changes::Asker;
use crate::v1::operation::read_query;
use delaybridge_http_server::call::Call;
use delaybridge_http_server::problem::Problem;
use delaybridge_http_server::reply::Reply;
use delaybridge_ops::operations::{CountAhead, DueSchedule, DueStep};
use delaybridge_ops::plural::count;

/// Width of the longest bar in the units of its drawing.
const WIDTH: u64 = 300;

/// Returns the page.
pub async fn show(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    let request: CountAhead = read_query(&call)?;
    let hours = request.hours;
    let like = request.like.clone().unwrap_or_default();
    let found = admin.operate(request, Asker::of(&call)).await?;
    let view = View::of("/ahead", &call.caller, admin.access.has_tokens());
    let total: u64 = found.steps.iter().map(|step| step.due).sum();
    let body = html! {
        h1 { "Due within " (hours) " hours" }
        form.filters method="get" action="ahead" role="search" {
            label { span { "hours" } input name="hours" type="number" min="1" max="168" value=(hours) size="4"; }
            label { span { "queue" } input name="like" value=(like) size="16" autocomplete="off" spellcheck="false"; }
            button type="submit" { "Show" }
        }
        p { strong { (number(total)) } " elements of " (count(found.queues, "queue")) ". What is due already is not among them." }
        @if found.queues < found.of { p.muted { "Counted are the first " (number(found.queues)) " of " (number(found.of)) " queues." } }
        @for error in &found.errors { p.problem { (error.queue) ": " (error.message) } }
        @if total > 0 { (schedule(&found)) }
    };
    Ok(page(StatusCode::OK, &view, "Due", &body))
}

fn schedule(found: &DueSchedule) -> Markup {
    let most = found.steps.iter().map(|step| step.due).max().unwrap_or(0).max(1);
    html! {
        div.scroll {
            table.bars {
                thead { tr { th scope="col" { "Until" } th.n scope="col" { "Elements" } th scope="col" { span.sr { "Drawing" } } th scope="col" { "Most of them" } } }
                tbody { @for step in &found.steps { (row(step, found.now_ms, most)) } }
            }
        }
    }
}

fn row(step: &DueStep, now_ms: i64, most: u64) -> Markup {
    let width = (step.due.saturating_mul(WIDTH) / most).max(u64::from(step.due > 0));
    html! {
        tr {
            th scope="row" { (when(step.until_ms, now_ms)) }
            td class=(if step.due == 0 { "n zero" } else { "n" }) { (number(step.due)) }
            td.drawn {
                svg viewBox={ "0 0 " (WIDTH) " 10" } preserveAspectRatio="none" aria-hidden="true" focusable="false" {
                    rect.bar x="0" y="0" width=(width) height="10" rx="1.5" {}
                }
            }
            td.most {
                @for (at, queue) in step.most.iter().enumerate() {
                    @if at > 0 { ", " }
                    a href={ "queues/" (encoded(&queue.queue)) } { (queue.queue) } " " (number(queue.due))
                }
            }
        }
    }
}
