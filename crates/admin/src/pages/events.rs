//! `GET /events`: what becomes of single elements. The latest are in the page; with its script new ones are added as they happen.

use std::sync::Arc;

use hyper::StatusCode;
use maud::{Markup, html};

use super::layout::{View, encoded, page};
use super::show::late;
use crate::Admin;
use crate::access::AdminCaller;
use crate::v1::events::{EventFilter, EventShape};
use delaybridge_http_server::call::Call;
use delaybridge_http_server::problem::Problem;
use delaybridge_http_server::reply::Reply;
use delaybridge_model::role::AccessRole;
use delaybridge_telemetry::tail::Fate;

/// Letters of a payload in its row.
const PREVIEW: usize = 200;
/// Outcomes on the page of a queue.
const LATEST: usize = 10;

/// Returns the page.
pub async fn show(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    call.query.only(&["queue", "fate", "still"])?;
    let wanted = EventFilter::of(&admin, &call)?;
    let last = admin.tail.look();
    let after = last.last().map_or(0, |event| event.number);
    let mut view = View::of("/events", &call.caller, admin.access.has_tokens());
    view.follows = call.query.text("still").is_none();
    view.keep(&call.query);
    let queue = call.query.text("queue").unwrap_or_default();
    let fate = call.query.text("fate").unwrap_or_default();
    let feed = format!("v1/events?after={after}&queue={}&fate={}", encoded(queue), encoded(fate));
    let payloads = call.caller.grant.is_some();
    let shown: Vec<_> = last
        .iter()
        .rev()
        .filter(|event| wanted.takes(event))
        .map(|event| admin.shape(event, call.caller.may(AccessRole::Reader, Some(&event.queue))))
        .collect();
    let body = html! {
        h1 { "Events" }
        p.muted {
            "What this daemon does with elements, the latest first. Events are recorded while this page is open or a client follows them, "
            "at most 100 deliveries and 100 other events a second."
            @if !payloads { " Payloads are shown to those who log in." }
        }
        form.filters method="get" action="events" role="search" {
            label { span { "queue" } input name="queue" value=(queue) size="16" autocomplete="off" spellcheck="false"; }
            label {
                span { "what" }
                select name="fate" {
                    option value="" { "all" }
                    @for word in Fate::ALL.map(Fate::as_str) { option value=(word) selected[word == fate] { (word) } }
                }
            }
            button type="submit" { "Filter" }
        }
        (table(&shown, view.follows.then_some(&*feed), ""))
        @if shown.is_empty() { p.empty #none { "There were none since the page was opened." } }
    };
    Ok(page(StatusCode::OK, &view, "Events", &body))
}

/// Returns the latest outcomes of a queue, for its page; this keeps the recording on for a minute.
pub fn of_queue(admin: &Admin, caller: &AdminCaller, queue: &str) -> Markup {
    let reads = caller.may(AccessRole::Reader, Some(queue));
    let last = admin.tail.look();
    let of = last.iter().rev().filter(|event| *event.queue == *queue).take(LATEST);
    let shown: Vec<_> = of.map(|event| admin.shape(event, reads)).collect();
    html! {
        section aria-labelledby="outcomes" {
            h2 #outcomes { "Latest outcomes " span.muted { "of this daemon, recorded while someone watches" } }
            @if shown.is_empty() { p.muted { "None yet." } } @else { (table(&shown, None, "../")) }
            p { a href={ "../events?queue=" (encoded(queue)) } { "Follow them" } }
        }
    }
}

/// Returns the rows; `up` leads to the first page.
fn table(shown: &[EventShape], feed: Option<&str>, up: &str) -> Markup {
    html! {
        div.scroll {
            table.cards {
                thead {
                    tr {
                        th scope="col" { "Time" } th scope="col" { "Queue" } th scope="col" { "Element" } th scope="col" { "What" }
                        th scope="col" { "Sink" } th.n scope="col" { "Late" } th.n scope="col" { "Attempt" } th scope="col" { "Why, or payload" }
                    }
                }
                tbody #events data-feed=[feed] aria-live="off" { @for event in shown { (line(event, up)) } }
            }
        }
    }
}

/// Returns one row. The script makes the same of an event that it gets.
fn line(event: &EventShape, up: &str) -> Markup {
    let time = delaybridge_core::clock::utc(event.at_ms);
    let class = match event.fate {
        "delivered" => "good",
        "dead" | "held" => "bad",
        _ => "warn",
    };
    let why: Vec<_> = [event.class, event.code].into_iter().flatten().chain(event.message.as_deref()).collect();
    html! {
        tr {
            td data-label="Time" { time title=(time) { (time.get(11..19).unwrap_or(&time)) } }
            td data-label="Queue" { a href={ (up) "queues/" (encoded(&event.queue)) } { (event.queue) } }
            td data-label="Element" { a.mono href={ (up) "queues/" (encoded(&event.queue)) "/elements/" (encoded(&event.id)) } { (event.id) } }
            td data-label="What" { span class={ "badge " (class) } { (event.fate) } }
            td data-label="Sink" { (event.sink.as_deref().unwrap_or_default()) }
            td.n data-label="Late" { (late(event.late_ms.map(|ms| ms as f64))) }
            td.n data-label="Attempt" { (event.attempt) }
            td.why data-label="Why" {
                (why.join(" "))
                @if let Some(content) = &event.content { " " code { (content.preview(PREVIEW)) } }
            }
        }
    }
}
