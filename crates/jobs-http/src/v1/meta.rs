//! `GET /v1/openapi.json`, and the same as OpenAPI 3.0.

use std::sync::Arc;

use hyper::StatusCode;

use crate::Api;
use crate::call::Call;
use crate::openapi::{document, document_3_0};
use crate::problem::Problem;
use crate::reply::Reply;

/// The OpenAPI document of our own API. Everybody may read it.
pub async fn openapi(_api: Arc<Api>, _call: Call) -> Result<Reply, Problem> {
    Reply::json(StatusCode::OK, &document())
}

/// The same as OpenAPI 3.0.
pub async fn openapi_3_0(_api: Arc<Api>, _call: Call) -> Result<Reply, Problem> {
    Reply::json(StatusCode::OK, &document_3_0())
}
