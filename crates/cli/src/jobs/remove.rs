//! `jobs empty` and `jobs destroy`.

use std::io::Write;

use clap::Args;

use super::open::open;
use crate::answer::answer;
use crate::failed::Failed;
use crate::global::Global;
use delaybridge_jobs::Topic;
use delaybridge_ops::jobs::failed;
use delaybridge_ops::plural;

/// Remove the waiting jobs of a topic for good.
///
/// They are lost: no other copy exists. Reserved and dead jobs stay, and so do jobs that are added meanwhile. They are removed in
/// slices; after an interruption run it again.
#[derive(Debug, Args)]
#[command(after_help = EMPTY)]
pub struct EmptyArgs {
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

/// Remove a topic with all of its jobs.
///
/// They are lost: no other copy exists. Remembered ids, unique keys, recurring jobs, limits and a pause are removed too. While jobs are reserved or being
/// delivered by a queue, nothing is removed, unless it is forced.
#[derive(Debug, Args)]
#[command(after_help = DESTROY)]
pub struct DestroyArgs {
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

/// The jobs that were removed.
#[derive(serde::Serialize)]
struct RemovedJobs {
    id: String,
    done: &'static str,
    count: u64,
}

fn confirmed(what: &str, topic: &Topic, yes: bool) -> Result<(), Failed> {
    match yes {
        true => Ok(()),
        false => Err(Failed::usage(format!(
            "{what} topic {topic}: nothing was removed; its jobs would be lost: confirm it with --yes"
        ))),
    }
}

/// Removes the waiting jobs.
pub(super) async fn empty(global: &Global, args: &EmptyArgs, out: &mut dyn Write) -> Result<(), Failed> {
    confirmed("empty", &args.topic, args.yes)?;
    let count = open(global).await?.empty(&args.topic).await?;
    shown(global, &RemovedJobs { id: args.topic.to_string(), done: "emptied", count }, out)
}

/// Removes the topic.
pub(super) async fn destroy(global: &Global, args: &DestroyArgs, out: &mut dyn Write) -> Result<(), Failed> {
    confirmed("destroy", &args.topic, args.yes)?;
    let result = open(global).await?.queue.destroy(&args.topic, args.force).await;
    let count = result.map_err(|error| failed(&format!("destroy topic {}", args.topic), &error))?;
    shown(global, &RemovedJobs { id: args.topic.to_string(), done: "destroyed", count }, out)
}

fn shown(global: &Global, removed: &RemovedJobs, out: &mut dyn Write) -> Result<(), Failed> {
    answer(global, out, removed, |removed| {
        format!("{} {}: {} removed\n", removed.id, removed.done, plural::count(removed.count, "job"))
    })
}
