//! Answers as lmstfy's clients expect them.

use hyper::StatusCode;
use serde_json::json;

use delaybridge_http_server::problem::{Problem, ProblemKind};
use delaybridge_http_server::reply::Reply;

/// Returns a problem as lmstfy's clients expect it. What they cannot know is an internal error to them.
pub(crate) fn reply(problem: &Problem) -> Reply {
    let status = problem.kind.status();
    let (status, error) = match problem.kind {
        ProblemKind::NoSuchPath | ProblemKind::Method => (StatusCode::NOT_FOUND, "api not found"),
        ProblemKind::NoSuchJob => (status, "job not found"),
        ProblemKind::Forbidden => (StatusCode::UNAUTHORIZED, "invalid token"),
        ProblemKind::TooLarge => (status, "body too large"),
        _ if status.is_server_error() => (StatusCode::INTERNAL_SERVER_ERROR, "internal error"),
        _ => (status, problem.detail.as_str()),
    };
    // Its clients read why they are throttled from another field.
    let body = if problem.kind == ProblemKind::TooMany {
        json!({ "error": error, "msg": error })
    } else {
        json!({ "error": error })
    };
    problem.waits(answer(status, body))
}

pub(super) fn answer(status: StatusCode, value: serde_json::Value) -> Reply {
    // A value of this type always has JSON.
    Reply::json(status, &value).unwrap_or_else(|_| Reply::empty(StatusCode::INTERNAL_SERVER_ERROR))
}
