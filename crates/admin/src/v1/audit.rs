//! `/v1/audit`: who did what when.

use std::sync::Arc;

use hyper::StatusCode;

use super::limit;
use crate::Admin;
use crate::access::{AdminCaller, Need};
use delaybridge_jobs_http::call::Call;
use delaybridge_jobs_http::problem::{Problem, ProblemKind};
use delaybridge_jobs_http::reply::Reply;
use delaybridge_model::role::AccessRole;
use delaybridge_ops::audit::{AuditTrail, MOST, audit_of};
use delaybridge_ops::find;

/// Changes of a page.
const PAGE: usize = 50;

/// The latest changes of operators.
pub async fn list(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    Reply::json(StatusCode::OK, &admin.audit(&call).await?)
}

impl Admin {
    /// The latest changes of the queue that the query names, or of all queues that the caller may view.
    ///
    /// # Errors
    /// There is no such queue, or it is not for the caller.
    pub async fn audit(&self, call: &Call<AdminCaller>) -> Result<AuditTrail, Problem> {
        let queue = call.query.text("queue").filter(|queue| !queue.is_empty());
        let (most, session) = (limit(call, PAGE, MOST)?, self.session());
        let wanted: Vec<_> = match queue {
            Some(queue) => {
                self.access.check(Need::ToSearch, &call.caller, &call.headers, Some(queue))?;
                let found = find(&session.config, queue);
                vec![found.map_err(|error| Problem::new(ProblemKind::NotFound, error.message))?]
            }
            None => {
                let may = |id: &str| call.caller.may(AccessRole::Viewer, Some(id));
                session.config.queues.iter().filter(|spec| may(&spec.id)).cloned().collect()
            }
        };
        Ok(audit_of(&session, &wanted, most).await)
    }
}
