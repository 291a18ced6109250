//! `restore`: the way out. Everything that delaybridge holds of a queue goes back to where Redisson sees it.

mod apply;
mod plan;
mod sweep;

use std::io::Write;

use clap::{Args, ValueEnum};
use serde_json::json;

use self::plan::Plan;
use super::session::{Queue, Session, attempted};
use super::{Failed, Global, Output, show};
use crate::source::redisson::layout::Layout;
use crate::source::redisson::{AtWork, Restored};

/// Put everything that delaybridge holds back to where Redisson sees it.
///
/// For leaving: stop the daemons first. What was in flight, waits for a retry or was given back is scheduled in Redisson
/// again with its due time, or goes to the head of the ready list in its order if it came from there. Without --apply
/// nothing is changed and the command shows what it would do. Junk, and what a newer delaybridge wrote, stays.
///
/// in flight (its lease over) | retry | dead (--dead) -> scheduled | ready
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct RestoreArgs {
    /// The queue's id in the configuration
    #[arg(value_name = "QUEUE")]
    pub queue: String,
    /// Do it; without this, only show what would be done
    #[arg(long)]
    pub apply: bool,
    /// Dead letters too
    #[arg(long)]
    pub dead: bool,
    /// The layout that the Redisson clients of this queue read; what has the other one is packed anew under its id
    #[arg(long, value_enum, value_name = "LAYOUT", default_value_t = Fleet::Auto)]
    pub layout: Fleet,
}

const AFTER: &str = "\
Examples:
  delaybridge restore order_timeout                       what would be put back
  delaybridge restore order_timeout --apply --layout new
  delaybridge restore order_timeout --apply --dead

It refuses while a daemon is at work: while one listens on the queue's presence channel, a lease in flight is not over,
or somebody sweeps the list. A daemon that is cut off from Redis is seen by its leases only; what it had handed to a sink
may arrive there as well. Run again after a failure: nothing is put back twice.

Exit codes: 0 done, 1 a daemon is at work, or something had to stay, or it failed, 2 wrong arguments or configuration";

/// The layout that a fleet of Redisson clients reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Fleet {
    /// That of what is scheduled; if nothing is, that of what is held. Refused where both are met.
    Auto,
    /// Redisson up to 3.21.0.
    Old,
    /// Redisson from 3.21.1 on.
    New,
}

pub(super) async fn run(global: &Global, args: &RestoreArgs, out: &mut dyn Write) -> Result<u8, Failed> {
    let (session, queue) = Session::on_queue(global, &args.queue).await?;
    let view = View { session: &session, queue: &queue, id: &args.queue };
    let at_work = view.refusal().await?;
    let plan = Plan::of(&view, args).await?;
    if !args.apply {
        plan.tell(global.output, &view, at_work.as_deref(), out)?;
        return Ok(0);
    }
    if let Some(reason) = at_work {
        return Err(Failed::runtime(format!("restore `{}`: {reason}; nothing was changed", args.queue)));
    }
    let orphans = sweep::until_no_ghost_is_left(&view).await?;
    // Before anything is put back: what is scheduled again is not held any more, and no other run would name it.
    if global.output == Output::Text {
        plan.tell_confirmed(&view, out)?;
        out.flush()?;
    }
    let done = match apply::run(&view, args, plan.layout, orphans > 0).await {
        Ok(done) => done,
        Err(failed) => {
            if global.output == Output::Json {
                let confirmed = plan.confirmed_json(&view);
                writeln!(out, "{:#}", json!({ "queue": args.queue, "applied": false, "confirmed": confirmed }))?;
                out.flush()?;
            }
            return Err(failed);
        }
    };
    match global.output {
        Output::Json => {
            let answer = json!({
                "queue": args.queue, "applied": true, "layout": plan.layout_name(),
                "scheduled": done.scheduled, "ready": done.ready, "orphans": orphans,
                "confirmed": plan.confirmed_json(&view), "doubtful": plan.doubtful(),
                "kept": done.kept_json(),
            });
            writeln!(out, "{answer:#}")?;
        }
        Output::Text => {
            let scheduled = show::count(done.scheduled, "element");
            let ready = show::count(done.ready, "payload");
            writeln!(out, "{scheduled} of {} scheduled again, {ready} on the ready list", args.queue)?;
            if orphans > 0 {
                writeln!(out, "Entries of Redisson's list that are in no sorted set, left alone: {orphans}")?;
            }
        }
    }
    match done.kept_text() {
        None => Ok(0),
        Some(kept) => Err(Failed::runtime(format!(
            "restore `{}`: {kept} stayed where they were; `delaybridge peek {0} --state retry` and `--state in-flight` \
             show them",
            args.queue
        ))),
    }
}

/// What every step looks at.
struct View<'a> {
    session: &'a Session,
    queue: &'a Queue,
    id: &'a str,
}

impl View<'_> {
    /// Why nothing may be put back now; `None` if nobody is at work.
    async fn refusal(&self) -> Result<Option<String>, Failed> {
        let what = format!("look who is at work on `{}`", self.id);
        let daemons = self.queue.redisson.daemons(&self.session.conn).await.map_err(attempted(&what))?;
        if daemons > 0 {
            let are = if daemons == 1 { "is" } else { "are" };
            return Ok(Some(format!(
                "{} of this queue {are} connected; stop what delivers from it first",
                show::count(usize::try_from(daemons).unwrap_or(usize::MAX), "daemon")
            )));
        }
        let looked = self.queue.redisson.restore(&self.session.conn, &[], false).await.map_err(attempted(&what))?;
        Ok(match looked {
            Restored::AtWork(work) => Some(self.explain(work)),
            Restored::Done(_) | Restored::Ghosts(_) => None,
        })
    }

    fn explain(&self, work: AtWork) -> String {
        match work {
            AtWork { leases: 1.., .. } => format!(
                "{} in flight under leases that are not over: a daemon is at work, or died less than {} ago; stop it, \
                 or wait for the end of the leases",
                show::count(usize::try_from(work.leases).unwrap_or(usize::MAX), "element"),
                humantime::format_duration(self.queue.spec.lease)
            ),
            AtWork { sweeps: true, .. } => {
                "a daemon sweeps the queue's list, or died less than 10s ago; stop it, or wait".to_owned()
            }
            AtWork { .. } => "a daemon moves dead letters on, or died a moment ago; stop it, or wait".to_owned(),
        }
    }

    /// The name behind a hash of a header.
    fn sink_name(&self, hash: u64) -> String {
        let known = self.session.config.sinks.iter().map(|sink| &*sink.name);
        let known = known.chain(self.queue.spec.to.iter().map(|route| &*route.sink));
        let name = known.into_iter().find(|name| crate::source::redisson::sink_hash(name) == hash);
        name.map_or_else(|| format!("a sink that the configuration does not name ({hash:016x})"), str::to_owned)
    }
}

fn layout_name(layout: Layout) -> &'static str {
    match layout {
        Layout::Old => "old",
        Layout::New => "new",
    }
}
