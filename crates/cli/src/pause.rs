//! `pause` and `resume`: a queue or a sink, for every daemon that serves it.

use std::io::Write;
use std::time::Duration;

use clap::Args;

use super::answer::answer;
use super::failed::Failed;
use super::global::Global;
use super::person::person;
use super::remote::DaemonArgs;
use super::show;
use delaybridge_ops::pause::{PauseChange, PauseChanges, PauseEnd, PauseReason, PauseTarget, length, point};
use delaybridge_ops::plural;

/// Stop the deliveries of a queue, or to a sink.
///
/// Every daemon that serves the queue sees it within a second, and after a restart too: it is kept in Redis. Nothing is
/// claimed, what is in flight is finished, retries wait, dead letters are forwarded. Elements that fall due meanwhile are
/// delivered after the end. A sink is paused for all queues of this configuration that deliver to it.
///
/// due -> (paused) -> due
#[derive(Debug, Args)]
#[command(after_help = PAUSE)]
pub struct PauseArgs {
    /// The queue or sink to pause.
    #[command(flatten)]
    pub target: TargetArgs,
    /// The reason, for everybody who wonders why nothing moves
    #[arg(long, alias = "reason", value_name = "TEXT", default_value = "no reason given")]
    pub why: String,
    /// Name of the person who pauses it [default: the user who runs the command]
    #[arg(long, value_name = "NAME")]
    pub by: Option<String>,
    /// Length of the pause; without it, until `resume`
    #[arg(long = "for", value_name = "DURATION", value_parser = length)]
    pub length: Option<Duration>,
    /// The end, by the clock of Redis: 2027-01-31T09:00:00Z, 2027-01-31T10:00:00+01:00, or milliseconds since 1970
    #[arg(long, value_name = "TIME", value_parser = point, conflicts_with = "length")]
    pub until: Option<i64>,
    /// The daemon to ask.
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

/// Continue the deliveries of a queue, or to a sink.
///
/// Ends a pause, for every daemon. What was not paused stays as it is.
#[derive(Debug, Args)]
#[command(after_help = RESUME)]
pub struct ResumeArgs {
    /// The queue or sink to resume.
    #[command(flatten)]
    pub target: TargetArgs,
    /// The daemon to ask.
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

/// A queue, or a sink.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct TargetArgs {
    /// The queue's id in the configuration
    #[arg(value_name = "QUEUE")]
    pub queue: Option<String>,
    /// The sink's name in the configuration
    #[arg(long, value_name = "NAME")]
    pub sink: Option<String>,
}

const PAUSE: &str = "\
Examples:
  delaybridge pause order_timeout --why 'the shop is migrated' --for 2h
  delaybridge pause --sink events --why 'Kafka upgrade, call Ann'

Exit codes: 0 paused, 1 failed for a queue, 2 wrong arguments or configuration";

const RESUME: &str = "\
Examples:
  delaybridge resume order_timeout
  delaybridge resume --sink events

Exit codes: 0 resumed, or was not paused, 1 failed for a queue, 2 wrong arguments or configuration";

impl TargetArgs {
    fn target(&self) -> PauseTarget<'_> {
        match (&self.queue, &self.sink) {
            (Some(queue), _) => PauseTarget::Queue(queue),
            (None, sink) => PauseTarget::Sink(sink.as_deref().unwrap_or_default()),
        }
    }
}

pub(super) async fn run(global: &Global, args: &PauseArgs, out: &mut dyn Write) -> Result<u8, Failed> {
    let target = args.target.target();
    let by = person(args.by.as_deref());
    let end = match (args.length, args.until) {
        (Some(time), _) => PauseEnd::After(time),
        (None, Some(ms)) => PauseEnd::At(ms),
        (None, None) => PauseEnd::Never,
    };
    let reason = PauseReason { by: &by, why: &args.why, end };
    let changes = args.daemon.operator(global)?.pause(target, &reason).await?;
    finish(global, out, &changes, "pause", |change| {
        let until = change.pause.as_ref().and_then(|pause| pause.until_ms);
        let until =
            until.map_or_else(|| "until it is resumed".to_owned(), |at| format!("until {}", show::absolute(at)));
        let again = if change.before.is_some() { "; it was paused before" } else { "" };
        format!("paused {until}{again}")
    })
}

pub(super) async fn end(global: &Global, args: &ResumeArgs, out: &mut dyn Write) -> Result<u8, Failed> {
    let changes = args.daemon.operator(global)?.resume(args.target.target()).await?;
    finish(global, out, &changes, "resume", |change| match &change.before {
        Some(pause) => format!("resumed; it was paused by {}: {}", pause.by, pause.why),
        None => "was not paused".to_owned(),
    })
}

/// Prints what was done, queue by queue.
fn finish(
    global: &Global,
    out: &mut dyn Write,
    changes: &PauseChanges,
    verb: &str,
    words_of: impl Fn(&PauseChange) -> String,
) -> Result<u8, Failed> {
    answer(global, out, changes, |changes| {
        let line = |change: &PauseChange| {
            let sink = change.sink.as_ref().map(|sink| format!("sink {sink} of ")).unwrap_or_default();
            format!("{sink}{}: {}\n", change.queue, words_of(change))
        };
        let silent = changes.queues.iter().filter(|change| !change.announced).count();
        let silent = match silent {
            0 => String::new(),
            n => format!(
                "The daemons of {} were not notified: the right to PUBLISH is missing. They see it within a minute.\n",
                plural::count(n, "queue")
            ),
        };
        changes.queues.iter().map(line).collect::<String>() + &silent
    })?;
    let failed: Vec<_> =
        changes.errors.iter().map(|error| format!("{verb} queue `{}`: {}", error.queue, error.message)).collect();
    if failed.is_empty() { Ok(0) } else { Err(Failed::runtime(failed.join("\n"))) }
}
