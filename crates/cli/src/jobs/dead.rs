//! `jobs dead`: jobs whose tries are used up, or that were buried.

use std::io::Write;

use clap::{Args, Subcommand};
use serde::Serialize;

use super::args::OfTopic;
use super::open::{confirmed, open};
use crate::answer::answer;
use crate::failed::Failed;
use crate::global::Global;
use delaybridge_jobs::{JobId, JobState, LocalId, Topic};
use delaybridge_ops::jobs::text;
use delaybridge_ops::plural;

/// Show, redrive or remove dead jobs.
///
/// A dead job has its body and the reason. It stays until a command removes it, or until `dead_max_len` or `dead_ttl` do.
///
/// reserved -> dead -> redrive: ready | purge: gone
#[derive(Debug, Subcommand)]
#[command(after_help = AFTER)]
pub enum DeadJobsCommand {
    /// List the dead jobs of a topic, the oldest first
    #[command(after_help = LS)]
    Ls(LsDeadJobsArgs),
    /// Make dead jobs ready again, with all of their tries
    #[command(after_help = REDRIVE)]
    Redrive(DeadJobsArgs),
    /// Remove dead jobs permanently
    ///
    /// They are lost: no other copy exists. --yes is required with --all, and without a terminal.
    #[command(after_help = PURGE)]
    Purge(PurgeJobsArgs),
}

const AFTER: &str = "\
Examples:
  delaybridge jobs dead ls orders
  delaybridge jobs dead redrive orders --all";
const LS: &str = "\
Example:
  delaybridge jobs dead ls orders --limit 100 --output json";
const REDRIVE: &str = "\
Examples:
  delaybridge jobs dead redrive orders orders~4711
  delaybridge jobs dead redrive orders --all";
const PURGE: &str = "\
Examples:
  delaybridge jobs dead purge orders orders~4711
  delaybridge jobs dead purge orders --all --yes";

/// The dead jobs that are listed.
#[derive(Debug, Args)]
pub struct LsDeadJobsArgs {
    /// The topic.
    #[command(flatten)]
    pub of: OfTopic,
    /// Maximum number of jobs
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    pub limit: usize,
}

/// The dead jobs that are meant.
#[derive(Debug, Args)]
#[group(skip)]
pub struct DeadJobsArgs {
    /// The topic.
    #[command(flatten)]
    pub of: OfTopic,
    /// Ids of jobs: TOPIC~ID
    #[arg(value_name = "ID", required_unless_present = "all", conflicts_with = "all")]
    pub ids: Vec<JobId>,
    /// All that are dead now
    #[arg(long)]
    pub all: bool,
}

/// The dead jobs that are removed.
#[derive(Debug, Args)]
pub struct PurgeJobsArgs {
    /// The jobs.
    #[command(flatten)]
    pub which: DeadJobsArgs,
    /// Yes, remove them
    #[arg(long)]
    pub yes: bool,
}

#[derive(Serialize)]
struct SweptJobs {
    topic: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    redriven: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    purged: Option<u64>,
}

impl DeadJobsArgs {
    fn locals(&self, topic: &Topic) -> Result<Vec<LocalId>, Failed> {
        let local = |id: &JobId| match id.topic == *topic {
            true => Ok(id.local.clone()),
            false => Err(Failed::usage(format!("job {id} is not of topic {topic}"))),
        };
        self.ids.iter().map(local).collect()
    }
}

pub(super) async fn run(global: &Global, command: &DeadJobsCommand, out: &mut dyn Write) -> Result<(), Failed> {
    let (which, purge) = match command {
        DeadJobsCommand::Ls(args) => {
            let found = open(global).await?.peek(&args.of.topic, JobState::Dead, args.limit).await?;
            return answer(global, out, &found, text::list);
        }
        DeadJobsCommand::Redrive(which) => (which, false),
        DeadJobsCommand::Purge(args) => {
            if !confirmed(args.yes, args.which.all) {
                return Err(Failed::usage(format!(
                    "purge dead jobs of topic {}: nothing was removed; the removal is permanent: confirm it with --yes",
                    args.which.of.topic
                )));
            }
            (&args.which, true)
        }
    };
    let topic = &which.of.topic;
    let ids = which.locals(topic)?;
    let done = open(global).await?.sweep(topic, &ids, purge).await?;
    let verb = if purge { "removed" } else { "redriven" };
    let swept =
        SweptJobs { topic: topic.to_string(), redriven: (!purge).then_some(done), purged: purge.then_some(done) };
    let count = plural::count(done, "dead job");
    answer(global, out, &swept, |swept| format!("{count} of {} {verb}\n", swept.topic))?;
    match ids.len() as u64 {
        asked if asked > done => {
            Err(Failed::runtime(format!("{} of them are not dead in topic {topic}", asked - done)))
        }
        _ => Ok(()),
    }
}
