//! `/v1/audit`: who did what when.

use std::sync::Arc;

use hyper::StatusCode;

use super::errors::problem;
use super::limit;
use crate::Admin;
use crate::access::AdminCaller;
use delaybridge_jobs_http::call::Call;
use delaybridge_jobs_http::problem::{Problem, ProblemKind};
use delaybridge_jobs_http::reply::Reply;
use delaybridge_ops::audit::{AuditTrail, MOST, audit};
use delaybridge_ops::find;

/// Changes of a page.
const PAGE: usize = 50;

/// The latest changes of operators.
pub async fn list(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    Reply::json(StatusCode::OK, &admin.audit(&call).await?)
}

impl Admin {
    /// The latest changes of the queue that the query names, or of all queues.
    ///
    /// # Errors
    /// There is no such queue, or Redis cannot be asked.
    pub async fn audit(&self, call: &Call<AdminCaller>) -> Result<AuditTrail, Problem> {
        let queue = call.query.text("queue").filter(|queue| !queue.is_empty());
        let (most, session) = (limit(call, PAGE, MOST)?, self.session());
        if let Some(queue) = queue {
            find(&session.config, queue).map_err(|error| Problem::new(ProblemKind::NotFound, error.message))?;
        }
        audit(&session, queue, most).await.map_err(|error| problem(&error))
    }
}
