//! `jobs dead`: jobs whose tries are used up, or that were buried.

use clap::Args;
use serde::Serialize;

use super::job_args::{OfTopic, confirmed, on_jobs};
use crate::error::Error;
use crate::jobs::{FoundJobs, text};
use crate::operation::{Explain, Operation, Scene};
use crate::plural;
use delaybridge_jobs::{JobId, JobState, LocalId};

/// List the dead jobs of a topic, the oldest first.
#[derive(Debug, Clone, Args)]
#[command(after_help = LS)]
pub struct ListDeadJobs {
    /// The topic.
    #[command(flatten)]
    of: OfTopic,
    /// Maximum number of jobs
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    limit: usize,
}

const LS: &str = "\
Example:
  delaybridge jobs dead ls orders --limit 100 --output json";

on_jobs!(ListDeadJobs: "jobs dead ls" -> FoundJobs, text::list, |own, jobs| jobs.peek(&own.of.topic, JobState::Dead, own.limit).await);

/// The dead jobs that are meant.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct DeadJobs {
    /// The topic.
    #[command(flatten)]
    of: OfTopic,
    /// Ids of jobs: TOPIC~ID
    #[arg(value_name = "ID", required_unless_present = "all", conflicts_with = "all")]
    ids: Vec<JobId>,
    /// All that are dead now
    #[arg(long)]
    all: bool,
}

/// Make dead jobs ready again, with all of their tries.
#[derive(Debug, Clone, Args)]
#[command(after_help = REDRIVE)]
pub struct RedriveJobs {
    /// The jobs.
    #[command(flatten)]
    which: DeadJobs,
}

/// Remove dead jobs permanently.
///
/// They are lost: no other copy exists. --yes is required with --all, and without a terminal.
#[derive(Debug, Clone, Args)]
#[command(after_help = PURGE)]
pub struct PurgeJobs {
    /// The jobs.
    #[command(flatten)]
    which: DeadJobs,
    /// Yes, remove them
    #[arg(long)]
    yes: bool,
}

const REDRIVE: &str = "\
Examples:
  delaybridge jobs dead redrive orders orders~4711
  delaybridge jobs dead redrive orders --all";
const PURGE: &str = "\
Examples:
  delaybridge jobs dead purge orders orders~4711
  delaybridge jobs dead purge orders --all --yes";

/// The dead jobs that were redriven or removed.
#[derive(Debug, Serialize)]
pub struct SweptJobs {
    topic: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    redriven: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    purged: Option<u64>,
    /// Jobs that were named and are not dead.
    #[serde(skip)]
    missed: u64,
}

impl DeadJobs {
    fn locals(&self) -> Result<Vec<LocalId>, Error> {
        let topic = &self.of.topic;
        let local = |id: &JobId| {
            if id.topic == *topic {
                Ok(id.local.clone())
            } else {
                Err(Error::invalid(format!("job {id} is not of topic {topic}")))
            }
        };
        self.ids.iter().map(local).collect()
    }

    async fn sweep(&self, scene: &Scene, purge: bool) -> Result<SweptJobs, Error> {
        let ids = self.locals()?;
        let done = scene.jobs().await?.sweep(&self.of.topic, &ids, purge).await?;
        let missed = (ids.len() as u64).saturating_sub(done);
        let topic = self.of.topic.to_string();
        Ok(SweptJobs { topic, redriven: (!purge).then_some(done), purged: purge.then_some(done), missed })
    }
}

/// Implements what both have in common.
macro_rules! sweeps {
    () => {
        type Answer = SweptJobs;

        fn text(&self, SweptJobs { topic, redriven, purged, .. }: &SweptJobs, _: Explain) -> String {
            let verb = if purged.is_some() { "removed" } else { "redriven" };
            let count = plural::count(redriven.or(*purged).unwrap_or_default(), "dead job");
            format!("{count} of {topic} {verb}\n")
        }

        fn missed(SweptJobs { topic, missed, .. }: &SweptJobs) -> Option<String> {
            (*missed > 0).then(|| format!("{missed} of them are not dead in topic {topic}"))
        }
    };
}

impl Operation for RedriveJobs {
    sweeps!();

    const NAME: &'static str = "jobs dead redrive";

    async fn run(&self, scene: &Scene) -> Result<SweptJobs, Error> {
        self.which.sweep(scene, false).await
    }
}

impl Operation for PurgeJobs {
    sweeps!();

    const NAME: &'static str = "jobs dead purge";

    fn confirm(&self, terminal: bool) -> Result<(), Error> {
        // A person at a terminal has named them.
        let yes = self.yes || !self.which.all && terminal;
        let what = format!("purge dead jobs of topic {}", self.which.of.topic);
        confirmed(&what, "the removal is permanent", yes)
    }

    async fn run(&self, scene: &Scene) -> Result<SweptJobs, Error> {
        self.which.sweep(scene, true).await
    }
}
