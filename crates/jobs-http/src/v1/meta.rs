//! `GET /v1/openapi.json`, and the same as OpenAPI 3.0.

use std::sync::Arc;

use hyper::StatusCode;

use crate::Api;
use crate::job_call::JobCall;
use crate::openapi::{DOCUMENT, older};
use delaybridge_http_server::problem::{Problem, ProblemKind};
use delaybridge_http_server::reply::{JSON, Reply};

/// Answers with the OpenAPI document of our own API. Everybody may read it.
pub async fn openapi(_api: Arc<Api>, _call: JobCall) -> Result<Reply, Problem> {
    Ok(Reply::bytes(StatusCode::OK, JSON, DOCUMENT))
}

/// Answers with the document as OpenAPI 3.0.
pub async fn openapi_3_0(_api: Arc<Api>, _call: JobCall) -> Result<Reply, Problem> {
    let document = serde_json::from_str(DOCUMENT)
        .map_err(|error| Problem::new(ProblemKind::Unexpected, format!("read the document of version 3.1: {error}")))?;
    Reply::json(StatusCode::OK, &older(document))
}
