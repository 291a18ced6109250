//! `/v1/fleet`: every daemon of the configuration's Redis.

use std::sync::Arc;

use hyper::StatusCode;

use super::errors::problem;
use crate::Admin;
use crate::access::AdminCaller;
use delaybridge_jobs_http::call::Call;
use delaybridge_jobs_http::problem::Problem;
use delaybridge_jobs_http::reply::Reply;
use delaybridge_ops::fleet::{Fleet, fleet};

/// The daemons.
pub async fn list(admin: Arc<Admin>, _call: Call<AdminCaller>) -> Result<Reply, Problem> {
    Reply::json(StatusCode::OK, &admin.fleet().await?)
}

impl Admin {
    /// Every daemon.
    ///
    /// # Errors
    /// Redis cannot be asked.
    pub async fn fleet(&self) -> Result<Fleet, Problem> {
        fleet(&self.session()).await.map_err(|error| problem(&error))
    }
}
