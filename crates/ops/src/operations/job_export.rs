//! `jobs export`: jobs that wait become members of a sorted set, or jobs of a pool.

use clap::{ArgGroup, Args};

use crate::error::Error;
use crate::jobs::{ExportTarget, ExportedJobs, export};
use crate::operation::{Explain, Operation, Scene};
use crate::plural;
use delaybridge_jobs::Topic;

/// Move the jobs of a topic that wait to a plain sorted set, or to a job pool.
///
/// Each is copied first and removed then. After an interruption run it again. The topic must be paused. In a sorted set a body
/// becomes a member, its due time the score. Equal members collapse there, so a job whose body is there already stays a job. In
/// a pool a job becomes what the program of the preset would have written, with the same id. One whose id another job of
/// the pool has stays too.
///
/// job: delay | ready -> member | job of the pool
#[derive(Debug, Clone, Args)]
#[command(after_help = EXPORT)]
#[command(group(ArgGroup::new("where").required(true).args(["key", "queue"])))]
pub struct ExportJobs {
    /// The topic
    #[arg(value_name = "TOPIC")]
    topic: Topic,
    /// The key of the sorted set
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// A queue of the configuration with a source `zset` or `job_pool`: the place that it delivers from
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
    /// With --key: scores are whole seconds; else milliseconds
    #[arg(long, conflicts_with = "queue")]
    seconds: bool,
    /// Report what would be moved, and change nothing
    #[arg(long)]
    dry_run: bool,
}

const EXPORT: &str = "\
Examples:
  delaybridge jobs pause orders
  delaybridge jobs export orders --key queues:default:delayed --seconds
  delaybridge jobs export orders --queue order_pool --dry-run";

impl Operation for ExportJobs {
    type Answer = ExportedJobs;

    const NAME: &'static str = "jobs export";
    const LONG: bool = true;

    fn queue(&self) -> Option<&str> {
        self.queue.as_deref()
    }

    async fn run(&self, mut scene: &Scene) -> Result<ExportedJobs, Error> {
        let jobs = scene.jobs().await?;
        let queue;
        let target = match &self.key {
            Some(key) => ExportTarget::set(key, self.seconds),
            None => {
                queue = scene.queue(self.queue.as_deref().unwrap_or_default()).await?;
                ExportTarget::of(&queue)?
            }
        };
        export(&jobs, &self.topic, &target, self.dry_run, &mut scene).await
    }

    fn text(&self, done: &ExportedJobs, _: Explain) -> String {
        let verb = if done.dry_run { "would be moved" } else { "moved" };
        let jobs = plural::count(done.moved, "job");
        let mut text = format!("{jobs} of topic {} {verb} to {}\n", done.topic, done.key);
        for (count, what) in [
            (done.left, "are there already with the same body or id, or could not be read there; they stay"),
            (done.elsewhere, "are reserved or dead; they stay"),
        ] {
            if count > 0 {
                text.push_str(&format!("{count} {what}\n"));
            }
        }
        text
    }
}
