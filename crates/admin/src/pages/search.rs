//! `GET /queues/{queue}/search`: elements by a field or a part of their payload, some thousand at a time. A browser that leaves ends it.

use std::sync::Arc;

use hyper::StatusCode;
use maud::{Markup, html};

use super::elements::table;
use super::layout::{View, crumbs, encoded, page};
use super::list_place::{LIST, ListPlace};
use super::show::number;
use crate::Admin;
use crate::access::AdminCaller;
use crate::changes::Asker;
use delaybridge_http_server::call::Call;
use delaybridge_http_server::problem::Problem;
use delaybridge_http_server::reply::Reply;
use delaybridge_ops::operations::Find;

/// Returns the form; `action` is the way to this page.
pub fn search_form(action: &str, field: &str, place: &ListPlace) -> Markup {
    html! {
        form.find method="get" action=(action) role="search" {
            label for="field" { "Value" }
            input #field name="field" value=(field) required maxlength="500" size="30" placeholder="a part of it, or orderId=7" autocomplete="off" spellcheck="false";
            (place.field())
            button type="submit" { "Search payloads" }
        }
    }
}

/// Returns the elements that fit, of the next some thousand.
pub async fn show(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    call.query.only(&["field", "after", "seen", LIST])?;
    let field = call.query.text("field").unwrap_or_default().trim();
    if field.is_empty() {
        return Err(Problem::bad("read `field` in the query: it is a part of a payload, or PATH=VALUE as orderId=7"));
    }
    let after = call.query.text("after").map(str::to_owned);
    let before = call.query.number("seen")?.unwrap_or(0);
    let id = call.part("queue");
    let hits = admin.operate(Find::written(id, field, after), Asker::of(&call)).await?;
    let place = ListPlace::carried(&call.query);
    let view = View::of(&format!("/queues/{}/search", encoded(id)), &call.caller, admin.access.has_tokens());
    let seen = before.saturating_add(hits.examined);
    let body = html! {
        (crumbs(
            &[("Queues", place.address(&view.up)), (id, format!("../{}{}", encoded(id), place.behind('?')))],
            "search",
        ))
        h1 { (id) ": search" }
        (search_form("search", field, &place))
        p.muted role="status" {
            "Looked at " (number(seen)) " of " (number(hits.total.max(seen))) " elements. "
            progress max=(hits.total.max(seen).max(1)) value=(seen) {}
        }
        @if hits.elements.is_empty() { p.empty { @if hits.next.is_some() { "None of these fits." } @else { "None fits." } } }
        @else { (table(&hits.elements, None, &view, id, hits.now_ms, &place, "")) }
        @if let Some(next) = &hits.next {
            p { a.button rel="next" href={ "search?field=" (encoded(field)) "&after=" (encoded(next)) "&seen=" (seen) (place.behind('&')) } { "Search on" } }
        }
    };
    Ok(page(StatusCode::OK, &view, &format!("{id}: search"), &body))
}
