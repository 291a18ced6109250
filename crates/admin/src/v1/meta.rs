//! `GET /v1/openapi.json` and `POST /v1/reload`.

use std::sync::Arc;

use hyper::StatusCode;

use crate::Admin;
use crate::access::AdminCaller;
use crate::changes::Asker;
use delaybridge_http_server::call::Call;
use delaybridge_http_server::problem::Problem;
use delaybridge_http_server::reply::{JSON, Reply};
use delaybridge_ops::Error;
use delaybridge_ops::operation::{ChangeSubject, ChangeTarget};
use delaybridge_ops::reload::ReloadReport;

/// The OpenAPI document, which a test writes from the table of routes.
const DOCUMENT: &str = include_str!("../../openapi.json");

/// Returns the OpenAPI document. Everybody may read it.
pub async fn openapi(_admin: Arc<Admin>, _call: Call<AdminCaller>) -> Result<Reply, Problem> {
    Ok(Reply::bytes(StatusCode::OK, JSON, DOCUMENT))
}

/// Reads the file, and runs what it says; with `dry_run` it only says what would change.
pub async fn reload(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    let dry_run = match call.query.text("dry_run") {
        None | Some("false") => false,
        Some("" | "true") => true,
        Some(_) => return Err(Problem::bad("read `dry_run` in the query: it is true or false")),
    };
    Reply::json(StatusCode::OK, &admin.read_file(dry_run, Asker::of(&call)).await?)
}

impl Admin {
    /// Reads the configuration file, and runs what it says; with `dry_run` it only says what would change.
    ///
    /// # Errors
    /// The problems of the file: the configuration before runs on.
    pub async fn read_file(self: &Arc<Self>, dry_run: bool, asker: Asker) -> Result<ReloadReport, Problem> {
        let what = if dry_run { "try_reload" } else { "reload" };
        let subject = ChangeSubject::whole(what, ChangeTarget::Configuration);
        let handle = self.reload.clone();
        let work = async move {
            handle.reload(dry_run).await.map_err(|problems| {
                let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
                let message = format!("reload: the configuration before runs on: {}", problems.join("; "));
                Error { kind: delaybridge_ops::ErrorKind::Conflict, message }
            })
        };
        self.change(subject, asker, work, ToString::to_string).await
    }
}
