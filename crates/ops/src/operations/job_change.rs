//! `jobs get`, `jobs change` and `jobs delete`: one job.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use clap::{ArgGroup, Args};
use serde::Serialize;

use super::job_args::{JobDone, delay, on_jobs};
use crate::error::Error;
use crate::jobs::{FoundJobs, text};
use crate::operation::{Explain, Operation, Scene};
use crate::show;
use crate::time::point as time;
use delaybridge_jobs::{Due, JobChange, JobId, MAX_PRIORITY};

/// Show one job.
#[derive(Debug, Clone, Args)]
#[command(visible_alias = "show", after_help = GET)]
pub struct GetJob {
    /// The job's id: TOPIC~ID
    #[arg(value_name = "ID")]
    id: JobId,
}

const GET: &str = "\
Example:
  delaybridge jobs get orders~4711 --output json";

on_jobs!(GetJob: "jobs get" -> FoundJobs, text::one, |own, jobs| jobs.get(&own.id).await);

/// Remove a job for good, whatever its state.
#[derive(Debug, Clone, Args)]
#[command(after_help = DELETE)]
pub struct DeleteJob {
    /// The job's id: TOPIC~ID
    #[arg(value_name = "ID")]
    id: JobId,
}

const DELETE: &str = "\
Example:
  delaybridge jobs delete orders~4711";

on_jobs!(DeleteJob: "jobs delete" -> JobDone, JobDone::line, |own, jobs| {
    let done = jobs.queue.delete(&own.id).await;
    Ok(JobDone::of(&own.id, ["delete", "deleted"], done)?.0)
});

/// Change the due time, the priority or the body of a job that waits.
///
/// What is left out stays as it is. A job that is reserved, dead or being delivered by a queue is not changed. The command may be
/// run again: a job that is as wanted stays, only a delay starts again.
///
/// job: delay | ready -> delay | ready
#[derive(Debug, Clone, Args)]
#[command(after_help = CHANGE)]
#[command(group(ArgGroup::new("what").required(true).multiple(true)
    .args(["delay", "due", "priority", "body", "file", "stdin", "content_type"])))]
pub struct ChangeJob {
    /// The job's id: TOPIC~ID
    #[arg(value_name = "ID")]
    id: JobId,
    /// The delay until it is ready, from now on (5s, 10m)
    #[arg(long, value_name = "DURATION", value_parser = delay, conflicts_with = "due")]
    delay: Option<Duration>,
    /// Time at which it is ready (2027-01-31T09:00:00Z, or milliseconds since 1970)
    #[arg(long, visible_alias = "at", value_name = "TIME", value_parser = time)]
    due: Option<i64>,
    /// Priority, 0 to 9
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u8).range(0..=MAX_PRIORITY.into()))]
    priority: Option<u8>,
    /// The new body
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, conflicts_with_all = ["file", "stdin"])]
    body: Option<String>,
    /// A file with the new body
    #[arg(long, value_name = "FILE", conflicts_with = "stdin")]
    file: Option<PathBuf>,
    /// Read the new body from standard input
    #[arg(value_name = "-", value_parser = ["-"], allow_hyphen_values = true)]
    stdin: Option<String>,
    /// Content type of the body
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    /// Only if it has this due time (2027-01-31T09:00:00Z, or milliseconds since 1970)
    #[arg(long, value_name = "TIME", value_parser = time)]
    if_due: Option<i64>,
}

const CHANGE: &str = "\
Examples:
  delaybridge jobs change orders~4711 --delay 30m
  delaybridge jobs change orders~4711 --due 2027-01-31T09:00:00Z --if-due 1795251632252
  delaybridge jobs change orders~4711 --body '{\"orderId\":4712}'

Exit codes: 0 the job is as wanted, 1 failed or unknown, or the job does not wait, 2 wrong arguments or a body that is too large";

/// The outcome of a change.
#[derive(Debug, Serialize)]
pub struct ChangedJob {
    id: String,
    changed: bool,
    due_ms: i64,
    state: &'static str,
}

impl Operation for ChangeJob {
    type Answer = ChangedJob;

    const NAME: &'static str = "jobs change";

    async fn run(&self, scene: &Scene) -> Result<ChangedJob, Error> {
        let body = match (&self.body, &self.file, &self.stdin) {
            (Some(body), ..) => Some(Bytes::from(body.clone())),
            (None, None, None) => None,
            (None, file, _) => Some(scene.input("body", file.as_deref())?),
        };
        let change = JobChange {
            due: self.delay.map(Due::After).or(self.due.map(Due::At)),
            priority: self.priority,
            content_type: self.content_type.clone(),
            body,
            if_due_ms: self.if_due,
        };
        let done = scene.jobs().await?.change(&self.id, &change).await?;
        let id = self.id.to_string();
        let state = done.state.as_str();
        Ok(ChangedJob { id, changed: done.changed, due_ms: done.due_ms, state })
    }

    fn text(&self, job: &ChangedJob, _: Explain) -> String {
        let what = if job.changed { "changed" } else { "was so already" };
        format!("{} {what}, due {}\n", job.id, show::absolute(job.due_ms))
    }
}
