//! `GET /search`: elements by id or by a part of a value, over all queues and topics of the person, as far as that goes in some seconds.

use std::sync::Arc;

use hyper::StatusCode;
use maud::{Markup, html};

use super::elements::table;
use super::layout::{View, encoded, page};
use super::list_place::ListPlace;
use super::show::number;
use super::topics;
use crate::Admin;
use crate::access::AdminCaller;
use crate::changes::Asker;
use delaybridge_http_server::call::Call;
use delaybridge_http_server::problem::Problem;
use delaybridge_http_server::reply::Reply;
use delaybridge_ops::QueueError;
use delaybridge_ops::operations::{FoundEverywhere, SearchAll};
use delaybridge_ops::plural::count;
use delaybridge_ops::search::Hits;

/// Returns the page.
pub async fn show(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    call.query.only(&["q", "after"])?;
    let text = call.query.text("q").unwrap_or_default().trim().to_owned();
    if text.is_empty() {
        return Err(Problem::bad("read `q` in the query: it is an id, a part of a value, or PATH=VALUE as orderId=7"));
    }
    let after = call.query.text("after").filter(|after| !after.is_empty()).map(str::to_owned);
    let found = admin.operate(SearchAll { text: text.clone(), after }, Asker::of(&call)).await?;
    let mut view = View::of("/search", &call.caller, admin.access.has_tokens());
    view.sought.clone_from(&text);
    let body = html! {
        h1 { "Search in all queues" }
        p role="status" {
            strong { (count(found.hits(), "hit")) } " in "
            (number(found.searched)) " of " (count(found.of, "queue")) " that you may see; the payloads of "
            (number(found.examined)) " elements were read, at most 1,000 of a queue."
        }
        @for QueueError { queue, message } in &found.errors { p.problem { (queue) ": " (message) } }
        @for hits in found.queues.iter().filter(|hits| !hits.elements.is_empty()) { (of_queue(hits, &view, &text)) }
        @if !found.jobs.jobs.is_empty() {
            section aria-labelledby="jobs" {
                h2 #jobs { "Job queue" }
                @for job in &found.jobs.jobs { (topics::one(job, found.jobs.now_ms)) }
            }
        }
        @if found.jobs.more { p { "Not all jobs were looked at: " a href="topics" { "topics" } " have the rest." } }
        (rest(&found, &text))
    };
    Ok(page(StatusCode::OK, &view, "Search", &body))
}

fn of_queue(hits: &Hits, view: &View, text: &str) -> Markup {
    let base = format!("queues/{}/", encoded(&hits.queue));
    html! {
        section {
            h2 { a href={ "queues/" (encoded(&hits.queue)) } { (hits.queue) } }
            (table(&hits.elements, None, view, &hits.queue, hits.now_ms, &ListPlace::default(), &base))
            @if let Some(next) = &hits.next { p { (search_on(hits, text, next)) } }
        }
    }
}

/// Returns the way to what was not looked at.
fn rest(found: &FoundEverywhere, text: &str) -> Markup {
    let cut: Vec<_> = found
        .queues
        .iter()
        .filter(|hits| hits.elements.is_empty())
        .filter_map(|hits| Some((hits, hits.next.as_ref()?)))
        .collect();
    html! {
        @if let Some(next) = &found.next {
            p { a.button rel="next" href={ "search?q=" (encoded(text)) "&after=" (encoded(next)) } { "Search the other queues" } }
        }
        @if !cut.is_empty() {
            p { "These have more elements than were looked at:" }
            ul.links { @for (hits, next) in cut { li { (search_on(hits, text, next)) } } }
        }
    }
}

fn search_on(hits: &Hits, text: &str, next: &str) -> Markup {
    let Hits { queue, examined: seen, .. } = hits;
    html! {
        a href={ "queues/" (encoded(queue)) "/search?field=" (encoded(text)) "&after=" (encoded(next)) "&seen=" (seen) } { "Search on in " (queue) }
    }
}
