//! `jobs`: the job queue from a terminal or a shell script.

use std::io::Write;

use clap::Subcommand;

use super::failed::Failed;
use super::global::Global;
use super::remote::subcommands_of;
use delaybridge_ops::operations;

macro_rules! commands_of {
    (
        commands: $_commands:tt dead: $_dead:tt jobs: [$($job:ident),*] parts: $_parts:tt;
        commands: $_local:tt jobs: [$($local:ident),*] jobs_dead: [$($dead:ident),*] jobs_recurring: [$($recurring:ident),*]
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

pub(super) async fn run(global: &Global, command: JobsCommand, out: &mut (dyn Write + Send)) -> Result<u8, Failed> {
    match command {
        JobsCommand::Operation(command) => command.run(global, out).await,
        JobsCommand::Dead(command) => command.run(global, out).await,
        JobsCommand::Recurring(command) => command.run(global, out).await,
    }
}
