//! `GET /sinks/{sink}`: its state, its pause, its last hour and day, and the queues that deliver to it.

use std::sync::Arc;

use hyper::StatusCode;
use maud::{Markup, html};

use super::layout::{View, crumbs, encoded, page};
use super::list_place::ListPlace;
use super::past;
use super::pausing::pause_form;
use super::queue::settings;
use super::show::lasting;
use crate::Admin;
use crate::access::AdminCaller;
use crate::v1::errors::problem;
use crate::v1::history::known_sink;
use delaybridge_config::describe_sink;
use delaybridge_http_server::call::Call;
use delaybridge_http_server::problem::Problem;
use delaybridge_http_server::reply::Reply;
use delaybridge_model::role::AccessRole;
use delaybridge_ops::overview::SinkRow;
use delaybridge_ops::pause::{SinkPauses, sink_pauses};
use delaybridge_ops::plural::count;

/// Queues, destinations in trouble, and queues without an answer that are shown.
const SHOWN: usize = 50;

/// Returns the effect of a pause.
fn effect(queues: usize) -> String {
    let of = count(queues, "queue");
    format!("Nothing is claimed that goes to it, of {of}, by any daemon of this configuration.")
}

/// Returns the page of a sink.
pub async fn show(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    call.query.only(&["still", "reload"])?;
    let name = call.part("sink");
    known_sink(&admin, name)?;
    let mut view = View::of(&format!("/sinks/{}", encoded(name)), &call.caller, admin.access.has_tokens());
    view.watch(&call.query);
    let sinks = admin.sinks();
    let session = admin.session();
    let sink = sinks.sinks.iter().find(|sink| sink.sink == name);
    let delivers = |queue: &&Arc<delaybridge_model::QueueSpec>| queue.to.iter().any(|to| *to.sink == *name);
    let queues: Vec<_> = session.config.queues.iter().filter(delivers).collect();
    let effect = effect(queues.len());
    // A sink that no queue uses cannot be paused.
    let read = async |sink: &String| sink_pauses(&session, sink).await.map_err(|error| problem(&error));
    let pauses = admin.cache.page(|cache| &cache.sinks, name.to_owned(), read).await.ok();
    let body = html! {
        (crumbs(&[("Sinks", format!("{}#sinks", view.up))], name))
        h1 { (name) }
        @if let Some(sink) = sink { (state(sink, pauses.as_deref())) }
        @if let Some(pauses) = pauses.as_ref().filter(|_| view.may_all(AccessRole::Operator)) {
            // Where it is paused for some of its queues, both ways lead on.
            @if !pauses.paused.is_empty() { (pause_form(&encoded(name), "sink", &effect, true, &ListPlace::default())) }
            @if pauses.paused.len() < pauses.asked { (pause_form(&encoded(name), "sink", &effect, false, &ListPlace::default())) }
        }
        (past::of_sink(&admin, name))
        section aria-labelledby="queues" {
            h2 #queues { "Queues that deliver to it" }
            ul.links {
                @for queue in queues.iter().take(SHOWN) { li { a href={ "../queues/" (encoded(&queue.id)) } { (queue.id) } } }
                @if let Some(more @ 1..) = queues.len().checked_sub(SHOWN) { li.muted { (count(more, "further queue")) } }
            }
        }
        @if let Some(spec) = session.config.sinks.iter().find(|spec| *spec.name == *name && view.may_all(AccessRole::Reader)) {
            details #settings {
                summary { "Address and settings" }
                div.scroll { table.settings { tbody { (settings("", &describe_sink(spec))) } } }
            }
        }
    };
    Ok(page(StatusCode::OK, &view, name, &body))
}

/// Everything that keeps elements from it.
fn state(sink: &SinkRow, pauses: Option<&SinkPauses>) -> Markup {
    let troubles = sink.troubles();
    html! {
        ul.notes {
            li class=(if !sink.has_trouble() { "good" } else if sink.is_in_trouble() { "bad" } else { "warn" }) {
                strong { (sink.word()) } " " (lasting(sink.seconds))
            }
            @for trouble in troubles.iter().take(SHOWN) { li.warn { (trouble) } }
            @if let Some(more @ 1..) = troubles.len().checked_sub(SHOWN) {
                li.warn { (count(more, "further destination")) " in trouble" }
            }
            @if let Some((pauses, (_, pause))) = pauses.and_then(|pauses| Some((pauses, pauses.paused.first()?))) {
                li.warn {
                    strong { "paused" } " for " (pauses.paused.len()) " of " (count(pauses.asked, "queue")) ", "
                    (pause.since(pauses.now_ms.unwrap_or(pause.since_ms)))
                }
            }
        }
        @for error in pauses.iter().flat_map(|pauses| &pauses.errors).take(SHOWN) { p.problem { (error.queue) ": " (error.message) } }
    }
}
