//! Arguments that the commands on jobs share.

use std::time::Duration;

use clap::Args;
use serde::Serialize;

use crate::error::Error;
use crate::jobs::failed;
use delaybridge_jobs::{JobError, JobId, MAX_DELAY, MAX_TTR, Token, Topic};

/// Implements a command on the job queue: its name, its answer, the words of that, and what it does.
macro_rules! on_jobs {
    ($kind:ty: $name:literal -> $answer:ty, $text:expr, |$own:ident, $jobs:ident| $run:expr $(; $($more:item)*)?) => {
        impl $crate::operation::Operation for $kind {
            type Answer = $answer;

            const NAME: &'static str = $name;

            async fn run(&self, scene: &$crate::operation::Scene) -> Result<$answer, $crate::error::Error> {
                let ($own, $jobs) = (self, scene.jobs().await?);
                $run
            }

            fn text(&self, found: &$answer, _: $crate::operation::Explain) -> String {
                $text(found)
            }

            $($($more)*)?
        }
    };
}
pub(super) use on_jobs;

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; write 500ms, 5s, 10m or 1h 30m"))
}

pub(super) fn at_most(text: &str, most: Duration) -> Result<Duration, String> {
    match duration(text)? {
        value if value > most => Err(format!("at most {}", humantime::format_duration(most))),
        value => Ok(value),
    }
}

pub(super) fn delay(text: &str) -> Result<Duration, String> {
    at_most(text, MAX_DELAY)
}

pub(super) fn ttr(text: &str) -> Result<Duration, String> {
    at_most(text, MAX_TTR)
}

/// A job that its consumer holds.
#[derive(Debug, Clone, Args)]
pub struct HeldJob {
    /// The job's id, as `pop` answered it
    #[arg(value_name = "ID")]
    pub id: JobId,
    /// The token, as `pop` answered it
    #[arg(long, value_name = "TOKEN", allow_hyphen_values = true)]
    pub token: Token,
}

/// A topic.
#[derive(Debug, Clone, Args)]
pub struct OfTopic {
    /// The topic
    #[arg(value_name = "TOPIC")]
    pub topic: Topic,
}

/// Refuses what removes jobs for good without a confirmation.
pub(super) fn confirmed(what: &str, lost: &str, yes: bool) -> Result<(), Error> {
    let problem = || Error::invalid(format!("{what}: nothing was removed; {lost}: confirm it with --yes"));
    yes.then_some(()).ok_or_else(problem)
}

/// The outcome of a change of one thing, in the shape of other results.
#[derive(Debug, Serialize)]
pub struct JobDone {
    /// The job, or the topic.
    pub id: String,
    /// The change.
    pub done: &'static str,
    /// The time at which it is ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_ms: Option<i64>,
    /// The end of its time to run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<i64>,
}

impl JobDone {
    /// The outcome of a change of a job, named by its verb: `finish` and `finished`.
    pub(super) fn of<T>(
        id: &JobId,
        [verb, done]: [&'static str; 2],
        result: Result<T, JobError>,
    ) -> Result<(JobDone, T), Error> {
        let value = result.map_err(|error| failed(&format!("{verb} job {id}"), &error))?;
        Ok((JobDone { id: id.to_string(), done, due_ms: None, deadline_ms: None }, value))
    }

    pub(super) fn line(&self) -> String {
        format!("{} {}\n", self.id, self.done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_written_as_in_the_configuration() {
        assert_eq!(duration("1h 30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(duration("0s"), Ok(Duration::ZERO));
        assert!(duration("5").unwrap_err().contains("500ms"));
    }
}
