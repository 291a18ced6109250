//! `GET /config`: the configuration that runs, without secrets.

use std::sync::Arc;

use hyper::StatusCode;
use maud::html;

use super::layout::{View, page};
use super::queue::settings;
use crate::Admin;
use crate::access::AdminCaller;
use delaybridge_config::describe_json;
use delaybridge_jobs_http::call::Call;
use delaybridge_jobs_http::problem::Problem;
use delaybridge_jobs_http::reply::Reply;
use delaybridge_model::Config;

/// Queues that are shown with all of their settings; each has a page of its own.
const QUEUES: usize = 50;

/// The page.
pub async fn show(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    call.query.only(&[])?;
    let view = View::of("/config", &call.caller, admin.access.has_tokens());
    let running = admin.reload.running();
    let more = running.queues.len().saturating_sub(QUEUES);
    let shown = Config { queues: running.queues.iter().take(QUEUES).cloned().collect(), ..(*running).clone() };
    let body = html! {
        h1 { "Configuration" }
        p.muted {
            "What runs, with every default filled in and without secrets. The file may say something else by now: "
            code { "delaybridge reload" } " reads it again."
        }
        div.scroll { table.settings { tbody { (settings("", &describe_json(&shown))) } } }
        @if more > 0 { p.muted { (more) " further queues are on pages of their own." } }
    };
    Ok(page(StatusCode::OK, &view, "Configuration", &body))
}
