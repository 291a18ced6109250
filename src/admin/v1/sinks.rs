//! `GET /v1/sinks`.

use std::sync::Arc;

use hyper::StatusCode;

use crate::admin::Admin;
use crate::admin::access::AdminCaller;
use crate::api::call::Call;
use crate::api::problem::Problem;
use crate::api::reply::Reply;

/// The sinks with their state.
pub async fn list(admin: Arc<Admin>, _call: Call<AdminCaller>) -> Result<Reply, Problem> {
    Reply::json(StatusCode::OK, &admin.sinks())
}
