//! `GET /queues/{queue}`: what is in the way, what it holds, what falls due when, who serves it, how it is set.

use std::sync::Arc;

use hyper::StatusCode;
use maud::{Markup, html};
use serde_json::Value;

use super::ahead::ahead;
use super::bars::schedule;
use super::elements::word;
use super::events::of_queue as outcomes;
use super::layout::{View, crumbs, encoded, page};
use super::list_place::{LIST, ListPlace};
use super::past::of_queue;
use super::pausing::pause_form;
use super::search::search_form;
use super::show::{at_least, late, number, obstacles, rate, when};
use crate::Admin;
use crate::access::AdminCaller;
use crate::changes::Asker;
use crate::v1::errors::problem;
use delaybridge_http_server::call::Call;
use delaybridge_http_server::problem::Problem;
use delaybridge_http_server::reply::Reply;
use delaybridge_model::role::AccessRole;
use delaybridge_ops::forecast::charts;
use delaybridge_ops::operations::{DAY, MakeForecast, QueueDetail, ShowQueue};
use delaybridge_ops::overview::{QueueRow, SinkList};
use delaybridge_ops::peek::PeekState;
use delaybridge_ops::plural::{self, duration};

/// Returns one queue.
pub async fn show(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    call.query.only(&["still", "reload", LIST])?;
    let place = ListPlace::carried(&call.query);
    let queue = admin.queue(&call).await?;
    let request = ShowQueue { queue: queue.id().to_owned() };
    let day = MakeForecast { queue: queue.id().to_owned(), until: DAY, step: DAY, rate: None };
    let (found, forecast) =
        tokio::join!(admin.operate(request, Asker::of(&call)), admin.operate(day, Asker::of(&call)));
    let found = found?;
    let forecast = forecast?;
    let charts = charts(&queue, forecast.now_ms).await.map_err(|error| problem(&error))?;
    let id = queue.id();
    let mut view = View::of(&format!("/queues/{}", encoded(id)), &call.caller, admin.access.has_tokens());
    view.watch(&call.query);
    let mut sinks = admin.sinks();
    sinks.sinks.retain(|sink| found.row.state.sinks.contains(&sink.sink));
    let body = html! {
        (crumbs(&[("Queues", place.address(&view.up))], id))
        h1 { (id) }
        (in_the_way(&found.row, &sinks))
        (numbers(&found.row))
        (elements(&view, &found.row, &place))
        (pauses(&view, &found.row, &place))
        section aria-labelledby="schedule" {
            h2 #schedule { "What falls due when" }
            (ahead(&forecast, &charts))
            (schedule(&found.schedule))
        }
        (outcomes(&admin, &call.caller, id))
        (of_queue(&admin, id))
        (served(&found, &sinks))
        details #settings {
            summary { "Settings" }
            div.scroll { table.settings { tbody { (settings("", &found.settings)) } } }
        }
    };
    Ok(page(StatusCode::OK, &view, id, &body))
}

/// Everything that keeps its elements from moving.
fn in_the_way(row: &QueueRow, sinks: &SinkList) -> Markup {
    let all = obstacles(row, sinks);
    html! {
        ul.notes {
            @for (class, word, text) in &all { li class=(class) { strong { (word) } " " (text) } }
            @if all.is_empty() { li.good { strong { "Delivers" } " Nothing is in the way." } }
        }
    }
}

fn numbers(row: &QueueRow) -> Markup {
    let s = &row.state;
    let here = row.here.clone().unwrap_or_default();
    let tile = |label: &str, value: String, class: &str| html! { div class={ "tile " (if value == "0" { "nothing" } else { class }) } { dt { (label) } dd { (value) } } };
    html! {
        dl.tiles {
            (tile("Scheduled", number(s.scheduled), ""))
            (tile("Due", number(s.due), ""))
            (tile("In flight", at_least(s.in_flight_at_least, s.in_flight), ""))
            (tile("Retry", number(s.retry), ""))
            (tile("Dead", number(s.dead), if s.dead > 0 { "bad" } else { "" }))
            (tile("Oldest overdue", s.oldest_overdue_ms.map_or("–".to_owned(), duration), ""))
            (tile("Late p50", late(here.lateness_p50_ms), ""))
            (tile("Late p99", late(here.lateness_p99_ms), ""))
            (tile("Delivered", rate(here.delivered_per_second), ""))
        }
        @if let Some(input) = &here.input {
            p { strong { "Input " (input.state) } ", since the start of this daemon: " (input.numbers()) "." }
        }
    }
}

fn pauses(view: &View, row: &QueueRow, place: &ListPlace) -> Markup {
    let s = &row.state;
    let effect = format!(
        "Nothing more of its {} is claimed, by any daemon. What is in flight, {} now, is finished; what falls due waits.",
        plural::count(s.scheduled + s.due + s.retry + s.ready, "element"),
        at_least(s.in_flight_at_least, s.in_flight)
    );
    let is_paused = row.state.paused.iter().any(|pause| pause.sink.is_none());
    html! {
        @if view.may(AccessRole::Operator, &row.state.queue) {
            (pause_form(&encoded(&row.state.queue), "queue", &effect, is_paused, place))
        }
    }
}

/// Ways to the elements.
fn elements(view: &View, row: &QueueRow, place: &ListPlace) -> Markup {
    let queue = encoded(&row.state.queue);
    let s = &row.state;
    let states = [
        (PeekState::Scheduled, s.scheduled + s.due),
        (PeekState::InFlight, s.in_flight),
        (PeekState::Retry, s.retry),
        (PeekState::Ready, s.ready),
    ];
    // Who has no name yet is asked to log in.
    let reads = view.may(AccessRole::Reader, &s.queue) || view.name.is_none();
    html! {
        section aria-labelledby="elements" {
            h2 #elements { "Elements" }
            ul.links {
                @for (state, count) in states {
                    li {
                        @if reads { a href={ (queue) "/elements?state=" (state.as_str()) (place.behind('&')) } { (word(state)) } }
                        @else { (word(state)) }
                        " " span.muted { (number(count)) }
                    }
                }
                li { a href={ (queue) "/dead" } { "dead letters" } " " span.muted { (number(s.dead)) } }
            }
            @if view.may(AccessRole::Viewer, &s.queue) {
                form.find method="get" action={ (queue) "/element" } {
                    label for="id" { "Id" }
                    input #id name="id" required maxlength="256" size="30" autocomplete="off" spellcheck="false";
                    (place.field())
                    button type="submit" { "Why is it there?" }
                }
            }
            @if view.may(AccessRole::Reader, &s.queue) {
                (search_form(&format!("{queue}/search"), "", place))
            }
            @if view.tokens && view.name.is_none() { p.muted { "Payloads are shown after a login." } }
            @if let Some(overdue) = s.oldest_overdue_ms { p { "The oldest has been due for " (duration(overdue)) "." } }
            @if let Some(next) = s.next_due_ms.filter(|next| *next > s.now_ms) { p { "The next falls due " (when(next, s.now_ms)) "." } }
        }
    }
}

/// Returns the daemons and the sinks.
fn served(found: &QueueDetail, sinks: &SinkList) -> Markup {
    html! {
        section aria-labelledby="served" {
            h2 #served { "Who serves it" }
            @match found.row.state.daemons {
                Some(0) => p.bad { "No daemon delivers from it now." },
                Some(n) => p { (plural::count(n, "daemon")) " now." },
                None => p.muted { "How many daemons serve it cannot be asked: a right to PUBSUB is missing." },
            }
            ul.links {
                @for sink in &sinks.sinks {
                    li { span class={ "badge " (if !sink.has_trouble() { "good" } else if sink.state == "down" { "bad" } else { "warn" }) } { (sink.word()) } " " a href={ "../sinks/" (encoded(&sink.sink)) } { (sink.sink) } " " span.muted { (sink.kind) } }
                }
            }
        }
    }
}

/// Settings as rows: the path of each value, and the value.
pub fn settings(path: &str, value: &Value) -> Markup {
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    html! {
        @match value {
            Value::Object(fields) => @for (name, value) in fields { (settings(&below(name), value)) },
            Value::Array(items) => @for (at, value) in items.iter().enumerate() { (settings(&format!("{path}[{at}]"), value)) },
            Value::String(text) => tr { th scope="row" { code { (path) } } td.why { code { (text) } } },
            other => tr { th scope="row" { code { (path) } } td.why { code { (other.to_string()) } } },
        }
    }
}
