//! `restore`: the way out. Everything that delaybridge holds of a queue goes back to Redisson's keys.

use std::io::Write;

use clap::Args;

use super::answer::answer;
use super::failed::Failed;
use super::global::{Global, Output};
use super::load::on_queue;
use super::progress::ProgressLine;
use delaybridge_ops::back::{self, BroughtBack};
use delaybridge_ops::redisson::LayoutArg;
use delaybridge_ops::redisson::restore::{
    ConfirmedElement, KeptCount, RestoreOptions, RestoreOutcome, RestorePlan, apply, plan,
};
use delaybridge_ops::{Queue, Session, fsck, plural};

/// Return everything delaybridge holds to the source's keys.
///
/// For leaving delaybridge. Stop the daemons first. Without --apply it only shows what it would do. Elements in flight,
/// waiting for a retry or released are scheduled in Redisson again with their due times; payloads from the ready list
/// return to its head in order. To a sorted set, elements return with their scores, unless the member exists; to a job
/// pool, into the first bucket, and jobs of dead letters to their places, unless their id exists. Junk, and entries of
/// a newer delaybridge, stay.
///
/// in flight (lease expired) | retry | dead (--dead) -> scheduled | ready
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct RestoreArgs {
    /// The queue's id in the configuration
    #[arg(value_name = "QUEUE")]
    pub queue: String,
    /// Apply the changes; without it, only show them
    #[arg(long)]
    pub apply: bool,
    /// Dead letters too
    #[arg(long)]
    pub dead: bool,
    /// The layout that the Redisson clients read; others are converted and keep their ids. auto is the layout of
    /// scheduled elements, else of held ones, and is refused if both exist
    #[arg(long, value_enum, value_name = "LAYOUT", default_value_t = LayoutArg::Auto)]
    pub layout: LayoutArg,
}

const AFTER: &str = "\
Examples:
  delaybridge restore order_timeout                       shows what would be returned
  delaybridge restore order_timeout --apply --layout new
  delaybridge restore order_timeout --apply --dead

It refuses while a daemon is connected to the queue, a lease is unexpired, or a sweep runs. Deliveries of
a daemon that is cut off from Redis may still arrive. After a failure or Ctrl-C run it again: nothing is
returned twice.

Exit codes: 0 done, 1 a daemon works, or some elements stay, or it failed, 2 wrong arguments or configuration";

pub(super) async fn run(global: &Global, args: &RestoreArgs, out: &mut dyn Write) -> Result<u8, Failed> {
    let (session, queue) = on_queue(global, &args.queue).await?;
    if back::is_of_sets(&queue) {
        return run_for_sets(global, args, &session, &queue, out).await;
    }
    let options = RestoreOptions { layout: args.layout.layout(), dead: args.dead };
    let plan = plan(&session.config, &queue, options).await?;
    if !args.apply {
        answer(global, out, &plan, planned)?;
        return Ok(0);
    }
    // Before anything is restored: what is scheduled again is not held any more, and no other run would name it.
    if global.output == Output::Text && plan.at_work.is_none() {
        write!(out, "{}", seen_twice(&plan.confirmed, plan.doubtful))?;
        out.flush()?;
    }
    let done = match apply(&queue, &plan, &mut ProgressLine::start("restore")).await {
        Ok(done) => done,
        Err(error) => {
            if global.output == Output::Json && plan.at_work.is_none() {
                answer(global, out, &plan, planned)?;
                out.flush()?;
            }
            return Err(error.into());
        }
    };
    answer(global, out, &done, restored)?;
    match kept(&done.kept) {
        None => Ok(0),
        Some(kept) => Err(Failed::runtime(format!(
            "restore `{}`: {kept} stayed where they were; {}",
            args.queue,
            shown_by(&args.queue, args.dead)
        ))),
    }
}

/// Returns the commands that list what stayed.
fn shown_by(queue: &str, dead: bool) -> String {
    let of_dead = if dead { format!(", dead letters by `delaybridge dead ls {queue}`") } else { String::new() };
    format!("they are listed by `delaybridge peek {queue} --state retry` and `--state in-flight`{of_dead}")
}

async fn run_for_sets(
    global: &Global,
    args: &RestoreArgs,
    session: &Session,
    queue: &Queue,
    out: &mut dyn Write,
) -> Result<u8, Failed> {
    if args.layout.layout().is_some() {
        let message = format!("restore `{}`: its elements have no layout; leave out --layout", args.queue);
        return Err(Failed::usage(message));
    }
    let plan = back::plan(queue, args.dead).await?;
    if !args.apply {
        answer(global, out, &plan, back_to_set)?;
        return Ok(0);
    }
    let done = back::apply(queue, &plan, args.dead, &mut ProgressLine::start("restore")).await?;
    fsck::keep_priorities(session, queue).await?;
    answer(global, out, &done, back_to_set)?;
    match done.twins + done.unknown {
        0 => Ok(0),
        stayed => Err(Failed::runtime(format!(
            "restore `{}`: {} stayed where they were; {}",
            args.queue,
            plural::count(stayed, "element"),
            shown_by(&args.queue, args.dead)
        ))),
    }
}

fn back_to_set(back: &BroughtBack) -> String {
    let elements = plural::count(back.scheduled, "element");
    let mut text = if back.applied {
        format!("{elements} of {} put back into `{}`", back.queue, back.key)
    } else {
        format!("{elements} would be put back into `{}`", back.key)
    };
    if back.dead > 0 {
        text.push_str(&format!(", {} among them", plural::count(back.dead, "dead letter")));
    }
    text.push('\n');
    for (count, why) in [
        (back.twins, "stayed: the same member is there already, or another job with its id"),
        (back.unknown, "not touched: damaged, written by a newer delaybridge, or a dead letter without its job"),
        (back.doubtful, "may have arrived at a sink: the last delivery had no answer"),
    ] {
        if count > 0 {
            text.push_str(&format!("{} {why}\n", plural::count(count, "element")));
        }
    }
    if let Some(reason) = &back.at_work {
        text.push_str(&format!("It would be refused now: {reason}\n"));
    }
    if !back.applied {
        text.push_str("Nothing was changed; --apply does it\n");
    }
    text
}

fn planned(plan: &RestorePlan) -> String {
    let elements = plural::count(plan.scheduled, "element");
    let mut lines = vec![format!("{elements} would be scheduled again, in the {} layout", plan.layout)];
    if plan.repacked > 0 {
        lines.push(format!("{} of them would be converted, with their ids", plan.repacked));
    }
    lines.push(format!("{} would go to the head of the ready list", plural::count(plan.ready, "payload")));
    if plan.dead > 0 {
        lines.push(format!("{} among them", plural::count(plan.dead, "dead letter")));
    }
    lines.push(format!("{} would be swept first", plural::count(plan.ghosts, "ghost")));
    lines.extend(kept(&plan.kept).map(|kept| format!("{kept} would stay")));
    let mut text = lines.join("\n") + "\n" + &seen_twice(&plan.confirmed, plan.doubtful);
    if let Some(reason) = &plan.at_work {
        text.push_str(&format!("It would be refused now: {reason}\n"));
    }
    text + "Nothing was changed; --apply does it\n"
}

/// Elements that a Java consumer will get although a sink has them.
fn seen_twice(confirmed: &[ConfirmedElement], doubtful: usize) -> String {
    let line = |found: &ConfirmedElement| format!("{} was already confirmed by {}\n", found.id, found.sinks.join(", "));
    let mut text: String = confirmed.iter().map(line).collect();
    if doubtful > 0 {
        let elements = plural::count(doubtful, "element");
        text.push_str(&format!("{elements} may have arrived at a sink: the last delivery had no answer\n"));
    }
    text
}

fn restored(done: &RestoreOutcome) -> String {
    let scheduled = plural::count(done.scheduled, "element");
    let ready = plural::count(done.ready, "payload");
    let orphans = match done.orphans {
        0 => String::new(),
        orphans => format!("Entries of Redisson's list that are in no sorted set, kept: {orphans}\n"),
    };
    format!("{scheduled} of {} scheduled again, {ready} on the ready list\n{orphans}", done.queue)
}

/// `2 elements of no layout ..., 1 element written by ...`.
fn kept(kept: &[KeptCount]) -> Option<String> {
    let words: Vec<_> =
        kept.iter().map(|kept| format!("{} {}", plural::count(kept.count, "element"), kept.why)).collect();
    (!words.is_empty()).then(|| words.join(", "))
}
