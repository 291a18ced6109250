//! `GET /queues/{queue}/elements`: the first elements in a state, a line each.

use std::sync::Arc;

use hyper::StatusCode;
use maud::{Markup, html};

use super::chosen::{buttons, tick};
use super::element::DUE;
use super::layout::{View, crumbs, encoded, page};
use super::list_place::ListPlace;
use super::show::{number, said, when};
use crate::Admin;
use crate::access::AdminCaller;
use crate::changes::Asker;
use crate::v1::operation::read_query;
use delaybridge_core::message::Identity;
use delaybridge_http_server::call::Call;
use delaybridge_http_server::problem::Problem;
use delaybridge_http_server::reply::Reply;
use delaybridge_model::role::AccessRole;
use delaybridge_ops::element::Whereabouts;
use delaybridge_ops::operations::ListElements;
use delaybridge_ops::peek::{PeekState, PeekedElement};

/// Letters of a payload in its line.
const PREVIEW: usize = 300;

/// Returns the list.
pub async fn show(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    let request: ListElements = read_query(&call)?;
    let found = admin.operate(request.clone(), Asker::of(&call)).await?;
    let id = &found.queue;
    let place = ListPlace::carried(&call.query);
    let mut view = View::of(&format!("/queues/{}/elements", encoded(id)), &call.caller, admin.access.has_tokens());
    view.watch(&call.query);
    let word = word(request.state);
    let body = html! {
        (crumbs(&[("Queues", place.address(&view.up)), (id, format!("../{}{}", encoded(id), place.behind('?')))], word))
        h1 { (id) ": " (word) }
        @if let Some(done) = call.query.text("done") { ul.notes { li.good role="status" { (said(done)) } } }
        p.muted { (range(request.first().unwrap_or_default(), found.elements.len())) " of " (number(found.total)) "." }
        @if found.elements.is_empty() { p.empty { "There are none." } }
        @else { (table(&found.elements, Some(request.state), &view, id, found.now_ms, &place, "")) }
        @if let Some(next) = &found.next { p { a href={ "elements?state=" (request.state.as_str()) "&after=" (next) (place.behind('&')) } { "Next page" } } }
    };
    Ok(page(StatusCode::OK, &view, &format!("{id}: {word}"), &body))
}

/// Returns the address of an element: of a scheduled one with its due time, by which it is found among millions.
fn address(id: &Identity, element: &PeekedElement, place: &ListPlace) -> String {
    let scheduled = element.due_ms.filter(|_| element.state == PeekState::Scheduled);
    let due = scheduled.map(|ms| format!("?{DUE}={ms}")).unwrap_or_default();
    format!("elements/{}{due}{}", encoded(&id.to_string()), place.behind(if due.is_empty() { '?' } else { '&' }))
}

fn range(first: usize, count: usize) -> String {
    match first {
        0 => format!("The first {count}"),
        _ => format!("{} to {}", first + 1, first + count),
    }
}

/// Returns the states of the elements of a list, in words.
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

/// Elements, a line each; `state` is that of all of them, `None` where there are several. With boxes to tick for who may run them now.
/// `base` leads to the page of the queue.
pub fn table(
    elements: &[PeekedElement],
    state: Option<PeekState>,
    view: &View,
    queue: &str,
    now_ms: i64,
    place: &ListPlace,
    base: &str,
) -> Markup {
    let next = match state {
        Some(PeekState::Retry) => Some("Next attempt"),
        Some(PeekState::InFlight) => Some("Lease ends"),
        _ => None,
    };
    let operates = view.may(AccessRole::Operator, queue);
    html! {
        form.chosen method="get" action={ (base) "run-now" } {
            @if elements.iter().any(|element| chosen_by(element, operates).is_some()) {
                @if let Some(state) = state { input type="hidden" name="state" value=(state.as_str()); }
                (place.field())
                (buttons(view, queue, base))
            }
            div.scroll {
                table.cards.lines {
                    thead {
                        tr {
                            th scope="col" { "Element" }
                            @if state.is_none() { th scope="col" { "State" } }
                            th scope="col" { "Due" }
                            @if let Some(next) = next { th scope="col" { (next) } }
                            th scope="col" { "Attempts" } th.n scope="col" { "Bytes" } th scope="col" { "Payload" }
                        }
                    }
                    tbody {
                        @for element in elements {
                            tr {
                                th scope="row" {
                                    @if let Some(name) = chosen_by(element, operates) { (tick(&name)) }
                                    @match &element.id {
                                        Some(id) => a.mono href={ (base) (address(id, element, place)) } { (id) },
                                        None => span.muted { "no id" },
                                    }
                                }
                                @if state.is_none() { td data-label="State" { (Whereabouts::of(element.state, element.due_ms, now_ms).words()) } }
                                td data-label="Due" { @if let Some(due) = element.due_ms { (when(due, now_ms)) } @else { span.zero { "–" } } }
                                @if let Some(next) = next { td data-label=(next) { (next_of(element, now_ms)) } }
                                td class=[(element.attempts == 0).then_some("zero")] data-label="Attempts" {
                                    (element.attempts)
                                    @if !element.code.is_empty() { " " span.badge.bad { (element.code) } }
                                }
                                td.n data-label="Bytes" { (number(element.size)) }
                                td.line data-label="Payload" {
                                    @if matches!(&*element.layout, "junk" | "unknown") { span.badge.warn { (element.layout) } " " }
                                    code { (element.content.preview(PREVIEW)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the name of an element that may be ticked: it is not in flight. A dead letter has its place in the stream,
/// because an element with its id may be scheduled again.
fn chosen_by(element: &PeekedElement, operates: bool) -> Option<String> {
    let id = || element.id.as_ref().map(Identity::to_string);
    let name = match element.state {
        PeekState::Scheduled | PeekState::Retry => id(),
        PeekState::Dead => element.stream_id.clone(),
        _ => None,
    };
    name.filter(|_| operates)
}

/// Returns the next attempt, or the end of the lease.
fn next_of(element: &PeekedElement, now_ms: i64) -> Markup {
    html! {
        @match element.next_attempt_ms {
            Some(next) if next > now_ms => (when(next, now_ms)),
            Some(_) => "as soon as it is claimed",
            None => {},
        }
        @if let Some(end) = element.lease_ends_ms { (when(end, now_ms)) }
    }
}
