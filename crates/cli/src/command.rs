//! The list of the commands: their arguments, and what carries each of them out.

use std::io::Write;

use clap::{CommandFactory, Parser, Subcommand};
use delaybridge_conformance::ConformanceArgs;

use super::failed::Failed;
use super::global::Global;
use super::remote::subcommands_of;
use super::{
    bench, check, completions, config, conformance, dead, decode, discover, forecast, fsck, interrupt, jobs, man,
    migrate, peek, queues, reload, restore, run, schema, test, top,
};
use delaybridge_ops::operations;

/// Delivers the due elements of Redisson delayed queues, and loses none.
///
/// No element leaves Redis before every sink has confirmed it. Producers keep their Java code.
///
/// Redis: claim -> decode -> route -> deliver -> confirmed: gone | retry | dead letter
#[derive(Debug, Parser)]
#[command(name = "delaybridge", version, arg_required_else_help = true, after_long_help = AFTER)]
pub struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub global: Global,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

const AFTER: &str = "\
Examples:
  delaybridge check --live --config delaybridge.yaml     checks everything, changes nothing
  delaybridge run --config delaybridge.yaml              delivers until SIGTERM
  delaybridge offer order_timeout --delay 5s --payload '{\"orderId\":1}'
  delaybridge queues                                     pending, late and dead elements

With --output json a result is one object; lists have names (queues, elements, dead_letters, users,
errors), and times are milliseconds in fields that end in _ms.

Exit codes:
  0  done
  1  runtime error; the message says what was attempted and what to do
  2  wrong arguments or configuration
  3  stopped, but some elements in flight could be neither settled nor released in time
  75 a file that the configuration names, such as a secret, was not there within 30 s of the start
  130  ended early by Ctrl-C, or 143 by SIGTERM; what was done until then is done, and is printed";

/// A command.
#[derive(Debug, Subcommand)]
#[expect(missing_docs, reason = "--help takes what a command does from its arguments")]
pub enum Command {
    Run(run::RunArgs),
    Check(check::CheckArgs),
    Test(test::TestArgs),
    Reload(reload::ReloadArgs),
    #[command(subcommand, arg_required_else_help = true)]
    Config(config::ConfigCommand),
    Queues(queues::QueuesArgs),
    Top(top::TopArgs),
    #[command(flatten)]
    Operation(OperationCommand),
    Peek(peek::PeekArgs),
    Forecast(forecast::ForecastArgs),
    #[command(subcommand, arg_required_else_help = true)]
    Dead(dead::DeadCommand),
    #[command(subcommand, arg_required_else_help = true)]
    Jobs(jobs::JobsCommand),
    Decode(decode::DecodeArgs),
    Migrate(migrate::MigrateArgs),
    Fsck(fsck::FsckArgs),
    Restore(restore::RestoreArgs),
    Discover(discover::DiscoverArgs),
    Bench(bench::BenchArgs),
    Conformance(ConformanceArgs),
    Schema(schema::SchemaArgs),
    Completions(completions::CompletionsArgs),
    #[command(hide = true)]
    Man(man::ManArgs),
}

/// The commands of operations.
macro_rules! commands_of {
    (
        commands: [$($command:ident),*] dead: $_dead:tt jobs: $_jobs:tt parts: $_parts:tt;
        commands: [$($local:ident),*] $($_:tt)*
    ) => {
        subcommands_of!(OperationCommand: $($command)*; $($local)*);
    };
}
operations!(commands_of);

/// Carries out any command but `run`, and answers the exit code: after a signal that of the signal, also if a part of the work was done.
///
/// # Errors
///
/// [`Failed`], with the exit code and the words for standard error.
pub async fn execute(global: &Global, command: Command, out: &mut (dyn Write + Send)) -> Result<u8, Failed> {
    let ended = carry_out(global, command, out).await;
    match (ended, interrupt::exit_code()) {
        (ended, None) => ended,
        (Ok(_), Some(code)) => Ok(code),
        (Err(failed), Some(code)) => Err(Failed { code, ..failed }),
    }
}

async fn carry_out(global: &Global, command: Command, out: &mut (dyn Write + Send)) -> Result<u8, Failed> {
    let code = match command {
        Command::Check(args) => check::run(global, &args, out).await,
        Command::Test(args) => test::run(global, &args, out).await,
        Command::Reload(args) => reload::run(global, &args, out).await,
        Command::Config(command) => config::run(global, &command, out).await,
        Command::Queues(args) => queues::run(global, &args, out).await,
        Command::Top(args) => top::run(global, &args).await,
        Command::Operation(command) => command.run(global, out).await,
        Command::Peek(args) => peek::run(global, &args, out).await,
        Command::Forecast(args) => forecast::run(global, &args, out).await,
        Command::Dead(command) => dead::run(global, command, out).await,
        Command::Jobs(command) => jobs::run(global, command, out).await,
        Command::Decode(args) => decode::run(global, &args, out).await,
        Command::Migrate(args) => migrate::run(global, &args, out).await,
        Command::Fsck(args) => fsck::run(global, &args, out).await,
        Command::Discover(args) => discover::run(global, &args, out).await,
        Command::Restore(args) => restore::run(global, &args, out).await,
        Command::Bench(args) => bench::run(global, &args, out).await,
        Command::Conformance(_) => Err(conformance::run()),
        Command::Schema(_) => schema::schema(out).map(|()| 0).map_err(Failed::from),
        Command::Completions(args) => completions::run(&args, &Cli::command(), out).map(|()| 0).map_err(Failed::from),
        Command::Man(args) => man::run(&args, Cli::command()).map(|()| 0),
        Command::Run(_) => Err(Failed::runtime("run: it is started by the program itself, not from here")),
    }?;
    out.flush()?;
    Ok(code)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::global::Output;

    #[test]
    fn the_arguments_do_not_contradict_each_other() {
        Cli::command().debug_assert();
    }

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(std::iter::once("delaybridge").chain(line.split_whitespace()))
    }

    #[test]
    fn global_options_are_accepted_before_and_after_the_command() {
        for line in ["--config a.yaml --output json queues", "queues --config a.yaml --output json"] {
            let cli = parse(line).unwrap();
            assert_eq!((cli.global.config, cli.global.output), (PathBuf::from("a.yaml"), Output::Json), "{line}");
        }
    }

    #[test]
    fn wrong_arguments_end_with_2() {
        for line in [
            "",
            "dead",
            "unheard-of",
            "test",
            "test --junit a.xml",
            "offer",
            "offer q",
            "offer q --delay 5s",
            "offer q --delay soon --payload x",
            "offer q --delay 5s --payload x --file y",
            "offer q --delay 5s x",
            "offer q --delay 5s --payload x -",
            "peek",
            "peek q --state gone",
            "cancel q",
            "pause --why x",
            "audit q --limit 0",
            "pause q --sink s --why x",
            "pause q --why x --for soon",
            "pause q --why x --for 1h --until 1801386000000",
            "resume",
            "dead redrive q 1-0 --all",
            "jobs",
            "jobs add orders",
            "jobs add or{ders --body x",
            "jobs add orders --body x --delay 5s --at 1",
            "jobs add orders --lines --id 1 -",
            "jobs pop",
            "jobs pop orders --count 101",
            "jobs finish orders~1",
            "jobs finish 1 --token 0123456789abcdef",
            "jobs finish orders~1 --token short",
            "jobs dead purge orders",
            "jobs peek orders --state gone",
            "decode",
            "decode --hex 0",
            "decode --hex 00 -",
            "decode --hex 00 --codec gzip",
            "decode --hex 00 --id 52414e444f4d3842",
            "recover",
            "restore",
            "restore q --layout newest",
            "migrate q",
            "migrate --to new",
            "bench --depth 0",
            "bench --name orders",
            "bench --payload-bytes 99999999",
            "conformance",
            "conformance --timeout soon -- x",
            "conformance --only Z99 -- x",
            "conformance x",
            "acl --for all",
            "acl --redis 5",
            "run-now q",
            "find q",
            "why q",
            "forecast q --until soon",
            "forecast q --step 0s",
            "forecast q --rate fast",
            "forecast q p",
            "find q --field orderId",
            "find q --field a=b --limit none",
            "reschedule q 0123456789abcdef",
            "reschedule q 0123456789abcdef --in 5m --at 1801386000000",
            "reschedule q 0123456789abcdef --in soon",
            "kill q",
            "fsck q --orphans drop",
            "fsck q p",
            "config",
            "reload --wait soon",
            "reload --pid x",
        ] {
            let error = parse(line).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{line}: {error}");
        }
    }

    #[test]
    fn every_command_says_what_it_is_for_and_shows_an_example() {
        fn walk(command: &clap::Command, path: &str, seen: &mut Vec<String>) {
            for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
                let path = format!("{path} {}", sub.get_name());
                let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
                assert!(!about.is_empty() && !seen.contains(&about), "{path}: {about}");
                seen.push(about);
                let after = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(after.contains("Example") && after.contains(path.trim()), "{path}: {after}");
                walk(sub, &path, seen);
            }
        }
        walk(&Cli::command(), "delaybridge", &mut Vec::new());
    }
}
