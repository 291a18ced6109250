//! The command line, one file a subcommand.
//!
//! A command reads its arguments, calls `operate`, and prints the result as text or JSON. Nothing here talks to Redis or
//! to a sink.

mod access;
mod acl;
mod audit;
mod bench;
mod check;
mod choice;
mod completions;
mod config;
pub mod config_tests;
mod conformance;
mod dead;
mod decode;
mod discover;
mod element;
mod endpoint;
mod errors;
mod failed;
mod find;
mod fleet;
mod forecast;
mod fsck;
mod jobs;
mod layout;
mod man;
mod migrate;
mod offer;
mod pause;
mod peek;
mod person;
mod progress;
mod queues;
mod recover;
#[cfg(test)]
mod reference;
mod reload;
mod remote;
mod restore;
mod run;
mod schema;
mod show;
mod table;
mod test;
mod top;
mod why;

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use clap::{Args, Parser, Subcommand, ValueEnum};
use serde::Serialize;

pub use errors::reference as errors_reference;
pub use failed::Failed;
pub use run::{RunArgs, log_warnings};

pub use self::access::AccessArgs;
use self::person::actor;
use delaybridge_config::Loaded;
use delaybridge_model::Config;
use delaybridge_ops::{Queue, Session};
use delaybridge_settings::problem::ConfigErrors;

/// Delivers the due elements of Redisson delayed queues, and loses none.
///
/// Claims elements in Redis at their due time and delivers them to their sinks. No element leaves Redis before every sink
/// has confirmed it. Producers keep their Java code. No JVM has to run.
///
/// Redis: claim -> decode -> route -> deliver -> confirmed: gone | retry | dead letter
#[derive(Debug, Parser)]
#[command(name = "delaybridge", version, arg_required_else_help = true, after_help = AFTER)]
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

With --output json a result is one object. Its lists have names (queues, elements, dead_letters,
users, errors), a thing has the same field name everywhere, and times are milliseconds in fields
that end in _ms.

Exit codes:
  0  done
  1  runtime error; the message says what was attempted and what to do
  2  wrong arguments or configuration
  3  stopped, but some elements in flight could be neither settled nor released in time
  75 a file that the configuration names, such as a secret, was not there within 30 s of the start";

/// The exit code where files that the configuration names are not there: EX_TEMPFAIL of sysexits.h, after which a service manager
/// starts the daemon again.
const ABSENT: u8 = 75;
/// Time for which the start waits for such files, and the time after which it looks again.
const PATIENCE: Duration = Duration::from_secs(30);
const AGAIN: Duration = Duration::from_millis(500);

/// The path of the configuration unless the command line or the environment says otherwise.
const DEFAULT_CONFIG: &str = "/etc/delaybridge/delaybridge.yaml";

/// Options of every command.
#[derive(Debug, Clone, Args)]
pub struct Global {
    /// The configuration
    #[arg(
        long,
        global = true,
        env = "DELAYBRIDGE_CONFIG",
        value_name = "FILE",
        default_value = DEFAULT_CONFIG
    )]
    pub config: PathBuf,
    /// Format of results: text, or json (one object)
    #[arg(long, global = true, value_enum, value_name = "FORMAT", default_value_t = Output::Text, hide_possible_values = true)]
    pub output: Output,
    /// The connection to Redis.
    #[command(flatten)]
    pub redis: AccessArgs,
}

/// The format of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For a person.
    Text,
    /// For a program: one JSON document.
    Json,
}

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
    Offer(offer::OfferArgs),
    Queues(queues::QueuesArgs),
    Top(top::TopArgs),
    Peek(peek::PeekArgs),
    Find(find::FindArgs),
    Why(why::WhyArgs),
    Forecast(forecast::ForecastArgs),
    RunNow(element::RunNowArgs),
    Reschedule(element::RescheduleArgs),
    Cancel(element::CancelArgs),
    Kill(element::KillArgs),
    Audit(audit::AuditArgs),
    Fleet(fleet::FleetArgs),
    Pause(pause::PauseArgs),
    Resume(pause::ResumeArgs),
    #[command(subcommand, arg_required_else_help = true)]
    Dead(dead::DeadCommand),
    #[command(subcommand, arg_required_else_help = true)]
    Jobs(jobs::JobsCommand),
    Decode(decode::DecodeArgs),
    Migrate(migrate::MigrateArgs),
    Fsck(fsck::FsckArgs),
    Recover(recover::RecoverArgs),
    Restore(restore::RestoreArgs),
    Discover(discover::DiscoverArgs),
    Bench(bench::BenchArgs),
    Conformance(conformance::ConformanceArgs),
    Acl(acl::AclArgs),
    Schema(schema::SchemaArgs),
    Completions(completions::CompletionsArgs),
    #[command(hide = true)]
    Man(man::ManArgs),
}

/// Reads the whole configuration: all of it has to be right, and every secret has to be there.
///
/// # Errors
///
/// Exit code 2, with everything that is wrong.
fn load(global: &Global) -> Result<Loaded, Failed> {
    let loaded = read(global).map_err(|errors| Failed::usage(errors.to_string()))?;
    Ok(Loaded { config: global.redis.over(loaded.config)?, ..loaded })
}

/// Reads the configuration for the daemon. Files that are not there are waited for, because a volume with secrets may be mounted late;
/// `stopped` ends the wait.
///
/// # Errors
///
/// Exit code 2, with everything that is wrong; 75 if only files are not there in the end.
pub fn load_for_run(global: &Global, mut stopped: impl FnMut() -> bool) -> Result<Loaded, Failed> {
    let mut waited = Duration::ZERO;
    loop {
        let errors = match read(global) {
            Ok(loaded) => return Ok(Loaded { config: global.redis.over(loaded.config)?, ..loaded }),
            Err(errors) => errors,
        };
        if !errors.may_pass() {
            return Err(Failed::usage(errors.to_string()));
        }
        if stopped() {
            return Err(Failed { code: 0, message: String::new() });
        }
        if waited >= PATIENCE {
            let message = format!("{errors}\nwaited {} s for what is not there", waited.as_secs());
            return Err(Failed { code: ABSENT, message });
        }
        if waited.is_zero() {
            run::log_absent(&errors.problems);
        }
        std::thread::sleep(AGAIN);
        waited += AGAIN;
    }
}

/// Reads the configuration.
///
/// # Errors
///
/// Everything that is wrong.
pub fn read(global: &Global) -> Result<Loaded, ConfigErrors> {
    delaybridge_config::load_with_clients(&global.config, &environment)
}

/// Reads the configuration for a command at its queues: it needs no secret but those that lead to Redis.
fn load_queues(global: &Global) -> Result<Config, Failed> {
    Ok(global.redis.read(&global.config)?.config)
}

fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Reads the configuration, finds the queue and connects.
async fn on_queue(global: &Global, id: &str) -> Result<(Session, Queue), Failed> {
    Ok(Session::on_queue(load_queues(global)?, id, &actor()).await?)
}

/// Prints a result: as JSON, or as the text that `text` makes of it.
fn answer<T: Serialize>(
    global: &Global,
    out: &mut dyn Write,
    result: &T,
    text: impl FnOnce(&T) -> String,
) -> Result<(), Failed> {
    match global.output {
        Output::Text => out.write_all(text(result).as_bytes())?,
        Output::Json => {
            serde_json::to_writer_pretty(&mut *out, result).map_err(io::Error::from)?;
            writeln!(out)?;
        }
    }
    Ok(())
}

/// The longest string that Redis holds; nothing larger is an element.
const LONGEST: u64 = 512 << 20;

/// Reads a file, or standard input where there is none; `what` names what is in it.
fn input(what: &str, file: Option<&Path>) -> Result<Bytes, Failed> {
    let mut bytes = Vec::new();
    let (read, from) = match file {
        Some(path) => {
            let read = std::fs::File::open(path).and_then(|file| file.take(LONGEST + 1).read_to_end(&mut bytes));
            (read, path.display().to_string())
        }
        None => (io::stdin().lock().take(LONGEST + 1).read_to_end(&mut bytes), "standard input".to_owned()),
    };
    match read {
        Ok(length) if length as u64 > LONGEST => {
            Err(Failed::usage(format!("read the {what} from {from}: more than the 512 MiB that Redis can hold")))
        }
        Ok(_) => Ok(bytes.into()),
        Err(error) => Err(Failed::usage(format!("read the {what} from {from}: {error}"))),
    }
}

/// Carries out any command but `run`, and answers the exit code.
///
/// # Errors
///
/// [`Failed`], with the exit code and the words for standard error.
pub async fn execute(global: &Global, command: Command, out: &mut (dyn Write + Send)) -> Result<u8, Failed> {
    let code = match command {
        Command::Check(args) => check::run(global, &args, out).await,
        Command::Test(args) => test::run(global, &args, out).await,
        Command::Reload(args) => reload::run(global, &args, out).await,
        Command::Config(command) => config::run(global, &command, out).await,
        Command::Offer(args) => offer::run(global, &args, out).await,
        Command::Queues(args) => queues::run(global, &args, out).await,
        Command::Top(args) => top::run(global, &args).await,
        Command::Peek(args) => peek::run(global, &args, out).await,
        Command::Find(args) => find::run(global, &args, out).await,
        Command::Why(args) => why::run(global, &args, out).await,
        Command::Forecast(args) => forecast::run(global, &args, out).await,
        Command::RunNow(args) => element::run_now(global, &args, out).await,
        Command::Reschedule(args) => element::reschedule(global, &args, out).await,
        Command::Cancel(args) => element::cancel(global, &args, out).await,
        Command::Kill(args) => element::kill(global, &args, out).await,
        Command::Fleet(args) => fleet::run(global, &args, out).await,
        Command::Audit(args) => audit::run(global, &args, out).await,
        Command::Pause(args) => pause::run(global, &args, out).await,
        Command::Resume(args) => pause::end(global, &args, out).await,
        Command::Dead(command) => dead::run(global, &command, out).await,
        Command::Jobs(command) => jobs::run(global, &command, out).await,
        Command::Decode(args) => decode::run(global, &args, out).await,
        Command::Migrate(args) => migrate::run(global, &args, out).await,
        Command::Fsck(args) => fsck::run(global, &args, out).await,
        Command::Discover(args) => discover::run(global, &args, out).await,
        Command::Recover(args) => recover::run(global, &args, out).await,
        Command::Restore(args) => restore::run(global, &args, out).await,
        Command::Bench(args) => bench::run(global, &args, out).await,
        Command::Conformance(args) => conformance::run(global, &args, out).await,
        Command::Acl(args) => acl::run(global, &args, out),
        Command::Schema(_) => schema::schema(out).map(|()| 0).map_err(Failed::from),
        Command::Completions(args) => completions::run(&args, out).map(|()| 0).map_err(Failed::from),
        Command::Man(args) => man::run(&args).map(|()| 0),
        Command::Run(_) => Err(Failed::runtime("run: it is started by the program itself, not from here")),
    }?;
    out.flush()?;
    Ok(code)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

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
        fn walk(command: &clap::Command, path: &str) {
            for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
                let path = format!("{path} {}", sub.get_name());
                assert!(sub.get_about().is_some(), "{path}");
                let after = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(after.contains("Example") && after.contains(path.trim()), "{path}: {after}");
                walk(sub, &path);
            }
        }
        walk(&Cli::command(), "delaybridge");
    }
}
