//! What an error of the queue means to a client. The wait before another attempt is short: the link to Redis tries again
//! every second.

use std::time::Duration;

use crate::api::problem::{Kind, Problem};
use crate::jobs::JobError;
use crate::link::LinkError;

/// Before another attempt in an outage, and while a topic is full.
pub const AGAIN: Duration = Duration::from_secs(1);

/// The problem; `what` was attempted, as in `add the job`.
pub fn problem(what: &str, error: JobError) -> Problem {
    let unknown = error.outcome_unknown();
    let (kind, advice) = match &error {
        JobError::NotFound => {
            (Kind::NoSuchJob, "it was never added, or it is finished, deleted, or past its time to live")
        }
        JobError::Conflict => (
            Kind::NotYours,
            "its time to run was over, and it was given back or reserved again; drop it, another consumer does it",
        ),
        JobError::Full { .. } => {
            (Kind::TooMany, "nothing was added; wait until consumers have caught up, or raise the topic's max_jobs")
        }
        JobError::TooManyTopics { .. } => {
            (Kind::TooMany, "nothing was added; use topics that are there, or raise max_topics")
        }
        JobError::TooLarge { .. } => {
            (Kind::TooLarge, "nothing was added; store the body elsewhere, or raise the topic's max_body")
        }
        JobError::Invalid(_) | JobError::Name(_) => (Kind::BadRequest, "nothing was done"),
        JobError::Busy { .. } => (Kind::TooMany, "wait, or run another daemon"),
        JobError::Unavailable(LinkError::NotSent { .. }) => (Kind::Unavailable, "nothing was done; try again"),
        JobError::Unavailable(LinkError::Server { .. }) => {
            (Kind::Refused, "nothing was done; the daemon's operator has to look")
        }
        _ if unknown => (
            Kind::OutcomeUnknown,
            "it may have been done; look at the job, or send it again if the API says that this is harmless",
        ),
        _ => (Kind::Unexpected, "the daemon's operator has to look"),
    };
    let problem = Problem::new(kind, format!("{what}: {error}; {advice}"));
    match kind {
        Kind::TooMany | Kind::Unavailable | Kind::OutcomeUnknown | Kind::Refused => problem.retry_after(AGAIN),
        _ => problem,
    }
}
