//! `jobs import`: what waits in a queue becomes jobs.

use clap::Args;

use crate::error::Error;
use crate::jobs::{ImportedElements, import};
use crate::operation::{Explain, Operation, Scene};
use crate::plural;
use delaybridge_jobs::Topic;

/// Move what waits in a queue to a topic.
///
/// Scheduled elements and those that wait for a retry become jobs with the same due time and payload. Each is copied first
/// and removed then. After an interruption run it again: nothing is copied twice. Elements in flight and on a ready list
/// stay where they are. No daemon may deliver from the queue meanwhile. A job whose id another job of the topic has stays too. Jobs of a
/// pool are claimed for a minute while they are copied, so after an interruption wait for a minute.
///
/// scheduled | retry -> job: delay | ready
#[derive(Debug, Clone, Args)]
#[command(after_help = IMPORT)]
pub struct ImportJobs {
    /// The queue's id in the configuration
    #[arg(value_name = "QUEUE")]
    queue: String,
    /// The topic
    #[arg(value_name = "TOPIC")]
    topic: Topic,
    /// Report what would be moved, and change nothing
    #[arg(long)]
    dry_run: bool,
}

const IMPORT: &str = "\
Examples:
  delaybridge jobs import order_timeout orders --dry-run
  delaybridge jobs import order_timeout orders";

impl Operation for ImportJobs {
    type Answer = ImportedElements;

    const NAME: &'static str = "jobs import";
    const LONG: bool = true;

    fn queue(&self) -> Option<&str> {
        Some(&self.queue)
    }

    async fn run(&self, mut scene: &Scene) -> Result<ImportedElements, Error> {
        let queue = scene.queue(&self.queue).await?;
        import(&queue, &scene.jobs().await?, &self.topic, self.dry_run, &mut scene).await
    }

    fn text(&self, done: &ImportedElements, _: Explain) -> String {
        let verb = if done.dry_run { "would be moved" } else { "moved" };
        let elements = plural::count(done.moved, "element");
        let mut text = format!("{elements} of {} {verb} to topic {}\n", done.queue, done.topic);
        for (count, what) in [
            (done.copied_before, "had been copied by an earlier run"),
            (done.taken, "were taken by another client meanwhile, and are no jobs"),
            (done.deleted, "had no job: their users have deleted it"),
            (done.left, "cannot be read, are too large, or have the id of another job in the topic; they stay"),
            (done.elsewhere, "are in flight or on a ready list; they stay"),
        ] {
            if count > 0 {
                text.push_str(&format!("{count} {what}\n"));
            }
        }
        text
    }
}
