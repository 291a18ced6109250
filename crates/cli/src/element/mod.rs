//! `run-now`, `reschedule`, `cancel`, `kill`: one element by its id. And what `peek --id` shows of it.

mod text;

use std::io::Write;
use std::time::Duration;

use clap::Args;

pub(super) use self::text::found;
use super::answer::answer;
use super::failed::Failed;
use super::global::Global;
use super::person::person;
use super::remote::DaemonArgs;
use super::show;
use delaybridge_ops::element::{ActOutcome, Action, NewState, When};
use delaybridge_ops::pause;
use delaybridge_ops::peek::PeekState;

/// An element of a queue.
#[derive(Debug, Args)]
pub struct ElementArgs {
    /// The queue's id in the configuration
    #[arg(value_name = "QUEUE")]
    pub queue: String,
    /// The element's id, as `peek` shows it; of a dead letter its stream id (1795251632252-0) too
    #[arg(value_name = "ID")]
    pub id: String,
    /// The daemon to ask.
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

/// Make an element due now.
///
/// One that is scheduled falls due now, one that waits for a retry is tried now, a dead letter is redriven. One that is
/// due already stays as it is. An element in flight is not touched. The server searches the whole queue; in a queue of millions
/// this takes a while.
///
/// scheduled | retry | dead -> due now
#[derive(Debug, Args)]
#[command(after_help = RUN_NOW)]
pub struct RunNowArgs {
    /// The element.
    #[command(flatten)]
    pub element: ElementArgs,
}

const RUN_NOW: &str = "\
Example:
  delaybridge run-now order_timeout 52414e444f4d3842

Exit codes: 0 it is due, 1 not found, or in flight, or failed, 2 wrong arguments or configuration";

/// Give an element another time.
///
/// One that is scheduled falls due then; Redisson's clients see it too. One that waits for a retry is tried then, and keeps its
/// attempts. A dead letter is redriven, due then. An element in flight is not touched. In a source with scores of whole seconds
/// the time is rounded down.
///
/// scheduled | retry | dead -> scheduled | retry, due then
#[derive(Debug, Args)]
#[command(after_help = RESCHEDULE)]
pub struct RescheduleArgs {
    /// The element.
    #[command(flatten)]
    pub element: ElementArgs,
    /// Time from now
    #[arg(long = "in", value_name = "DURATION", value_parser = pause::length, required_unless_present = "at")]
    pub after: Option<Duration>,
    /// New time, by the clock of Redis: 2027-01-31T09:00:00Z, or milliseconds since 1970
    #[arg(long, value_name = "TIME", value_parser = pause::point, conflicts_with = "after")]
    pub at: Option<i64>,
}

const RESCHEDULE: &str = "\
Examples:
  delaybridge reschedule order_timeout 52414e444f4d3842 --in 5m
  delaybridge reschedule order_timeout 52414e444f4d3842 --at 2027-01-31T09:00:00Z

Exit codes: 0 it has that time, 1 not found, or in flight, or failed, 2 wrong arguments or configuration";

/// Remove an element that is scheduled, waits for a retry or is dead.
///
/// It is removed permanently, from the source's structures too. An element in flight belongs to the daemon that claimed it,
/// and is not cancelled. The server searches the whole queue; in a queue of millions this takes a while.
///
/// scheduled | retry | dead -> gone
#[derive(Debug, Args)]
#[command(after_help = CANCEL)]
pub struct CancelArgs {
    /// The element.
    #[command(flatten)]
    pub element: ElementArgs,
}

const CANCEL: &str = "\
Example:
  delaybridge cancel order_timeout 52414e444f4d3842

Exit codes: 0 cancelled, 1 not found, or in flight, or failed, 2 wrong arguments or configuration";

/// Make a dead letter of an element.
///
/// It is kept with its bytes and its history, and not delivered until it is redriven. The reason of the letter is `killed`. An
/// element in flight is not touched.
///
/// scheduled | retry -> dead
#[derive(Debug, Args)]
#[command(after_help = KILL)]
pub struct KillArgs {
    /// The element.
    #[command(flatten)]
    pub element: ElementArgs,
    /// Why, for everybody who meets the letter
    #[arg(long, alias = "reason", value_name = "TEXT", default_value = "no reason given")]
    pub why: String,
    /// Name of the person who kills it [default: the user who runs the command]
    #[arg(long, value_name = "NAME")]
    pub by: Option<String>,
}

const KILL: &str = "\
Example:
  delaybridge kill order_timeout 52414e444f4d3842 --why 'customer 7 was deleted'

Exit codes: 0 it is a dead letter, 1 not found, or in flight, or failed, 2 wrong arguments or configuration";

pub(super) async fn run_now(global: &Global, args: &RunNowArgs, out: &mut dyn Write) -> Result<u8, Failed> {
    carry_out(global, &args.element, Action::Reschedule(When::Now), out).await
}

pub(super) async fn reschedule(global: &Global, args: &RescheduleArgs, out: &mut dyn Write) -> Result<u8, Failed> {
    let when = match (args.after, args.at) {
        (Some(after), _) => When::In(after),
        (None, at) => When::At(at.unwrap_or_default()),
    };
    carry_out(global, &args.element, Action::Reschedule(when), out).await
}

pub(super) async fn cancel(global: &Global, args: &CancelArgs, out: &mut dyn Write) -> Result<u8, Failed> {
    carry_out(global, &args.element, Action::Cancel, out).await
}

pub(super) async fn kill(global: &Global, args: &KillArgs, out: &mut dyn Write) -> Result<u8, Failed> {
    let by = person(args.by.as_deref());
    carry_out(global, &args.element, Action::Kill { by: &by, why: &args.why }, out).await
}

async fn carry_out(
    global: &Global,
    element: &ElementArgs,
    action: Action<'_>,
    out: &mut dyn Write,
) -> Result<u8, Failed> {
    let acted = element.daemon.operator(global)?.act(&element.queue, &element.id, action).await?;
    answer(global, out, &acted, done)?;
    Ok(0)
}

/// `52414e444f4d3842 of orders: was scheduled, is due now`.
fn done(acted: &ActOutcome) -> String {
    let [element] = &acted.elements;
    let was = match element.was {
        PeekState::Retry => "waiting for a retry",
        PeekState::Dead => "dead",
        PeekState::Scheduled | PeekState::InFlight | PeekState::Ready => "scheduled",
    };
    let time = element.due_ms.map(|ms| match ms <= acted.now_ms {
        true => "due now".to_owned(),
        false => format!("due {} ({})", show::relative(ms, acted.now_ms), show::absolute(ms)),
    });
    let time = time.unwrap_or_default();
    let is = match element.state {
        NewState::Scheduled => format!("scheduled, {time}"),
        NewState::Retry => format!("waiting for a retry, {time}"),
        NewState::Dead => "dead".to_owned(),
        NewState::Gone => "gone".to_owned(),
    };
    let again = if element.unchanged { "; it was so before, nothing was changed" } else { "" };
    let renamed = element.new_id.as_ref().map(|id| format!("; its id is now {id}, a hash over its due time"));
    format!("{} of {}: was {was}, is {is}{again}{}\n", element.id, acted.queue, renamed.unwrap_or_default())
}
