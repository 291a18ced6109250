//! `jobs limits`, `jobs empty` and `jobs destroy`: a topic as a whole.

use std::time::Duration;

use clap::Args;
use serde::Serialize;

use super::job_args::{confirmed, delay, on_jobs, ttr};
use crate::error::Error;
use crate::jobs::{TopicLimits, failed, text};
use crate::operation::{Explain, Operation, Scene};
use crate::plural;
use delaybridge_jobs::{Limits, Topic};

/// Show the limits of a topic, or set them.
///
/// Limits that are set replace those that were set before, and hold for all daemons at once. What is left out is as in the
/// configuration.
#[derive(Debug, Clone, Args)]
#[command(after_help = LIMITS)]
pub struct SetLimits {
    /// The topic
    #[arg(value_name = "TOPIC")]
    topic: Topic,
    /// Time to run of jobs that have none of their own
    #[arg(long, value_name = "DURATION", value_parser = ttr)]
    ttr: Option<Duration>,
    /// Times that jobs are handed out that do not say
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    tries: Option<u32>,
    /// Time to live of jobs that have none of their own (0s is for ever)
    #[arg(long, value_name = "DURATION", value_parser = delay)]
    ttl: Option<Duration>,
    /// Maximum number of jobs that are not dead (0 is no limit)
    #[arg(long, value_name = "COUNT")]
    max_jobs: Option<u64>,
    /// Maximum size of a body, in bytes
    #[arg(long, value_name = "BYTES")]
    max_body: Option<u64>,
    /// Maximum number of dead jobs (0 is no limit)
    #[arg(long, value_name = "COUNT")]
    dead_max_len: Option<u64>,
    /// Time that a dead job is kept (0s is for ever)
    #[arg(long, value_name = "DURATION", value_parser = delay)]
    dead_ttl: Option<Duration>,
    /// Wait after a first attempt that ran out, or was released without a delay; it doubles with each further one
    #[arg(long, value_name = "DURATION", value_parser = delay)]
    backoff: Option<Duration>,
    /// The longest such wait
    #[arg(long, value_name = "DURATION", value_parser = delay)]
    backoff_max: Option<Duration>,
    /// Set nothing: all limits are as in the configuration again
    #[arg(long, conflicts_with_all = ["ttr", "tries", "ttl", "max_jobs", "max_body", "dead_max_len", "dead_ttl", "backoff", "backoff_max"])]
    reset: bool,
}

impl SetLimits {
    /// Returns the limits to set; `None` only shows them.
    fn limits(&self) -> Option<Limits> {
        let time = |time: Duration| Some(time).filter(|time| !time.is_zero());
        let count = |count: u64| Some(count).filter(|count| *count > 0);
        let limits = Limits {
            ttr: self.ttr,
            tries: self.tries,
            ttl: self.ttl.map(time),
            max_jobs: self.max_jobs.map(count),
            max_body: self.max_body,
            dead_max_len: self.dead_max_len.map(count),
            dead_ttl: self.dead_ttl.map(time),
            backoff: self.backoff,
            backoff_max: self.backoff_max,
        };
        (self.reset || limits != Limits::default()).then_some(limits)
    }
}

const LIMITS: &str = "\
Examples:
  delaybridge jobs limits orders
  delaybridge jobs limits orders --max-jobs 100000 --dead-ttl 7d
  delaybridge jobs limits orders --backoff 5s --backoff-max 10m
  delaybridge jobs limits orders --reset";

on_jobs!(SetLimits: "jobs limits" -> TopicLimits, text::limits, |own, jobs| jobs.limits(&own.topic, own.limits()).await);

/// The jobs that were removed.
#[derive(Debug, Serialize)]
pub struct RemovedJobs {
    id: String,
    done: &'static str,
    count: u64,
}

impl RemovedJobs {
    fn line(&self) -> String {
        format!("{} {}: {} removed\n", self.id, self.done, plural::count(self.count, "job"))
    }
}

/// Remove the waiting jobs of a topic for good.
///
/// They are lost: no other copy exists. Reserved and dead jobs stay, and so do jobs that are added meanwhile. They are removed in
/// slices; after an interruption run it again.
#[derive(Debug, Clone, Args)]
#[command(after_help = EMPTY)]
pub struct EmptyTopic {
    /// The topic
    #[arg(value_name = "TOPIC")]
    topic: Topic,
    /// Yes, remove them
    #[arg(long)]
    yes: bool,
}

const EMPTY: &str = "\
Example:
  delaybridge jobs empty orders --yes";

impl Operation for EmptyTopic {
    type Answer = RemovedJobs;

    const NAME: &'static str = "jobs empty";

    fn confirm(&self, _: bool) -> Result<(), Error> {
        confirmed(&format!("empty topic {}", self.topic), "its jobs would be lost", self.yes)
    }

    async fn run(&self, scene: &Scene) -> Result<RemovedJobs, Error> {
        let done = scene.jobs().await?.queue.empty(&self.topic, u64::MAX).await.map(|emptied| emptied.removed);
        let count = done.map_err(|error| failed(&format!("empty topic {}", self.topic), &error))?;
        Ok(RemovedJobs { id: self.topic.to_string(), done: "emptied", count })
    }

    fn text(&self, removed: &RemovedJobs, _: Explain) -> String {
        removed.line()
    }
}

/// Remove a topic with all of its jobs.
///
/// They are lost: no other copy exists. Remembered ids, unique keys, recurring jobs, limits and a pause are removed too. While jobs are reserved or being
/// delivered by a queue, nothing is removed, unless it is forced.
#[derive(Debug, Clone, Args)]
#[command(after_help = DESTROY)]
pub struct DestroyTopic {
    /// The topic
    #[arg(value_name = "TOPIC")]
    topic: Topic,
    /// Yes, remove them
    #[arg(long)]
    yes: bool,
    /// Also while jobs are reserved or being delivered
    #[arg(long)]
    force: bool,
}

const DESTROY: &str = "\
Examples:
  delaybridge jobs destroy orders --yes
  delaybridge jobs destroy orders --yes --force";

impl Operation for DestroyTopic {
    type Answer = RemovedJobs;

    const NAME: &'static str = "jobs destroy";

    fn confirm(&self, _: bool) -> Result<(), Error> {
        confirmed(&format!("destroy topic {}", self.topic), "its jobs would be lost", self.yes)
    }

    async fn run(&self, scene: &Scene) -> Result<RemovedJobs, Error> {
        let done = scene.jobs().await?.queue.destroy(&self.topic, self.force).await;
        let count = done.map_err(|error| failed(&format!("destroy topic {}", self.topic), &error))?;
        Ok(RemovedJobs { id: self.topic.to_string(), done: "destroyed", count })
    }

    fn text(&self, removed: &RemovedJobs, _: Explain) -> String {
        removed.line()
    }
}
