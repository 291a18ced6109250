//! `jobs add`: new jobs.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use clap::{ArgGroup, Args, ValueEnum};

use super::job_args::{delay, ttr};
use crate::error::Error;
use crate::jobs::{AddedJobs, text};
use crate::operation::{Explain, Operation, Scene};
use crate::time::point as time;
use delaybridge_jobs::{Due, LocalId, MAX_BATCH, MAX_PRIORITY, NewJob, Topic, Unique, UniqueKey, UniqueUntil};

/// Add a job, or one for each line of a text.
///
/// What is left out comes from the topic's settings. With an id of your own, or a unique key, the command may be run again: the
/// job that is there stays as it is.
#[derive(Debug, Clone, Args)]
#[command(after_help = ADD)]
#[command(group(ArgGroup::new("what").required(true).args(["body", "file", "stdin"])))]
pub struct AddJobs {
    /// The topic
    #[arg(value_name = "TOPIC")]
    topic: Topic,
    /// The delay until it is ready, by Redis's clock (5s, 10m)
    #[arg(long, value_name = "DURATION", value_parser = delay, conflicts_with = "at")]
    delay: Option<Duration>,
    /// Time at which it is ready (2027-01-31T09:00:00Z, or milliseconds since 1970)
    #[arg(long, value_name = "TIME", value_parser = time)]
    at: Option<i64>,
    /// Time to run: how long a consumer may have it
    #[arg(long, value_name = "DURATION", value_parser = ttr)]
    ttr: Option<Duration>,
    /// Times that it is handed out
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    tries: Option<u32>,
    /// Time to live: it is dropped if it is not finished by then (0s is for ever)
    #[arg(long, value_name = "DURATION", value_parser = delay)]
    ttl: Option<Duration>,
    /// Priority, 0 to 9: of the ready jobs, one with a higher priority is handed out first
    #[arg(long, value_name = "NUMBER", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=MAX_PRIORITY.into()))]
    priority: u8,
    /// An id of your own: letters, digits, `_`, `.`, `:`, `~`, `-`
    #[arg(long, value_name = "ID", conflicts_with = "lines")]
    id: Option<LocalId>,
    /// A key of your own: while another job of the topic holds it, this one is not added
    #[arg(long, value_name = "KEY", requires = "unique_for", conflicts_with = "lines")]
    unique: Option<UniqueKey>,
    /// The time for which it holds the key
    #[arg(long, value_name = "DURATION", value_parser = delay, requires = "unique")]
    unique_for: Option<Duration>,
    /// The end of the key, if it comes before the end of that time
    #[arg(long, value_enum, value_name = "END", default_value_t = UniqueUntilArg::Finished, requires = "unique")]
    unique_until: UniqueUntilArg,
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
    /// Add a job for each line of the file or of standard input
    #[arg(long, conflicts_with = "body")]
    lines: bool,
}

/// The end of a unique key as an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum UniqueUntilArg {
    /// The job is gone: finished, deleted, purged, or past its time to live.
    Finished,
    /// The key is held for all of its time.
    Expired,
}

const ADD: &str = "\
Examples:
  delaybridge jobs add orders --delay 30m --body '{\"orderId\":4711}'
  delaybridge jobs add orders --id 4711 --at 2027-01-31T09:00:00Z --file order.json
  delaybridge jobs add mails --unique 'welcome ada' --unique-for 1h --body Welcome
  delaybridge jobs add mails --priority 9 --body 'Reset your password'
  seq 1000 | delaybridge jobs add numbers --lines -

Exit codes: 0 added or there already, 1 failed or unknown, 2 wrong arguments or a body that is too large";

impl AddJobs {
    /// Returns the unique key, if there is one.
    fn unique(&self) -> Option<Unique> {
        let until = match self.unique_until {
            UniqueUntilArg::Finished => UniqueUntil::Finished,
            UniqueUntilArg::Expired => UniqueUntil::Expired,
        };
        Some(Unique { key: self.unique.clone()?, lasts: self.unique_for?, until })
    }
}

impl Operation for AddJobs {
    type Answer = AddedJobs;

    const NAME: &'static str = "jobs add";

    async fn run(&self, scene: &Scene) -> Result<AddedJobs, Error> {
        let due = self.delay.map(Due::After).or(self.at.map(Due::At)).unwrap_or(Due::After(Duration::ZERO));
        let bodies = match &self.body {
            Some(body) => vec![Bytes::from(body.clone())],
            None => {
                let all = scene.input("body", self.file.as_deref())?;
                if self.lines {
                    // Of a text that ends with a line break nothing is behind it.
                    let end = if all.ends_with(b"\n") { all.len() - 1 } else { all.len() };
                    let lines = all[..end].split(|byte| *byte == b'\n');
                    lines.map(|line| all.slice_ref(line)).collect()
                } else {
                    vec![all]
                }
            }
        };
        let job = |body: Bytes| NewJob {
            id: self.id.clone(),
            due,
            ttr: self.ttr,
            tries: self.tries,
            ttl: self.ttl,
            priority: self.priority,
            content_type: self.content_type.clone(),
            unique: self.unique(),
            ..NewJob::new(body)
        };
        let jobs = scene.jobs().await?;
        let mut added = AddedJobs { jobs: Vec::new() };
        for some in bodies.chunks(MAX_BATCH) {
            let batch = jobs.add(&self.topic, some.iter().cloned().map(job).collect()).await;
            let batch = batch.map_err(|error| match added.jobs.len() {
                0 => error,
                n => Error { message: format!("{} ({n} jobs were added before)", error.message), ..error },
            })?;
            added.jobs.extend(batch.jobs);
        }
        Ok(added)
    }

    fn text(&self, found: &AddedJobs, _: Explain) -> String {
        text::added(found)
    }

    fn missed(added: &AddedJobs) -> Option<String> {
        added.conflicts()
    }
}
