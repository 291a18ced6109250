//! `dead`: what could not be delivered.

use std::io::{IsTerminal, Write};

use clap::{Args, Subcommand};
use serde_json::Value;

use super::errors::explain;
use super::table::{Align, Table};
use super::{Failed, Global, answer, load, on_queue, show};
use crate::operate::content::escaped;
use crate::operate::dead::{self, DeadLetters, Letter, Which};
use crate::operate::{Queue, Session, check_id, words};

/// Show, redrive or remove dead letters.
///
/// A dead letter has the element's original bytes and the reason. It stays in the stream until a command removes it.
///
/// in flight -> dead -> redrive: retry, due now | purge: gone
#[derive(Debug, Subcommand)]
#[command(after_help = AFTER)]
pub enum DeadCommand {
    Ls(LsArgs),
    Show(ShowArgs),
    Redrive(RedriveArgs),
    Purge(PurgeArgs),
}

const AFTER: &str = "\
Examples:
  delaybridge dead ls order_timeout
  delaybridge dead show order_timeout 1795251632252-0
  delaybridge dead redrive order_timeout --all";

/// Which letters of a queue are meant.
#[derive(Debug, Args)]
#[group(skip)]
pub struct WhichArgs {
    /// The queue's id in the configuration
    #[arg(value_name = "QUEUE")]
    pub queue: String,
    /// Stream ids (1795251632252-0) or element ids (as `peek` shows it)
    #[arg(value_name = "ID", required_unless_present = "all", conflicts_with = "all")]
    pub ids: Vec<String>,
    /// All current dead letters
    #[arg(long)]
    pub all: bool,
}

impl WhichArgs {
    fn which(&self) -> Which {
        Which { ids: self.ids.clone(), all: self.all }
    }
}

/// The queue, and the names of letters that are meant: what cannot be a name is refused before Redis is asked.
async fn on_letters(global: &Global, queue: &str, names: &[String]) -> Result<(Session, Queue), Failed> {
    let config = load(global)?.config;
    for name in names.iter().filter(|name| !dead::is_place(name)) {
        check_id(&config, queue, name).map_err(|error| {
            Failed::usage(format!("{}; a letter's own name is its stream id (1795251632252-0)", error.message))
        })?;
    }
    Ok(Session::on_queue(config, queue).await?)
}

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
}

const LS_EXAMPLES: &str = "\
Examples:
  delaybridge dead ls order_timeout
  delaybridge dead ls order_timeout --limit 1000 --output json";

/// Show all facts about one dead letter.
///
/// If several dead letters have the element's id, the latest is shown. The element is in hexadecimal digits (text) or
/// base64 (JSON), byte for byte.
#[derive(Debug, Args)]
#[command(after_help = SHOW_EXAMPLES)]
pub struct ShowArgs {
    /// The queue's id in the configuration
    #[arg(value_name = "QUEUE")]
    pub queue: String,
    /// Stream id (1795251632252-0) or element id (as `peek` shows it)
    #[arg(value_name = "ID")]
    pub id: String,
}

const SHOW_EXAMPLES: &str = "\
Examples:
  delaybridge dead show order_timeout 1795251632252-0
  delaybridge dead show order_timeout 52414e444f4d3842 --output json";

/// Redrive dead letters: deliver them again.
///
/// The element returns unchanged, due now, with its id and due time and no counted attempts. Sinks that had confirmed
/// it do not get it again. With `max_lateness`, consider that it is late.
///
/// dead -> retry, due now -> claimed by the daemon
#[derive(Debug, Args)]
#[command(after_help = REDRIVE_EXAMPLES)]
pub struct RedriveArgs {
    /// Which letters.
    #[command(flatten)]
    pub which: WhichArgs,
}

const REDRIVE_EXAMPLES: &str = "\
Examples:
  delaybridge dead redrive order_timeout 1795251632252-0
  delaybridge dead redrive order_timeout 52414e444f4d3842 1b2c3d4e5f607182
  delaybridge dead redrive order_timeout --all

Run it again after a failure: nothing is redriven twice.";

/// Remove dead letters permanently.
///
/// Their elements are lost: no other copy exists. --yes is required with --all, and without a terminal.
///
/// dead -> gone
#[derive(Debug, Args)]
#[command(after_help = PURGE_EXAMPLES)]
pub struct PurgeArgs {
    /// Which letters.
    #[command(flatten)]
    pub which: WhichArgs,
    /// Yes, remove them
    #[arg(long)]
    pub yes: bool,
}

const PURGE_EXAMPLES: &str = "\
Examples:
  delaybridge dead purge order_timeout 1795251632252-0
  delaybridge dead purge order_timeout --all --yes";

pub(super) async fn run(global: &Global, command: &DeadCommand, out: &mut dyn Write) -> Result<u8, Failed> {
    match command {
        DeadCommand::Ls(args) => {
            let (_session, queue) = on_queue(global, &args.queue).await?;
            answer(global, out, &dead::list(&queue, args.limit).await?, list)?;
        }
        DeadCommand::Show(args) => {
            let (_session, queue) = on_letters(global, &args.queue, std::slice::from_ref(&args.id)).await?;
            answer(global, out, &dead::show(&queue, &args.id).await?, |found| text(&found.dead_letters[0]))?;
        }
        DeadCommand::Redrive(args) => redrive(global, args, out).await?,
        DeadCommand::Purge(args) => purge(global, args, out).await?,
    }
    Ok(0)
}

async fn redrive(global: &Global, args: &RedriveArgs, out: &mut dyn Write) -> Result<(), Failed> {
    let (_session, queue) = on_letters(global, &args.which.queue, &args.which.ids).await?;
    let done = dead::redrive(&queue, &args.which.which()).await?;
    answer(global, out, &done, |done| {
        format!("{} of {} redriven\n", words::count(done.redriven, "dead letter"), done.queue)
    })?;
    if !done.errors.is_empty() {
        let messages: Vec<_> = done.errors.iter().map(|error| error.message.as_str()).collect();
        return Err(Failed::runtime(messages.join("\n")));
    }
    found_all(&done.queue, &done.not_found, &format!("{} redriven", done.redriven))
}

async fn purge(global: &Global, args: &PurgeArgs, out: &mut dyn Write) -> Result<(), Failed> {
    let which = &args.which;
    if !args.yes && (which.all || !std::io::stdin().is_terminal()) {
        return Err(Failed::usage(format!(
            "purge dead letters of `{}`: nothing was removed; the removal is permanent: confirm it with --yes",
            which.queue
        )));
    }
    let (_session, queue) = on_letters(global, &which.queue, &which.ids).await?;
    let done = dead::purge(&queue, &which.which()).await?;
    answer(global, out, &done, |done| {
        format!("{} of {} removed\n", words::count(done.purged, "dead letter"), done.queue)
    })?;
    found_all(&done.queue, &done.not_found, &format!("{} removed", done.purged))
}

fn found_all(queue: &str, not_found: &[String], done: &str) -> Result<(), Failed> {
    if not_found.is_empty() { Ok(()) } else { Err(dead::none_of(queue, not_found, done).into()) }
}

fn list(found: &DeadLetters) -> String {
    if found.dead_letters.is_empty() {
        return format!("no dead letters in {}\n", found.queue);
    }
    let columns = ["STREAM ID", "ID", "DIED", "REASON", "ATTEMPTS", "CODE", "SINK", "MESSAGE"];
    let mut table = Table::new(&columns.map(|name| (name, Align::Left)));
    for letter in &found.dead_letters {
        let died = letter.died_ms.map(|ms| show::relative(ms, found.now_ms)).unwrap_or_default();
        let attempts = letter.attempts.map(|attempts| attempts.to_string()).unwrap_or_default();
        let fields = [&letter.reason, &attempts, &letter.code, &letter.sink, &letter.message];
        let fields = fields.map(|field| field.replace(char::is_control, " "));
        table.row([letter.stream_id.clone(), letter.id.clone(), died].into_iter().chain(fields));
    }
    table.render()
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
    use crate::operate::dead::letter::tests::sample;

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
