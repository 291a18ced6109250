//! `GET /queues/{queue}/elements/{id}`: one element with its payload and its history, and what may be done with it.

use std::sync::Arc;

use hyper::StatusCode;
use maud::{Markup, html};
use serde_json::Value;

use super::layout::{View, crumbs, encoded, page, see_other};
use super::list_place::{LIST, ListPlace};
use super::pausing::field_time;
use super::show::{number, payload, when as distance};
use super::why::{attempts, explanation};
use crate::Admin;
use crate::access::AdminCaller;
use crate::changes::Asker;
use crate::forms::form;
use crate::v1::errors::problem;
use delaybridge_http_server::call::Call;
use delaybridge_http_server::problem::Problem;
use delaybridge_http_server::reply::Reply;
use delaybridge_model::role::AccessRole;
use delaybridge_ops::element::{Cure, Detail, ElementWhy, Wanted, Whereabouts, why};
use delaybridge_ops::operation::Operation;
use delaybridge_ops::operations::{Cancel, Kill, Reschedule, RunNow, SHOWN, Why};
use delaybridge_ops::peek::PeekState;
use delaybridge_ops::time::Moment;

/// Refuses a queue that there is not, and a text that can be no id of its elements.
fn known(admin: &Admin, queue: &str, id: &str) -> Result<(), Problem> {
    let request = Why { queue: queue.to_owned(), id: id.to_owned(), due: None };
    request.check(&admin.reload.running()).map_err(|error| problem(&error))
}

/// The parameter with the due time that an element had in a list: in a queue of millions it is found by that.
pub const DUE: &str = "due_ms";

/// Returns the due time that the page or the form before knew.
fn due(text: Option<&str>) -> Option<Moment> {
    text.and_then(|ms| ms.parse().ok()).map(Moment)
}

/// Sends the browser to the element of this id.
pub async fn find(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    call.query.only(&["id", LIST])?;
    let id = call.query.text("id").unwrap_or_default().trim();
    known(&admin, call.part("queue"), id)?;
    Ok(see_other(&format!("elements/{}{}", encoded(id), ListPlace::carried(&call.query).behind('?'))))
}

/// One element, or why there is none.
pub async fn show(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    call.query.only(&["whole", DUE, LIST])?;
    let asked = call.part("id");
    let place = ListPlace::carried(&call.query);
    let name = call.part("queue");
    known(&admin, name, asked)?;
    let wanted = Wanted { id: asked, due_ms: due(call.query.text(DUE)).map(|Moment(ms)| ms) };
    let (why, element) = why(&admin.scene(&Asker::of(&call)), name, wanted).await.map_err(|error| problem(&error))?;
    let path = format!("/queues/{}/elements/{}", encoded(name), encoded(asked));
    let view = View::of(&path, &call.caller, admin.access.has_tokens());
    let most = if call.query.text("whole").is_some() { usize::MAX } else { SHOWN };
    let body = html! {
        (crumbs(
            &[("Queues", place.address(&view.up)), (name, format!("../../{}{}", encoded(name), place.behind('?')))],
            asked,
        ))
        h1.mono { (asked) }
        (explanation(&why, &view))
        @if let Some(element) = element.as_ref().filter(|_| view.may(AccessRole::Reader, name)) {
            (facts(element, &why))
            (deeds(element, asked, &view, name, why.remedies.iter().any(|remedy| remedy.cure == Some(Cure::RunNow))))
            h2 { "Payload " span.muted { (number(element.size)) " bytes, " (element.layout) } }
            @if let Some(problem) = &element.problem { p.problem { (problem) } }
            (payload(&element.content, most, Some(&whole(wanted.due_ms, &place))))
        }
        (attempts(&why))
    };
    let status = if element.is_some() { StatusCode::OK } else { StatusCode::NOT_FOUND };
    Ok(page(status, &view, asked, &body))
}

/// Returns the address of the page with the whole payload.
fn whole(due_ms: Option<i64>, place: &ListPlace) -> String {
    let due = due_ms.map(|ms| format!("&{DUE}={ms}")).unwrap_or_default();
    format!("?whole=1{due}{}", place.behind('&'))
}

/// Does what the form says, and shows what became of it.
pub async fn act(admin: Arc<Admin>, mut call: Call<AdminCaller>) -> Result<Reply, Problem> {
    let fields = form(&mut call).await?;
    fields.only(&["deed", "in", "at", "why", DUE])?;
    let due = due(fields.text(DUE));
    let text = |name| fields.text(name).map(str::trim).filter(|text| !text.is_empty());
    let queue = call.part("queue").to_owned();
    let id = call.part("id").to_owned();
    let asker = Asker::of(&call);
    let acted = match text("deed") {
        Some("run-now") => admin.operate(RunNow { queue, id: id.clone(), due }, asker).await,
        Some("reschedule") => {
            let after = text("in").map(|text| text.parse().map_err(|why| Problem::bad(format!("read `in`: {why}"))));
            let after = after.transpose()?;
            let at = text("at").map(|at| field_time("at", at)).transpose()?;
            admin.operate(Reschedule { queue, id: id.clone(), due, after, at }, asker).await
        }
        Some("kill") => {
            let why = text("why").unwrap_or("no reason given").to_owned();
            admin.operate(Kill { queue, id: id.clone(), due, why, by: None }, asker).await
        }
        _ => return Err(Problem::bad("read the form: it does not say what to do")),
    }?;
    let [element] = &acted.elements;
    let to = element.new_id.as_ref().map_or(id, ToString::to_string);
    Ok(see_other(&format!("../{}", encoded(&to))))
}

/// Removes it for good, and shows its queue.
pub async fn remove(admin: Arc<Admin>, mut call: Call<AdminCaller>) -> Result<Reply, Problem> {
    let fields = form(&mut call).await?;
    fields.only(&["sure", DUE])?;
    if fields.text("sure").is_none() {
        return Err(Problem::bad("read the form: it is removed for good; confirm that"));
    }
    let (queue, id) = (call.part("queue").to_owned(), call.part("id").to_owned());
    let request = Cancel { queue, id, due: due(fields.text(DUE)) };
    let acted = admin.operate(request, Asker::of(&call)).await?;
    // It has no page any more.
    Ok(see_other(&format!("../../../{}", encoded(&acted.queue))))
}

fn facts(element: &Detail, why: &ElementWhy) -> Markup {
    let time = |label: &str, ms: Option<i64>| html! { @if let Some(ms) = ms { div.tile { dt { (label) } dd { (distance(ms, why.now_ms)) } } } };
    html! {
        dl.tiles {
            div.tile { dt { "State" } dd { (why.state.words()) } }
            (time("Due", element.due_ms))
            @if let (Whereabouts::Retry, Some(next)) = (why.state, why.next_words()) { div.tile { dt { "Next attempt" } dd { (next) } } }
            (time("Lease ends", element.lease_ends_ms))
            (time("Died", element.died_ms))
            div.tile { dt { "Attempts" } dd { (element.attempts) } }
        }
        @if !element.reason.is_empty() || !element.code.is_empty() {
            p.problem {
                @if !element.reason.is_empty() { strong { (element.reason) } " " }
                @if !element.code.is_empty() { code { (element.code) } " " }
                (element.message)
            }
        }
        @if let Some(holder) = &element.held_by {
            p { "In flight with daemon " code { (holder.daemon) } ", claim " code { (holder.claim) } "." }
        }
        @if !element.confirmed.is_empty() { p { "Confirmed by " (element.confirmed.join(", ")) "." } }
        @if !element.outstanding.is_empty() { p { "To be delivered to " (element.outstanding.join(", ")) "." } }
        @for route in &element.routes { p.muted { "It would go to " (route) "." } }
    }
}

/// Renders the changes that the viewer may make. `has_run_now`: the page has that button already.
fn deeds(element: &Detail, id: &str, view: &View, queue: &str, has_run_now: bool) -> Markup {
    let action = format!("{}/act", encoded(id));
    let operates = view.may(AccessRole::Operator, queue);
    let removes = view.may(AccessRole::Admin, queue);
    let known_due = html! { @if let Some(ms) = element.due_ms { input type="hidden" name=(DUE) value=(ms); } };
    html! {
        @if element.state == PeekState::InFlight { p.muted { "It is in flight: it may be delivered right now, and is left to its daemon." } }
        @else if operates {
            div.deeds {
                @if !has_run_now { form method="post" action=(action) { (known_due) button name="deed" value="run-now" type="submit" { "Run now" } } }
                form method="post" action=(action) {
                    (known_due)
                    label { "In " input name="in" size="8" placeholder="2h 30m" autocomplete="off"; }
                    label { "or at (UTC) " input name="at" type="datetime-local"; }
                    button name="deed" value="reschedule" type="submit" { "Reschedule" }
                }
                @if element.state != PeekState::Dead {
                    form method="post" action=(action) {
                        (known_due)
                        label { "Why " input name="why" size="20" required maxlength="200" autocomplete="off"; }
                        button name="deed" value="kill" type="submit" { "To the dead letters" }
                    }
                }
                @if removes {
                    form method="post" action={ (encoded(id)) "/remove" } {
                        (known_due)
                        label { input type="checkbox" name="sure" value="1" required; " for good" }
                        button.danger type="submit" { "Remove" }
                    }
                }
            }
        }
    }
}

/// Returns one attempt, field by field.
pub fn line(attempt: &Value) -> Markup {
    let plain = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let fields = attempt.as_object();
    html! {
        @for (name, value) in fields.into_iter().flatten() { span { span.muted { (name) } " " (plain(value)) } " " }
        @if fields.is_none() { (plain(attempt)) }
    }
}
