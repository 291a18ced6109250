//! What an error of the queue means to a client. The wait before another attempt is short: the link to Redis tries again
//! every second.

use std::time::Duration;

use delaybridge_http_server::problem::{Problem, ProblemKind};
use delaybridge_jobs::JobError;
use delaybridge_link::LinkError;

/// Before another attempt in an outage, and while a topic is full.
pub const AGAIN: Duration = Duration::from_secs(1);

/// Returns the problem; `what` was attempted, as in `add the job`.
pub fn problem(what: &str, error: JobError) -> Problem {
    let unknown = error.outcome_unknown();
    let (kind, advice) = match &error {
        JobError::NotFound => {
            (ProblemKind::NoSuchJob, "it was never added, or it is finished, deleted, or past its time to live")
        }
        JobError::Conflict => (
            ProblemKind::NotYours,
            "its time to run was over, and it was given back or reserved again; drop it, another consumer does it",
        ),
        JobError::NotWaiting { .. } => (
            ProblemKind::Conflict,
            "nothing was changed; only a job that waits can be changed: try again if it waits again, or delete it and add another",
        ),
        JobError::OtherDue { .. } => {
            (ProblemKind::Conflict, "nothing was changed; look at the job, and send the due time that it has now")
        }
        JobError::InUse { .. } => (
            ProblemKind::Conflict,
            "nothing was removed; wait until these jobs are finished, or remove them too with `force=true`",
        ),
        JobError::Fixed(_) => (ProblemKind::Conflict, "nothing was changed"),
        JobError::Full { .. } => (
            ProblemKind::TooMany,
            "nothing was added; wait until consumers have caught up, or raise the topic's max_jobs",
        ),
        JobError::TooManyKeys { .. } => {
            (ProblemKind::TooMany, "nothing was added; wait until the times of some are over, or use shorter times")
        }
        JobError::TooManyRecurring { .. } => (ProblemKind::TooMany, "nothing was added; delete some of them first"),
        JobError::NoRecurring => (ProblemKind::NotFound, "it was never added, or it was deleted"),
        JobError::UnknownTopic { .. } => {
            (ProblemKind::NotFound, "nothing was done; use a listed topic, or list this one under jobs.topics")
        }
        JobError::TooManyTopics { .. } => {
            (ProblemKind::TooMany, "nothing was added; use topics that are there, or raise max_topics")
        }
        JobError::TooLarge { .. } => {
            (ProblemKind::TooLarge, "nothing was done; store the body elsewhere, or raise the topic's max_body")
        }
        JobError::Invalid(_) | JobError::Name(_) => (ProblemKind::BadRequest, "nothing was done"),
        JobError::Busy { .. } => (ProblemKind::TooMany, "wait, or run another daemon"),
        JobError::Unavailable(LinkError::NotSent { .. }) => (ProblemKind::Unavailable, "nothing was done; try again"),
        JobError::Unavailable(LinkError::Server { .. }) => {
            (ProblemKind::Refused, "nothing was done; the daemon's operator has to look")
        }
        _ if unknown => (
            ProblemKind::OutcomeUnknown,
            "it may have been done; look at the job, or send it again if the API says that this is harmless",
        ),
        _ => (ProblemKind::Unexpected, "the daemon's operator has to look"),
    };
    let problem = Problem::new(kind, format!("{what}: {error}; {advice}"));
    // What the client would ask for next.
    let problem = match &error {
        JobError::NotWaiting { state } => problem.with("state", state.as_str().into()),
        JobError::OtherDue { due_ms } => problem.with("due_ms", (*due_ms).into()),
        JobError::InUse { reserved, forwarding, .. } => {
            problem.with("reserved", (*reserved).into()).with("forwarding", (*forwarding).into())
        }
        _ => problem,
    };
    match kind {
        ProblemKind::TooMany | ProblemKind::Unavailable | ProblemKind::OutcomeUnknown | ProblemKind::Refused => {
            problem.retry_after(AGAIN)
        }
        _ => problem,
    }
}
