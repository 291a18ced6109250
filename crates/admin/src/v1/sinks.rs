//! `GET /v1/sinks`.

use std::sync::Arc;

use hyper::StatusCode;

use crate::Admin;
use crate::access::AdminCaller;
use delaybridge_jobs_http::call::Call;
use delaybridge_jobs_http::problem::Problem;
use delaybridge_jobs_http::reply::Reply;

/// The sinks with their state.
pub async fn list(admin: Arc<Admin>, _call: Call<AdminCaller>) -> Result<Reply, Problem> {
    Reply::json(StatusCode::OK, &admin.sinks())
}
