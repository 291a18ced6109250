//! `GET /config`: the configuration that runs, without secrets.

use std::sync::Arc;

use hyper::StatusCode;
use maud::html;

use super::layout::{View, encoded, page, see_other};
use super::queue::settings;
use super::show::said;
use crate::Admin;
use crate::access::AdminCaller;
use crate::changes::Asker;
use crate::forms::form;
use delaybridge_config::describe_json;
use delaybridge_http_server::call::Call;
use delaybridge_http_server::problem::Problem;
use delaybridge_http_server::reply::Reply;
use delaybridge_model::Config;
use delaybridge_model::role::AccessRole;

/// Queues that are shown with all of their settings; each has a page of its own.
const QUEUES: usize = 50;

/// Returns the page.
pub async fn show(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    call.query.only(&["done"])?;
    let view = View::of("/config", &call.caller, admin.access.has_tokens());
    let running = admin.reload.running();
    let more = running.queues.len().saturating_sub(QUEUES);
    let shown = Config { queues: running.queues.iter().take(QUEUES).cloned().collect(), ..(*running).clone() };
    let body = html! {
        h1 { "Configuration" }
        @if let Some(done) = call.query.text("done") { ul.notes { li.good role="status" { (said(done)) } } }
        p.muted {
            "What runs, with every default filled in and without secrets. The file may say something else by now: "
            code { "delaybridge reload" } " reads it again."
        }
        @if view.may_all(AccessRole::Admin) { form.act method="post" action="reload" { button type="submit" { "Reload" } } }
        div.scroll { table.settings { tbody { (settings("", &describe_json(&shown))) } } }
        @if more > 0 { p.muted { (more) " further queues are on pages of their own." } }
    };
    Ok(page(StatusCode::OK, &view, "Configuration", &body))
}

/// Reads the file again, and shows what runs.
pub async fn reload(admin: Arc<Admin>, mut call: Call<AdminCaller>) -> Result<Reply, Problem> {
    form(&mut call).await?.only(&[])?;
    let report = admin.read_file(false, Asker::of(&call)).await?;
    Ok(see_other(&format!("config?done={}", encoded(&report.to_string()))))
}
