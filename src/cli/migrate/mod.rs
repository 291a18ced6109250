//! `migrate`: one layout for all elements of a queue, and an end to the jam that two of them make.

mod survey;

use std::io::Write;

use clap::{Args, ValueEnum};
use serde_json::json;

use self::survey::Survey;
use super::session::{Session, attempted, may_have_run};
use super::{Failed, Global, Output, show};
use crate::source::redisson::layout::Layout;
use crate::source::redisson::{Moved, Repack, migrate_end};

/// Pack every scheduled element in the layout that the Redisson clients read.
///
/// Redisson 3.21.1 changed the layout of elements, and a client stops at the first one that it cannot read. Here each
/// element keeps its id, its payload, its due time and its place in Redisson's list; of those due in the same millisecond
/// the order may change. Without --apply nothing is changed. Daemons and clients may go on meanwhile; clients of the other
/// layout have to be gone, or they write more of it.
///
/// scheduled (old or new) -> scheduled (one layout)
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct MigrateArgs {
    /// The queue's id in the configuration
    #[arg(value_name = "QUEUE")]
    pub queue: String,
    /// The layout: old is Redisson up to 3.21.0, new from 3.21.1 on
    #[arg(long, value_enum, value_name = "LAYOUT")]
    pub to: To,
    /// Do it; without this, only show what would be done
    #[arg(long)]
    pub apply: bool,
}

const AFTER: &str = "\
Examples:
  delaybridge migrate order_timeout --to new              what would be packed anew, and what a jam has done
  delaybridge migrate order_timeout --to new --apply

A client that stops in the middle of a transfer has pushed to the ready list what stands before, again at every attempt.
Such elements are due and missing in Redisson's list; they are listed with the number of copies, and stay scheduled, so
that they are transferred once more: `delaybridge cancel QUEUE ID` removes one. No copy proves nothing: consumers may have
taken them, and while clients and daemons go on, an element can look missing that is not.

Run again after a failure: it goes on where it stopped.

Exit codes: 0 done, 1 something had to stay, or it failed, 2 wrong arguments or configuration";

/// A layout by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum To {
    /// Redisson up to 3.21.0.
    Old,
    /// Redisson from 3.21.1 on.
    New,
}

/// Looks after which others must be writing the other layout as fast as it is packed anew.
const ROUNDS: usize = 5;

pub(super) async fn run(global: &Global, args: &MigrateArgs, out: &mut dyn Write) -> Result<u8, Failed> {
    let (session, queue) = Session::on_queue(global, &args.queue).await?;
    let what = format!("migrate `{}`", args.queue);
    let (to, name) = match args.to {
        To::Old => (Layout::Old, "old"),
        To::New => (Layout::New, "new"),
    };
    let (redisson, conn) = (&queue.redisson, &session.conn);
    let first = Survey::of(redisson, conn, to, &mut async |_| Ok(())).await.map_err(attempted(&what))?;
    // Before anything is packed anew: then clients transfer what a jam had stopped, and no other run would name it.
    if args.apply && global.output == Output::Text {
        tell_transferred(&first, out)?;
        out.flush()?;
    }
    let (mut packed, mut twins, mut survey) = (0, 0, None);
    if args.apply {
        let mut rounds = 0;
        while survey.as_ref().is_none_or(|survey: &Survey| survey.foreign > twins) {
            rounds += 1;
            if rounds > ROUNDS {
                return Err(Failed::runtime(format!(
                    "{what}: elements of the other layout appear as fast as they are packed anew ({packed} so far); stop \
                     the clients that write it and run the command again"
                )));
            }
            twins = 0;
            let mut act = async |batch: Vec<Repack>| {
                let mut rest = batch.as_slice();
                while !rest.is_empty() {
                    let batch = &rest[..migrate_end(rest)];
                    let moved = match redisson.migrate(conn, batch).await {
                        // What the first sending did is answered as gone: the count is too low, nothing else.
                        Err(error) if may_have_run(&error) => redisson.migrate(conn, batch).await?,
                        other => other?,
                    };
                    packed += moved.iter().filter(|moved| **moved == Moved::Yes).count();
                    twins += moved.iter().filter(|moved| **moved == Moved::Twin).count();
                    rest = &rest[moved.len()..];
                }
                Ok(())
            };
            Survey::of(redisson, conn, to, &mut act).await.map_err(attempted(&what))?;
            let after = Survey::of(redisson, conn, to, &mut async |_| Ok(())).await.map_err(attempted(&what))?;
            survey = Some(after);
        }
    }
    let last = survey.as_ref().unwrap_or(&first);
    let (kept, strays) = (last.junk + last.ambiguous + twins + last.strays, last.strays);
    match global.output {
        Output::Json => {
            let transferred: Vec<_> = first
                .transferred
                .iter()
                .map(|(id, copies)| json!({ "id": id.to_string(), "ready_copies": copies }))
                .collect();
            let answer = json!({
                "queue": args.queue, "to": name, "applied": args.apply, "new": first.new, "old": first.old,
                "foreign": first.foreign, "packed": packed, "junk": first.junk, "ambiguous": first.ambiguous,
                "twins": twins, "strays": strays, "transferred": transferred,
            });
            writeln!(out, "{answer:#}")?;
        }
        Output::Text => {
            let (new, old) = (show::count(first.new, "element"), first.old);
            writeln!(out, "{}: {new} in the new layout, {old} in the old one", args.queue)?;
            match args.apply {
                true => writeln!(out, "{} packed anew in the {name} layout", show::count(packed, "element"))?,
                false => {
                    writeln!(out, "{} would be packed anew, under their ids", show::count(first.foreign, "element"))?
                }
            }
            if !args.apply {
                tell_transferred(&first, out)?;
                writeln!(out, "Nothing was changed; --apply does it")?;
            }
        }
    }
    if kept > 0 && (args.apply || first.junk + first.strays > 0) {
        return Err(Failed::runtime(format!(
            "{what}: {} stayed as they were: {} of no layout, which jam Redisson clients (a daemon makes dead letters of \
             them when they fall due), {} that would be read as the other layout, {twins} scheduled already with the very \
             bytes that they would get, {strays} entries of Redisson's list alone, which jam `readAll()` and `remove()` \
             (a daemon sweeps those that a claim left)",
            show::count(kept, "element"),
            first.junk,
            first.ambiguous,
        )));
    }
    Ok(0)
}

fn tell_transferred(survey: &Survey, out: &mut dyn Write) -> Result<(), Failed> {
    if survey.transferred.is_empty() {
        return Ok(());
    }
    let copies: usize = survey.transferred.iter().map(|(_, copies)| copies).sum();
    writeln!(
        out,
        "{} transferred before by a client that then failed, {} of their payloads on the ready list now; once more is to come:",
        show::count(survey.transferred.len(), "element"),
        if copies == 1 { "1 copy".to_owned() } else { format!("{copies} copies") },
    )?;
    for (id, copies) in &survey.transferred {
        writeln!(out, "  {id} ({copies})")?;
    }
    Ok(())
}
