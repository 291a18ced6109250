//! `jobs`: the job queue from a terminal or a shell script.

use std::io::Write;

use clap::{ArgGroup, Args, Subcommand};

use super::answer::answer;
use super::failed::Failed;
use super::global::Global;
use super::load::{load_queues, on_queue};
use super::progress::ProgressLine;
use super::remote::subcommands_of;
use delaybridge_jobs::Topic;
use delaybridge_ops::jobs::{ExportTarget, Jobs, export, import, text};
use delaybridge_ops::operations;

macro_rules! commands_of {
    (
        commands: $_commands:tt dead: $_dead:tt jobs: [$($job:ident),*] parts: $_parts:tt;
        jobs: [$($local:ident),*] jobs_dead: [$($dead:ident),*] jobs_recurring: [$($recurring:ident),*]
    ) => {
        subcommands_of!(JobsOperation: $($job)*; $($local)*);
        subcommands_of!(DeadJobsOperation: ; $($dead)*);
        subcommands_of!(RecurringOperation: ; $($recurring)*);
    };
}
operations!(commands_of);

/// Use the job queue: add, take and settle jobs.
///
/// Works on Redis, beside any daemons; `topics`, `peek`, `pause` and `resume` may ask one. The configuration needs a section `jobs`. A job that was taken comes back when its
/// time to run is over, up to its tries; then it is dead.
///
/// add -> delay -> ready -> pop: reserved -> finish: gone | release: ready | bury: dead
#[derive(Debug, Subcommand)]
#[command(after_help = AFTER)]
pub enum JobsCommand {
    #[command(flatten)]
    Operation(JobsOperation),
    /// Show, redrive or remove dead jobs
    ///
    /// A dead job has its body and the reason. It stays until a command removes it, or until `dead_max_len` or `dead_ttl` do.
    ///
    /// reserved -> dead -> redrive: ready | purge: gone
    #[command(subcommand, arg_required_else_help = true, after_help = DEAD)]
    Dead(DeadJobsOperation),
    /// Add a job again and again, at the times of a cron expression
    ///
    /// The daemons add the jobs, each firing once however many daemons run. The id of such a job is the name and the time of the
    /// firing: `nightly:2027-01-31T03:00:00Z`.
    #[command(subcommand, arg_required_else_help = true, after_help = RECURRING)]
    Recurring(RecurringOperation),
    Import(ImportJobsArgs),
    Export(ExportJobsArgs),
}

const AFTER: &str = "\
Examples:
  delaybridge jobs add orders --delay 30m --body '{\"orderId\":4711}'
  delaybridge jobs pop orders --wait 1m --output json
  delaybridge jobs finish orders~01M3P0N3V8ZJ4Q0V4T3GJ2M5A7 --token mJ0c3Zk1yQ8T_x2a";
const DEAD: &str = "\
Examples:
  delaybridge jobs dead ls orders
  delaybridge jobs dead redrive orders --all";
const RECURRING: &str = "\
Examples:
  delaybridge jobs recurring set reports nightly --cron '0 3 * * *' --zone Europe/Berlin --body '{\"report\":\"sales\"}'
  delaybridge jobs recurring ls reports";

/// Move what waits in a queue to a topic.
///
/// Scheduled elements and those that wait for a retry become jobs with the same due time and payload. Each is copied first
/// and removed then. After an interruption run it again: nothing is copied twice. Elements in flight and on a ready list
/// stay where they are. No daemon may deliver from the queue meanwhile. A job whose id another job of the topic has stays too. Jobs of a
/// pool are claimed for a minute while they are copied, so after an interruption wait for a minute.
///
/// scheduled | retry -> job: delay | ready
#[derive(Debug, Args)]
#[command(after_help = IMPORT)]
pub struct ImportJobsArgs {
    /// The queue's id in the configuration
    #[arg(value_name = "QUEUE")]
    pub queue: String,
    /// The topic
    #[arg(value_name = "TOPIC")]
    pub topic: Topic,
    /// Report what would be moved, and change nothing
    #[arg(long)]
    pub dry_run: bool,
}

const IMPORT: &str = "\
Examples:
  delaybridge jobs import order_timeout orders --dry-run
  delaybridge jobs import order_timeout orders";

/// Move the jobs of a topic that wait to a plain sorted set, or to a job pool.
///
/// Each is copied first and removed then. After an interruption run it again. The topic must be paused. In a sorted set a body
/// becomes a member, its due time the score. Equal members collapse there, so a job whose body is there already stays a job. In
/// a pool a job becomes what the program of the preset would have written, with the same id. One whose id another job of
/// the pool has stays too.
///
/// job: delay | ready -> member | job of the pool
#[derive(Debug, Args)]
#[command(after_help = EXPORT)]
#[command(group(ArgGroup::new("where").required(true).args(["key", "queue"])))]
pub struct ExportJobsArgs {
    /// The topic
    #[arg(value_name = "TOPIC")]
    pub topic: Topic,
    /// The key of the sorted set
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// A queue of the configuration with a source `zset` or `job_pool`: the place that it delivers from
    #[arg(long, value_name = "QUEUE")]
    pub queue: Option<String>,
    /// With --key: scores are whole seconds; else milliseconds
    #[arg(long, conflicts_with = "queue")]
    pub seconds: bool,
    /// Report what would be moved, and change nothing
    #[arg(long)]
    pub dry_run: bool,
}

const EXPORT: &str = "\
Examples:
  delaybridge jobs pause orders
  delaybridge jobs export orders --key queues:default:delayed --seconds
  delaybridge jobs export orders --queue order_pool --dry-run";

pub(super) async fn run(global: &Global, command: JobsCommand, out: &mut (dyn Write + Send)) -> Result<u8, Failed> {
    match command {
        JobsCommand::Operation(command) => return command.run(global, out).await,
        JobsCommand::Dead(command) => return command.run(global, out).await,
        JobsCommand::Recurring(command) => return command.run(global, out).await,
        JobsCommand::Import(ImportJobsArgs { queue, topic, dry_run }) => {
            let (session, queue) = on_queue(global, &queue).await?;
            let jobs = Jobs::open(&session.config).await?;
            let done = import(&queue, &jobs, &topic, dry_run, &mut ProgressLine::start("jobs import")).await?;
            answer(global, out, &done, text::imported)?;
        }
        JobsCommand::Export(ExportJobsArgs { topic, key, queue, seconds, dry_run }) => {
            let jobs = Jobs::open(&load_queues(global)?).await?;
            let held;
            let target = match (&key, queue) {
                (Some(key), _) => ExportTarget::set(key, seconds),
                (None, queue) => {
                    held = on_queue(global, queue.as_deref().unwrap_or_default()).await?;
                    ExportTarget::of(&held.1)?
                }
            };
            let done = export(&jobs, &topic, &target, dry_run, &mut ProgressLine::start("jobs export")).await?;
            answer(global, out, &done, text::exported)?;
        }
    }
    Ok(0)
}
