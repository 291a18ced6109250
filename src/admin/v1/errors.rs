//! What an error of a use case means to a client.

use std::time::Duration;

use crate::operate;
use delaybridge_jobs_http::problem::{Problem, ProblemKind};

/// Before another attempt in an outage.
const AGAIN: Duration = Duration::from_secs(1);

/// The problem of a look: it may be repeated at any time.
pub fn problem(error: &operate::Error) -> Problem {
    of(error, ProblemKind::Unavailable)
}

/// The problem of a change. Where it failed while it ran, something may have been done; the message says what is known.
pub fn problem_of_change(error: &operate::Error) -> Problem {
    of(error, ProblemKind::OutcomeUnknown)
}

fn of(error: &operate::Error, failed: ProblemKind) -> Problem {
    let kind = match error.kind {
        operate::ErrorKind::Invalid => ProblemKind::BadRequest,
        operate::ErrorKind::NotFound => ProblemKind::NotFound,
        operate::ErrorKind::Conflict => ProblemKind::Conflict,
        operate::ErrorKind::Failed => failed,
    };
    let problem = Problem::new(kind, error.message.clone());
    if error.kind == operate::ErrorKind::Failed { problem.retry_after(AGAIN) } else { problem }
}
