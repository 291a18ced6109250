//! `jobs pop` and the commands that settle what it answered.

use std::time::Duration;

use clap::Args;

use super::job_args::{HeldJob, JobDone, at_most, delay, on_jobs, ttr};
use crate::jobs::{FoundJobs, LONGEST_WAIT, text};
use delaybridge_jobs::{MAX_POP, PopRequest, Release, Settled, Topic};

/// Take jobs that are ready.
///
/// They are reserved: no other consumer gets them for their time to run. Settle each with its token.
#[derive(Debug, Clone, Args)]
#[command(after_help = POP)]
pub struct PopJobs {
    /// The topics, the most important first
    #[arg(value_name = "TOPIC", required = true, num_args = 1..)]
    topics: Vec<Topic>,
    /// Maximum number of jobs, all of one topic
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = count)]
    count: usize,
    /// Time to run, instead of the jobs' own
    #[arg(long, value_name = "DURATION", value_parser = ttr)]
    ttr: Option<Duration>,
    /// Maximum time to wait for a job
    #[arg(long, value_name = "DURATION", value_parser = wait, default_value = "0s")]
    wait: Duration,
}

fn wait(text: &str) -> Result<Duration, String> {
    at_most(text, LONGEST_WAIT)
}

fn count(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|count| (1..=MAX_POP).contains(count))
        .ok_or_else(|| format!("write a number from 1 to {MAX_POP}"))
}

const POP: &str = "\
Examples:
  delaybridge jobs pop orders
  delaybridge jobs pop urgent orders --wait 1m --count 10 --output json

Exit codes: 0 took at least one, 1 failed or unknown, 2 wrong arguments, 4 there was none";

on_jobs!(PopJobs: "jobs pop" -> FoundJobs, text::taken, |own, jobs| {
    let PopJobs { topics, count, ttr, wait } = own.clone();
    jobs.pop(PopRequest { topics, count, ttr, wait }).await
}; fn exit_code(found: &FoundJobs) -> u8 {
    // A shell script asks for it.
    if found.jobs.is_empty() { 4 } else { 0 }
});

/// Finish a job: it is gone.
///
/// Refused when the time to run was over and the job was given back or handed to another consumer.
#[derive(Debug, Clone, Args)]
#[command(after_help = FINISH)]
pub struct FinishJob {
    /// The job.
    #[command(flatten)]
    held: HeldJob,
}

const FINISH: &str = "\
Example:
  delaybridge jobs finish orders~4711 --token mJ0c3Zk1yQ8T_x2a";

on_jobs!(FinishJob: "jobs finish" -> JobDone, JobDone::line, |own, jobs| {
    let HeldJob { id, token } = &own.held;
    let done = jobs.queue.finish(id, *token).await;
    Ok(JobDone::of(id, ["finish", "finished"], done)?.0)
});

/// Give a job back: it is ready again, after a delay if you like.
///
/// After its last try it is dead, unless the attempt does not count.
#[derive(Debug, Clone, Args)]
#[command(after_help = RELEASE)]
pub struct ReleaseJob {
    /// The job.
    #[command(flatten)]
    held: HeldJob,
    /// The delay until it is ready again; without it the back-off of the topic, if the attempt counts
    #[arg(long, value_name = "DURATION", value_parser = delay)]
    delay: Option<Duration>,
    /// This attempt does not count
    #[arg(long)]
    uncounted: bool,
    /// Why; `jobs get` shows it
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
}

const RELEASE: &str = "\
Example:
  delaybridge jobs release orders~4711 --token mJ0c3Zk1yQ8T_x2a --delay 30s --reason 'stock is locked'";

on_jobs!(ReleaseJob: "jobs release" -> JobDone, JobDone::line, |own, jobs| {
    let HeldJob { id, token } = &own.held;
    let how = if own.uncounted { Release::Uncounted } else { Release::Counted };
    let done = jobs.queue.release(id, *token, own.delay, how, &own.reason).await;
    let (mut done, (settled, time)) = JobDone::of(id, ["release", "released"], done)?;
    match settled {
        Settled::Done => done.due_ms = Some(time),
        Settled::Dead => done.done = "dead: that was its last try",
        Settled::Expired => done.done = "gone: it was past its time to live",
    }
    Ok(done)
});

/// Ask for more time: the time to run starts again.
#[derive(Debug, Clone, Args)]
#[command(after_help = TOUCH)]
pub struct TouchJob {
    /// The job.
    #[command(flatten)]
    held: HeldJob,
    /// Another time to run from now on
    #[arg(long, value_name = "DURATION", value_parser = ttr)]
    ttr: Option<Duration>,
}

const TOUCH: &str = "\
Example:
  delaybridge jobs touch orders~4711 --token mJ0c3Zk1yQ8T_x2a --ttr 5m";

on_jobs!(TouchJob: "jobs touch" -> JobDone, JobDone::line, |own, jobs| {
    let HeldJob { id, token } = &own.held;
    let done = jobs.queue.touch(id, *token, own.ttr).await;
    let (done, deadline) = JobDone::of(id, ["touch", "touched"], done)?;
    Ok(JobDone { deadline_ms: Some(deadline), ..done })
});

/// Bury a job: it is dead, whatever tries it had left.
#[derive(Debug, Clone, Args)]
#[command(after_help = BURY)]
pub struct BuryJob {
    /// The job.
    #[command(flatten)]
    held: HeldJob,
    /// Why; `jobs get` shows it
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
}

const BURY: &str = "\
Example:
  delaybridge jobs bury orders~4711 --token mJ0c3Zk1yQ8T_x2a --reason 'no such customer'";

on_jobs!(BuryJob: "jobs bury" -> JobDone, JobDone::line, |own, jobs| {
    let HeldJob { id, token } = &own.held;
    let done = jobs.queue.bury(id, *token, &own.reason).await;
    Ok(JobDone::of(id, ["bury", "buried"], done)?.0)
});
