//! The commands of `jobs`.

use clap::Subcommand;

use super::args::{
    AddArgs, BuryArgs, ExportJobsArgs, HeldJob, ImportJobsArgs, LimitsArgs, NamedJob, PopArgs, ReleaseArgs, TouchArgs,
};
use super::change::ChangeArgs;
use super::dead::DeadJobsCommand;
use super::recurring::RecurringCommand;
use super::remove::{DestroyArgs, EmptyArgs};
use crate::remote::subcommands_of;
use delaybridge_ops::operations;

macro_rules! commands_of {
    (commands: $_:tt dead: $__:tt jobs: [$($jobs:ident),*] $($_rest:tt)*) => {
        subcommands_of!(JobsOperation: $($jobs)*);
    };
}
operations!(commands_of);

/// Use the job queue: add, take and settle jobs.
///
/// Works on Redis, beside any daemons. The configuration needs a section `jobs`. A job that was taken comes back when its
/// time to run is over, up to its tries; then it is dead.
///
/// add -> delay -> ready -> pop: reserved -> finish: gone | release: ready | bury: dead
#[derive(Debug, Subcommand)]
#[command(after_help = AFTER)]
pub enum JobsCommand {
    Add(AddArgs),
    Pop(PopArgs),
    /// Finish a job: it is gone
    ///
    /// Refused when the time to run was over and the job was given back or handed to another consumer.
    #[command(after_help = FINISH)]
    Finish(HeldJob),
    Release(ReleaseArgs),
    Touch(TouchArgs),
    Bury(BuryArgs),
    Change(ChangeArgs),
    /// Remove a job for good, whatever its state
    #[command(after_help = DELETE)]
    Delete(NamedJob),
    /// Show one job
    #[command(visible_alias = "show", after_help = GET)]
    Get(NamedJob),
    #[command(flatten)]
    Operation(JobsOperation),
    #[command(subcommand, arg_required_else_help = true)]
    Dead(DeadJobsCommand),
    #[command(subcommand, arg_required_else_help = true)]
    Recurring(RecurringCommand),
    Limits(LimitsArgs),
    Empty(EmptyArgs),
    Destroy(DestroyArgs),
    Import(ImportJobsArgs),
    Export(ExportJobsArgs),
}

const AFTER: &str = "\
Examples:
  delaybridge jobs add orders --delay 30m --body '{\"orderId\":4711}'
  delaybridge jobs pop orders --wait 1m --output json
  delaybridge jobs finish orders~01M3P0N3V8ZJ4Q0V4T3GJ2M5A7 --token mJ0c3Zk1yQ8T_x2a";
const FINISH: &str = "\
Example:
  delaybridge jobs finish orders~4711 --token mJ0c3Zk1yQ8T_x2a";
const DELETE: &str = "\
Example:
  delaybridge jobs delete orders~4711";
const GET: &str = "\
Example:
  delaybridge jobs get orders~4711 --output json";
