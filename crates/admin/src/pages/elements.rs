//! `GET /queues/{queue}/elements`: the first elements in a state, with their payloads.

use std::sync::Arc;

use hyper::StatusCode;
use maud::{Markup, html};

use super::layout::{View, encoded, page};
use super::list_place::ListPlace;
use super::show::{number, payload, when};
use crate::Admin;
use crate::access::AdminCaller;
use crate::changes::Asker;
use crate::v1::operation::read_query;
use delaybridge_jobs_http::call::Call;
use delaybridge_jobs_http::problem::Problem;
use delaybridge_jobs_http::reply::Reply;
use delaybridge_ops::operations::{ListElements, SHOWN};
use delaybridge_ops::peek::{PeekState, PeekedElement};

/// The list.
pub async fn show(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    let request: ListElements = read_query(&call)?;
    let found = admin.operate(request.clone(), Asker::of(&call)).await?;
    let (id, place) = (&found.queue, ListPlace::carried(&call.query));
    let mut view = View::of(&format!("/queues/{}/elements", encoded(id)), &call.caller, admin.access.has_tokens());
    view.watch(&call.query);
    let word = word(request.state);
    let body = html! {
        nav.crumbs aria-label="Where you are" {
            a href=(place.address(&view.up)) { "Queues" } " / " a href={ "../" (encoded(id)) (place.behind('?')) } { (id) } " / " span aria-current="page" { (word) }
        }
        h1 { (id) ": " (word) }
        p.muted { (range(request.first().unwrap_or_default(), found.elements.len())) " of " (number(found.total)) "." }
        @if found.elements.is_empty() { p.empty { "There are none." } }
        @for element in &found.elements { (one(element, found.now_ms, &place)) }
        @if let Some(next) = &found.next { p { a href={ "elements?state=" (request.state.as_str()) "&after=" (next) (place.behind('&')) } { "Next page" } } }
    };
    Ok(page(StatusCode::OK, &view, &format!("{id}: {word}"), &body))
}

/// The range of elements on a page.
fn range(first: usize, count: usize) -> String {
    match first {
        0 => format!("The first {count}"),
        _ => format!("{} to {}", first + 1, first + count),
    }
}

/// The states of the elements of a list, in words.
pub fn word(state: PeekState) -> &'static str {
    match state {
        // Both are in one sorted set.
        PeekState::Scheduled => "scheduled and due",
        PeekState::Retry => "waiting for a retry",
        PeekState::InFlight => "in flight",
        PeekState::Ready => "on the ready list",
        PeekState::Dead => "dead",
    }
}

/// One element of a list.
pub fn one(element: &PeekedElement, now_ms: i64, place: &ListPlace) -> Markup {
    html! {
        article.element {
            header {
                @match &element.id {
                    Some(id) => a.mono href={ "elements/" (encoded(&id.to_string())) (place.behind('?')) } { strong { (id) } },
                    None => span.muted { "no id" },
                }
                @if let Some(due) = element.due_ms { span { "due " (when(due, now_ms)) } }
                @match element.next_attempt_ms {
                    Some(next) if next > now_ms => span { "next attempt " (when(next, now_ms)) },
                    Some(_) => span { "next attempt as soon as it is claimed" },
                    None => {},
                }
                @if let Some(end) = element.lease_ends_ms { span { "lease ends " (when(end, now_ms)) } }
                @if element.attempts > 0 { span { (element.attempts) " attempts" } }
                @if !element.code.is_empty() { span.badge.bad { (element.code) } }
                span.muted { (element.layout) ", " (number(element.size)) " bytes" }
            }
            (payload(&element.content, SHOWN, None))
        }
    }
}
