//! The OpenAPI 3.1 document of our own API; and the same as OpenAPI 3.0, which older generators read.
//!
//! The document is a file, which a test writes from the table of routes: a line of the table has the description of its endpoint, and
//! the schemas are those of the types that are answered; every answer that the tests get is compared with what the document says
//! of it. What writes it is no part of the daemon.

pub mod bodies;
#[cfg(test)]
mod own;

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::{Value, json};

#[cfg(test)]
pub(crate) use self::own::document;
use crate::Api;
use crate::job_call::JobCall;
use delaybridge_http_server::problem::{Problem, ProblemKind};
use delaybridge_http_server::reply::{JSON, Reply};

const DOCUMENT: &str = include_str!("../openapi.json");

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

/// Returns the document of version 3.1 as OpenAPI 3.0: nothing in the schemas needs more.
pub(crate) fn older(mut document: Value) -> Value {
    document["openapi"] = json!("3.0.3");
    document["info"]["license"] = json!({ "name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0" });
    document
}
