//! `jobs change`.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use clap::{ArgGroup, Args};

use super::args::{delay, time};
use super::open::open;
use crate::answer::answer;
use crate::failed::Failed;
use crate::global::Global;
use crate::input::input;
use crate::show;
use delaybridge_jobs::{Due, JobChange, JobId, MAX_PRIORITY};

/// Change the due time, the priority or the body of a job that waits.
///
/// What is left out stays as it is. A job that is reserved, dead or being delivered by a queue is not changed. The command may be
/// run again: a job that is as wanted stays, only a delay starts again.
///
/// job: delay | ready -> delay | ready
#[derive(Debug, Args)]
#[command(after_help = CHANGE)]
#[command(group(ArgGroup::new("what").required(true).multiple(true)
    .args(["delay", "due", "priority", "body", "file", "stdin", "content_type"])))]
pub struct ChangeArgs {
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
#[derive(serde::Serialize)]
struct ChangedJobLine {
    id: String,
    changed: bool,
    due_ms: i64,
    state: &'static str,
}

/// Changes a job.
pub(super) async fn run(global: &Global, args: &ChangeArgs, out: &mut dyn Write) -> Result<(), Failed> {
    let body = match (&args.body, &args.file, &args.stdin) {
        (Some(body), ..) => Some(Bytes::from(body.clone())),
        (None, None, None) => None,
        (None, file, _) => Some(input("body", file.as_deref())?),
    };
    let change = JobChange {
        due: args.delay.map(Due::After).or(args.due.map(Due::At)),
        priority: args.priority,
        content_type: args.content_type.clone(),
        body,
        if_due_ms: args.if_due,
    };
    let changed = open(global).await?.change(&args.id, &change).await?;
    let (state, due_ms) = (changed.state.as_str(), changed.due_ms);
    let job = ChangedJobLine { id: args.id.to_string(), changed: changed.changed, due_ms, state };
    answer(global, out, &job, |job| {
        let what = if job.changed { "changed" } else { "was so already" };
        format!("{} {what}, due {}\n", job.id, show::absolute(job.due_ms))
    })
}
