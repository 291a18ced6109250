//! `dead`: what could not be delivered.

mod args;
mod lines;

use std::io::{IsTerminal, Write};

use clap::{Args, Subcommand};
use serde_json::Value;

use self::args::{LettersArgs, PaceArgs, ids_of_stdin};
use super::answer::answer;
use super::errors::explain;
use super::failed::Failed;
use super::global::Global;
use super::progress::ProgressLine;
use super::remote::{DaemonArgs, subcommands_of};
use super::show;
use super::table::TextTable;
use delaybridge_ops::content::escaped;
use delaybridge_ops::dead::{self, Filter, Letter, LetterList, Letters, Purged, Redriven, ShownLetters, Swept};
use delaybridge_ops::{Error, operations, plural};

/// Show, count, redrive, remove, export or import dead letters.
///
/// A dead letter has the element's original bytes and the reason. It stays in the stream until a command removes it. The same
/// filters choose letters for each of these commands.
///
/// in flight -> dead -> redrive: retry, due now | purge: gone
#[derive(Debug, Subcommand)]
#[command(after_help = AFTER)]
pub enum DeadCommand {
    Ls(LsArgs),
    #[command(flatten)]
    Operation(DeadOperation),
    Show(ShowArgs),
    Redrive(RedriveArgs),
    Purge(PurgeArgs),
    Export(lines::ExportArgs),
    Import(lines::ImportArgs),
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
  delaybridge dead count order_timeout
  delaybridge dead ls order_timeout --reason max_attempts --newer-than 2h
  delaybridge dead show order_timeout 1795251632252-0
  delaybridge dead redrive order_timeout --sink events --dry-run
  delaybridge dead redrive order_timeout --all";

/// List the dead letters of a queue, latest first.
///
/// One line each: time, reason and sink. `dead show` has the rest.
#[derive(Debug, Args)]
#[command(after_help = LS_EXAMPLES)]
pub struct LsArgs {
    /// The queue's id in the configuration
    #[arg(value_name = "QUEUE")]
    pub queue: String,
    /// Maximum number of dead letters
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    pub limit: usize,
    /// The filter of the letters.
    #[command(flatten)]
    pub filter: Filter,
    /// The daemon to ask.
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

const LS_EXAMPLES: &str = "\
Examples:
  delaybridge dead ls order_timeout
  delaybridge dead ls order_timeout --code timeout --older-than 1d
  delaybridge dead ls order_timeout --field customer.id=7
  delaybridge dead ls order_timeout --limit 1000 --output json";

/// Show all facts about dead letters.
///
/// By name one: if several dead letters have the element's id, the latest. By a filter the latest ones. The element is in
/// hexadecimal digits (text) or base64 (JSON), byte for byte.
#[derive(Debug, Args)]
#[command(after_help = SHOW_EXAMPLES)]
pub struct ShowArgs {
    /// The queue's id in the configuration
    #[arg(value_name = "QUEUE")]
    pub queue: String,
    /// Stream id (1795251632252-0) or element id (as `peek` shows it)
    #[arg(value_name = "ID")]
    pub id: Option<String>,
    /// Maximum number of dead letters, with a filter
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    pub limit: usize,
    /// The filter of the letters.
    #[command(flatten)]
    pub filter: Filter,
    /// The daemon to ask, for one letter.
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

const SHOW_EXAMPLES: &str = "\
Examples:
  delaybridge dead show order_timeout 1795251632252-0
  delaybridge dead show order_timeout --field orderId=7
  delaybridge dead show order_timeout 52414e444f4d3842 --output json";

/// Redrive dead letters: deliver them again.
///
/// The element returns unchanged, due now, with its id and due time and no counted attempts. Sinks that had confirmed
/// it do not get it again. With `max_lateness`, consider that it is late. Letters that come meanwhile are not redriven.
///
/// dead -> retry, due now -> claimed by the daemon
#[derive(Debug, Args)]
#[command(after_help = REDRIVE_EXAMPLES)]
pub struct RedriveArgs {
    /// The letters.
    #[command(flatten)]
    pub which: LettersArgs,
    /// The pace.
    #[command(flatten)]
    pub pace: PaceArgs,
}

const REDRIVE_EXAMPLES: &str = "\
Examples:
  delaybridge dead redrive order_timeout 1795251632252-0
  delaybridge dead redrive order_timeout 52414e444f4d3842 1b2c3d4e5f607182
  delaybridge dead redrive order_timeout --code timeout --newer-than 1d --dry-run
  delaybridge dead redrive order_timeout --code timeout --newer-than 1d --rate 200/s
  delaybridge dead redrive order_timeout --all

Run it again after a failure or Ctrl-C: it goes on, and nothing is redriven twice.";

/// Remove dead letters permanently.
///
/// Their elements are lost: no other copy exists. --yes is required with --all, with a filter, and without a terminal.
///
/// dead -> gone
#[derive(Debug, Args)]
#[command(after_help = PURGE_EXAMPLES)]
pub struct PurgeArgs {
    /// The letters.
    #[command(flatten)]
    pub which: LettersArgs,
    /// The pace.
    #[command(flatten)]
    pub pace: PaceArgs,
    /// Yes, remove them
    #[arg(long)]
    pub yes: bool,
}

const PURGE_EXAMPLES: &str = "\
Examples:
  delaybridge dead purge order_timeout 1795251632252-0
  delaybridge dead purge order_timeout --reason undecodable --older-than 7d --dry-run
  delaybridge dead purge order_timeout --all --yes

Run it again after a failure or Ctrl-C: it goes on.";

pub(super) async fn run(global: &Global, command: DeadCommand, out: &mut (dyn Write + Send)) -> Result<u8, Failed> {
    match command {
        DeadCommand::Ls(args) => {
            let (filter, mut watch) = (args.filter.clone(), ProgressLine::start("dead ls"));
            let operator = args.daemon.operator(global)?;
            let found = operator.letters(&args.queue, &filter, args.limit, &mut watch).await?;
            answer(global, out, &found, list)?;
        }
        DeadCommand::Operation(command) => return command.run(global, out).await,
        DeadCommand::Show(args) => {
            let ids: Vec<_> = args.id.iter().cloned().collect();
            let which = Letters { ids, filter: args.filter.clone(), ..Letters::default() };
            if which.ids.is_empty() && which.filter.is_empty() {
                return Err(Failed::usage(
                    "show dead letters: name one by its id, or write a filter (--reason, --field, ...)",
                ));
            }
            let found = args.daemon.operator(global)?.show_letters(&args.queue, &which, args.limit).await?;
            answer(global, out, &found, shown)?;
        }
        DeadCommand::Redrive(args) => redrive(global, &args, out).await?,
        DeadCommand::Purge(args) => purge(global, &args, out).await?,
        DeadCommand::Export(args) => lines::export(global, &args, out).await?,
        DeadCommand::Import(args) => lines::import(global, &args, out).await?,
    }
    Ok(0)
}

/// Runs `step` for the letters that are meant: all at once, or as many as [`ids_of_stdin`] returns.
async fn in_batches<T: Swept>(
    args: &LettersArgs,
    mut which: Letters,
    mut step: impl AsyncFnMut(&Letters) -> Result<T, Error>,
) -> Result<T, Failed> {
    if !args.reads_stdin() {
        return Ok(step(&which).await?);
    }
    let (mut done, mut lines) = (T::default(), 0);
    while !done.is_stopped() {
        which.ids = ids_of_stdin(&mut lines)?;
        if which.ids.is_empty() {
            break;
        }
        done.add(step(&which).await?);
    }
    Ok(done)
}

async fn redrive(global: &Global, args: &RedriveArgs, out: &mut (dyn Write + Send)) -> Result<(), Failed> {
    let (which, pace) = (args.which.which("redrive")?, args.pace.pace());
    let operator = args.which.daemon.operator(global)?;
    let queue = &args.which.queue;
    operator.check_letters(queue, args.which.names()).await?;
    let mut watch = ProgressLine::start("dead redrive");
    let redrive = async |which: &Letters| operator.redrive(queue, which, pace, &mut watch).await;
    let done: Redriven = in_batches(&args.which, which, redrive).await?;
    drop(watch);
    answer(global, out, &done, |done| {
        let letters = plural::count(if done.dry_run { done.matched } else { done.redriven }, "dead letter");
        match done.dry_run {
            true => format!("{letters} of {queue} would be redriven; nothing was changed\n"),
            false if done.left == 0 => format!("{letters} of {queue} redriven\n"),
            false => format!(
                "{letters} of {queue} redriven; {} left: the same elements wait already, or another client has them\n",
                done.left
            ),
        }
    })?;
    if done.failed > 0 {
        let mut messages: Vec<_> = done.errors.iter().map(|error| error.message.clone()).collect();
        if done.failed > messages.len() {
            messages.push(format!("and {} more that cannot be read", done.failed - messages.len()));
        }
        return Err(Failed::runtime(messages.join("\n")));
    }
    if done.stopped {
        return Err(stopped("redrive", done.redriven));
    }
    found_all(queue, &done.not_found, &format!("{} redriven", done.redriven))
}

async fn purge(global: &Global, args: &PurgeArgs, out: &mut (dyn Write + Send)) -> Result<(), Failed> {
    let (which, pace) = (args.which.which("purge")?, args.pace.pace());
    let many = which.all || !which.filter.is_empty() || args.which.reads_stdin();
    if !args.yes && !pace.dry_run && (many || !std::io::stdin().is_terminal()) {
        return Err(Failed::usage(format!(
            "purge dead letters of `{}`: nothing was removed; the removal is permanent: see with --dry-run how many it would be, \
             and confirm it with --yes",
            args.which.queue
        )));
    }
    let operator = args.which.daemon.operator(global)?;
    let queue = &args.which.queue;
    operator.check_letters(queue, args.which.names()).await?;
    let mut watch = ProgressLine::start("dead purge");
    let purge = async |which: &Letters| operator.purge(queue, which, pace, &mut watch).await;
    let done: Purged = in_batches(&args.which, which, purge).await?;
    drop(watch);
    answer(global, out, &done, |done| match done.dry_run {
        true => {
            let letters = plural::count(done.matched, "dead letter");
            format!("{letters} of {queue} would be removed; nothing was changed\n")
        }
        false => format!("{} of {queue} removed\n", plural::count(done.purged, "dead letter")),
    })?;
    if done.stopped {
        return Err(stopped("purge", done.purged));
    }
    found_all(queue, &done.not_found, &format!("{} removed", done.purged))
}

/// The end of a command that a person ended.
fn stopped(verb: &str, done: usize) -> Failed {
    Failed::runtime(format!(
        "{verb} dead letters: ended after {done}; run the same command again to go on with the rest"
    ))
}

fn found_all(queue: &str, not_found: &[String], done: &str) -> Result<(), Failed> {
    if not_found.is_empty() { Ok(()) } else { Err(dead::none_of(queue, not_found, done).into()) }
}

fn shown(found: &ShownLetters) -> String {
    match found.dead_letters.is_empty() {
        true => format!("no such dead letters in {}\n", found.queue),
        false => found.dead_letters.iter().map(text).collect::<Vec<_>>().join("\n"),
    }
}

fn list(found: &LetterList) -> String {
    if found.dead_letters.is_empty() {
        return format!("no dead letters in {}\n", found.queue);
    }
    let mut table = TextTable::new("STREAM ID|ID|DIED|REASON|ATTEMPTS|CODE|SINK|MESSAGE");
    for letter in &found.dead_letters {
        let died = letter.died_ms.map(|ms| show::relative(ms, found.now_ms)).unwrap_or_default();
        let attempts = letter.attempts.map(|attempts| attempts.to_string()).unwrap_or_default();
        let fields = [&letter.reason, &attempts, &letter.code, &letter.sink, &letter.message];
        let fields = fields.map(|field| field.replace(char::is_control, " "));
        table.row([letter.stream_id.clone(), letter.id.clone(), died].into_iter().chain(fields));
    }
    let more = match found.next.is_some() && found.dead_letters.len() < found.total {
        true => {
            let total = plural::count(found.total, "dead letter");
            format!("\n{} of {total}; --limit shows more\n", found.dead_letters.len())
        }
        false => String::new(),
    };
    table.render() + &more
}

fn text(letter: &Letter) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        text.push_str(format!("{name:<17} {value}").trim_end());
        text.push('\n');
    };
    line("stream_id", &letter.stream_id);
    for (name, value) in &letter.fields {
        match (name.as_str(), value) {
            ("element_base64", _) => {
                line("payload", &letter.content.preview(usize::MAX));
                line("element", &hex::encode(&letter.element));
            }
            (_, Value::Null) => line(name, ""),
            (_, Value::String(value)) => line(name, &escaped(value)),
            (_, Value::Number(number)) => match number.as_i64().filter(|_| name.ends_with("_ms")) {
                Some(ms) => line(name, &format!("{ms} ({})", show::absolute(ms))),
                None => line(name, &number.to_string()),
            },
            ("confirmed", Value::Array(sinks)) => {
                let sinks: Vec<_> = sinks.iter().filter_map(Value::as_str).collect();
                line(name, &escaped(&sinks.join(",")));
            }
            (_, other) => line(name, &escaped(&other.to_string())),
        }
        if let Some(known) = (name == "code").then(|| explain(value.as_str()?)).flatten() {
            line("  cause", &known.cause);
            line("  cure", &known.cure);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use redisson_codecs::Codec;

    use super::*;
    use delaybridge_ops::dead::sample::sample;

    #[test]
    fn a_person_sees_times_and_payload_and_nothing_that_a_terminal_obeys() {
        let text = text(&sample(Codec::String));
        for line in [
            "stream_id         1-0",
            "due_ms            1795251632252 (2026-11-21T09:00:32.252Z)",
            "first_attempt_ms",
            "code              NO_ROUTE",
            "  cause           No queue accepts the message.",
            "  cure            Bind a queue for this routing key.",
            "message           a\\u{1b}[31m",
            "payload           hello",
            "element           0852414e444f4d3842050000000000000068656c6c6f",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line} in\n{text}");
        }
    }
}
