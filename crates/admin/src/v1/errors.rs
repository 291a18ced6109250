//! What an error of a use case means to a client.

use delaybridge_http_server::problem::{Problem, ProblemKind};
use std::time::Duration;

/// Before another attempt in an outage.
const AGAIN: Duration = Duration::from_secs(1);

/// Returns the problem of a look: it may be repeated at any time.
pub fn problem(error: &delaybridge_ops::Error) -> Problem {
    of(error, ProblemKind::Unavailable)
}

/// Returns the problem of a change. Where it failed while it ran, something may have been done; the message says what
/// is known.
pub fn problem_of_change(error: &delaybridge_ops::Error) -> Problem {
    of(error, ProblemKind::OutcomeUnknown)
}

fn of(error: &delaybridge_ops::Error, failed: ProblemKind) -> Problem {
    let kind = match error.kind {
        delaybridge_ops::ErrorKind::Invalid => ProblemKind::BadRequest,
        delaybridge_ops::ErrorKind::Unknown | delaybridge_ops::ErrorKind::NotFound => ProblemKind::NotFound,
        delaybridge_ops::ErrorKind::Conflict => ProblemKind::Conflict,
        delaybridge_ops::ErrorKind::Ended => ProblemKind::Unavailable,
        delaybridge_ops::ErrorKind::Failed => failed,
    };
    let problem = Problem::new(kind, error.message.clone());
    if error.kind == delaybridge_ops::ErrorKind::Failed { problem.retry_after(AGAIN) } else { problem }
}
