//! `dead`: what could not be delivered.

mod export;
mod import;

use std::io::Write;

use clap::Subcommand;

use super::failed::Failed;
use super::global::Global;
use super::remote::subcommands_of;
use delaybridge_ops::operations;

/// Show, count, redrive, remove, export or import dead letters.
///
/// A dead letter has the element's original bytes and the reason. It stays in the stream until a command removes it. The same
/// filters choose letters for each of these commands.
///
/// in flight -> dead -> redrive: retry, due now | purge: gone
#[derive(Debug, Subcommand)]
#[command(after_help = AFTER)]
pub enum DeadCommand {
    #[command(flatten)]
    Operation(DeadOperation),
    Export(export::ExportArgs),
    Import(import::ImportArgs),
}

/// The commands of operations on dead letters.
macro_rules! commands_of {
    (commands: $_:tt dead: [$($dead:ident),*] $($_rest:tt)*) => {
        subcommands_of!(DeadOperation: $($dead)*);
    };
}
operations!(commands_of);

const AFTER: &str = "\
Examples:
  delaybridge dead ls order_timeout
  delaybridge dead ls order_timeout --reason max_attempts --newer-than 2h
  delaybridge dead show order_timeout 1795251632252-0
  delaybridge dead redrive order_timeout --sink events --dry-run
  delaybridge dead redrive order_timeout --all";

pub(super) async fn run(global: &Global, command: DeadCommand, out: &mut (dyn Write + Send)) -> Result<u8, Failed> {
    match command {
        DeadCommand::Operation(command) => return command.run(global, out).await,
        DeadCommand::Export(args) => export::run(global, &args, out).await?,
        DeadCommand::Import(args) => import::run(global, &args, out).await?,
    }
    Ok(0)
}
