//! `jobs recurring`: jobs that are added at the times of a cron expression.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use clap::{ArgGroup, Args, ValueEnum};
use serde::Serialize;

use super::job_args::{OfTopic, delay, on_jobs, ttr};
use crate::error::Error;
use crate::jobs::{RecurringDetail, RecurringDetails, failed};
use crate::operation::{Explain, Operation, Scene};
use crate::show;
use crate::table::TextTable;
use delaybridge_jobs::{CronSchedule, JobError, MAX_PRIORITY, MissedFirings, Recurring, RecurringName, Topic};

/// List the recurring jobs of a topic.
#[derive(Debug, Clone, Args)]
#[command(after_help = LS)]
pub struct ListRecurring {
    /// The topic.
    #[command(flatten)]
    of: OfTopic,
}

const LS: &str = "\
Example:
  delaybridge jobs recurring ls reports --output json";

on_jobs!(ListRecurring: "jobs recurring ls" -> RecurringDetails, list, |own, jobs| jobs.all_recurring(&own.of.topic).await);

/// A recurring job.
#[derive(Debug, Clone, Args)]
pub struct NamedRecurring {
    /// The topic
    #[arg(value_name = "TOPIC")]
    topic: Topic,
    /// The name
    #[arg(value_name = "NAME")]
    name: RecurringName,
}

impl NamedRecurring {
    /// Puts what was attempted in front of an error of the job queue.
    fn failed(&self, verb: &str, error: &JobError) -> Error {
        failed(&format!("{verb} the recurring job {} of topic {}", self.name, self.topic), error)
    }
}

/// Show one with its body.
#[derive(Debug, Clone, Args)]
#[command(after_help = SHOW)]
pub struct ShowRecurring {
    /// The recurring job.
    #[command(flatten)]
    of: NamedRecurring,
}

const SHOW: &str = "\
Example:
  delaybridge jobs recurring show reports nightly";

on_jobs!(ShowRecurring: "jobs recurring show" -> RecurringDetails, one, |own, jobs| {
    let found = jobs.queue.recurring(&own.of.topic, &own.of.name).await;
    let found = found.map_err(|error| own.of.failed("look at", &error))?;
    Ok(RecurringDetails { now_ms: jobs.queue.now_ms(), recurring: vec![found.into()] })
});

/// Add a recurring job, or change the one of this name.
///
/// All of its definition is replaced; a pause stays. The command may be run again.
#[derive(Debug, Clone, Args)]
#[command(after_help = SET)]
#[command(group(ArgGroup::new("what").required(true).args(["body", "file", "stdin"])))]
pub struct SetRecurring {
    /// The recurring job.
    #[command(flatten)]
    of: NamedRecurring,
    /// The cron expression: minute, hour, day of the month, month, day of the week
    #[arg(long, value_name = "EXPRESSION")]
    cron: String,
    /// The time zone of the expression, as the IANA database names it
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    zone: String,
    /// The treatment of firings that no daemon was there for
    #[arg(long, value_enum, value_name = "RULE", default_value_t = MissedArg::Once)]
    missed: MissedArg,
    /// Time to run: how long a consumer may have a job
    #[arg(long, value_name = "DURATION", value_parser = ttr)]
    ttr: Option<Duration>,
    /// Times that a job is handed out
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    tries: Option<u32>,
    /// Time to live: a job is dropped if it is not finished by then (0s is for ever)
    #[arg(long, value_name = "DURATION", value_parser = delay)]
    ttl: Option<Duration>,
    /// Priority of the jobs, 0 to 9
    #[arg(long, value_name = "NUMBER", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=MAX_PRIORITY.into()))]
    priority: u8,
    /// Content type of the body, for its consumer
    #[arg(long, value_name = "TYPE", default_value = "")]
    content_type: String,
    /// The body
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    body: Option<String>,
    /// A file with the body
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Read the body from standard input
    #[arg(value_name = "-", value_parser = ["-"], allow_hyphen_values = true)]
    stdin: Option<String>,
}

const SET: &str = "\
Examples:
  delaybridge jobs recurring set reports nightly --cron '0 3 * * *' --zone Europe/Berlin --body '{\"report\":\"sales\"}'
  delaybridge jobs recurring set reports hourly --cron '@hourly' --missed skip --body x

Exit codes: 0 it is as wanted, 1 failed or unknown, 2 wrong arguments, an expression or a zone that is none, or a body that is too large";

/// The rule for missed firings as an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MissedArg {
    /// No job is added.
    Skip,
    /// One job is added for all of them.
    Once,
    /// A job is added for each, the latest 100 at most.
    All,
}

/// The outcome of a change.
#[derive(Debug, Serialize)]
pub struct ChangedRecurring {
    topic: String,
    name: String,
    done: &'static str,
    changed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_ms: Option<i64>,
}

impl ChangedRecurring {
    fn new(of: &NamedRecurring, done: &'static str, changed: bool) -> Self {
        ChangedRecurring { topic: of.topic.to_string(), name: of.name.to_string(), done, changed, next_ms: None }
    }

    fn line(&self) -> String {
        let what = if self.changed { self.done } else { "was so already" };
        let next = self.next_ms.map(|ms| format!(", fires next {}", show::absolute(ms))).unwrap_or_default();
        format!("{} of {} {what}{next}\n", self.name, self.topic)
    }
}

impl Operation for SetRecurring {
    type Answer = ChangedRecurring;

    const NAME: &'static str = "jobs recurring set";

    async fn run(&self, scene: &Scene) -> Result<ChangedRecurring, Error> {
        let NamedRecurring { topic, name } = &self.of;
        let schedule = CronSchedule::new(&self.cron, &self.zone)
            .map_err(|rule| Error::invalid(format!("set the recurring job {name} of topic {topic}: {rule}")))?;
        let body = match &self.body {
            Some(body) => Bytes::from(body.clone()),
            None => scene.input("body", self.file.as_deref())?,
        };
        let missed = match self.missed {
            MissedArg::Skip => MissedFirings::Skip,
            MissedArg::Once => MissedFirings::Once,
            MissedArg::All => MissedFirings::All,
        };
        let SetRecurring { ttr, tries, ttl, priority, ref content_type, .. } = *self;
        let recurring = Recurring { schedule, missed, ttr, tries, ttl, priority, content_type: content_type.clone() };
        let set = scene.jobs().await?.queue.set_recurring(topic, name, &recurring, &body).await;
        let set = set.map_err(|error| self.of.failed("set", &error))?;
        let done = if set.created { "added" } else { "changed" };
        Ok(ChangedRecurring { next_ms: set.next_ms, ..ChangedRecurring::new(&self.of, done, set.changed) })
    }

    fn text(&self, done: &ChangedRecurring, _: Explain) -> String {
        done.line()
    }
}

/// Let it fire no more until it is resumed.
#[derive(Debug, Clone, Args)]
#[command(after_help = PAUSE)]
pub struct PauseRecurring {
    /// The recurring job.
    #[command(flatten)]
    of: NamedRecurring,
}

const PAUSE: &str = "\
Example:
  delaybridge jobs recurring pause reports nightly";

on_jobs!(PauseRecurring: "jobs recurring pause" -> ChangedRecurring, ChangedRecurring::line, |own, jobs| {
    let changed = jobs.queue.pause_recurring(&own.of.topic, &own.of.name).await;
    let changed = changed.map_err(|error| own.of.failed("pause", &error))?;
    Ok(ChangedRecurring::new(&own.of, "paused", changed))
});

/// Let it fire again; firings during the pause are not made up for.
#[derive(Debug, Clone, Args)]
#[command(after_help = RESUME)]
pub struct ResumeRecurring {
    /// The recurring job.
    #[command(flatten)]
    of: NamedRecurring,
}

const RESUME: &str = "\
Example:
  delaybridge jobs recurring resume reports nightly";

on_jobs!(ResumeRecurring: "jobs recurring resume" -> ChangedRecurring, ChangedRecurring::line, |own, jobs| {
    let changed = jobs.queue.resume_recurring(&own.of.topic, &own.of.name).await;
    let changed = changed.map_err(|error| own.of.failed("resume", &error))?;
    Ok(ChangedRecurring::new(&own.of, "resumed", changed))
});

/// Remove it; jobs that it has added stay.
#[derive(Debug, Clone, Args)]
#[command(after_help = DELETE)]
pub struct DeleteRecurring {
    /// The recurring job.
    #[command(flatten)]
    of: NamedRecurring,
}

const DELETE: &str = "\
Example:
  delaybridge jobs recurring delete reports nightly";

on_jobs!(DeleteRecurring: "jobs recurring delete" -> ChangedRecurring, ChangedRecurring::line, |own, jobs| {
    let deleted = jobs.queue.delete_recurring(&own.of.topic, &own.of.name).await;
    deleted.map_err(|error| own.of.failed("delete", &error))?;
    Ok(ChangedRecurring::new(&own.of, "deleted", true))
});

/// Returns the next firing as a person reads it.
fn next(recurring: &RecurringDetail) -> String {
    match (recurring.paused, recurring.next_ms) {
        (true, _) => "paused".to_owned(),
        (false, Some(ms)) => show::absolute(ms),
        (false, None) => "never".to_owned(),
    }
}

fn list(found: &RecurringDetails) -> String {
    if found.recurring.is_empty() {
        return "no recurring jobs\n".to_owned();
    }
    let mut table = TextTable::new("NAME|CRON|ZONE|MISSED|NEXT|>SIZE");
    for recurring in &found.recurring {
        let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "?".to_owned());
        table.row([
            recurring.name.clone(),
            text(&recurring.cron),
            text(&recurring.zone),
            text(&recurring.missed),
            next(recurring),
            show::size(usize::try_from(recurring.size).unwrap_or(usize::MAX)),
        ]);
    }
    table.render()
}

fn one(found: &RecurringDetails) -> String {
    let line = |recurring: &RecurringDetail| {
        let mut text = String::new();
        let mut line = |name: &str, value: &str| text.push_str(&format!("{name:<13} {value}\n"));
        line("name", &recurring.name);
        for (name, value) in [("cron", &recurring.cron), ("zone", &recurring.zone), ("missed", &recurring.missed)] {
            line(name, value.as_deref().unwrap_or("of another version"));
        }
        line("next", &next(recurring));
        recurring.body.iter().for_each(|body| line("body", &body.preview(usize::MAX)));
        text
    };
    found.recurring.iter().map(line).collect()
}
