//! `migrate`: one layout for all elements of a queue, and an end to the jam that two of them make.

use std::io::Write;

use clap::Args;

use super::{Failed, Global, Output, answer, on_queue};
use crate::operate::redisson::Layout;
use crate::operate::redisson::migrate::{Migration, apply, survey};
use crate::operate::words;

/// Repack every scheduled element in the layout that the Redisson clients read.
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
    pub to: Layout,
    /// Do it; without this, only show what would be done
    #[arg(long)]
    pub apply: bool,
}

const AFTER: &str = "\
Examples:
  delaybridge migrate order_timeout --to new              what would be repacked, and what a jam has done
  delaybridge migrate order_timeout --to new --apply

A client that stops in the middle of a transfer has pushed to the ready list what is before it, again at every attempt.
Such elements are due and missing in Redisson's list; they are listed with the number of copies, and stay scheduled, so
that they are transferred once more: `delaybridge cancel QUEUE ID` removes one. No copy proves nothing: consumers may have
taken them, and while clients and daemons go on, an element can look missing that is not.

Run again after a failure: it goes on where it stopped.

Exit codes: 0 done, 1 something had to stay, or it failed, 2 wrong arguments or configuration";

pub(super) async fn run(global: &Global, args: &MigrateArgs, out: &mut dyn Write) -> Result<u8, Failed> {
    let (_session, queue) = on_queue(global, &args.queue).await?;
    let mut found = survey(&queue, args.to).await?;
    if args.apply {
        // Before anything is repacked: then clients transfer what a jam had stopped, and no other run would name it.
        if global.output == Output::Text {
            write!(out, "{}", transferred(&found))?;
            out.flush()?;
        }
        found = apply(&queue, args.to, found).await?;
    }
    answer(global, out, &found, text)?;
    match found.kept > 0 && (args.apply || found.junk + found.strays > 0) {
        true => Err(kept(&found)),
        false => Ok(0),
    }
}

fn text(found: &Migration) -> String {
    let new = words::count(found.new, "element");
    let head = format!("{}: {new} in the new layout, {} in the old one\n", found.queue, found.old);
    match found.applied {
        true => format!("{head}{} repacked in the {} layout\n", words::count(found.packed, "element"), found.to),
        false => format!(
            "{head}{} would be repacked, under their ids\n{}Nothing was changed; --apply does it\n",
            words::count(found.foreign, "element"),
            transferred(found)
        ),
    }
}

fn transferred(found: &Migration) -> String {
    if found.transferred.is_empty() {
        return String::new();
    }
    let copies: usize = found.transferred.iter().map(|element| element.ready_copies).sum();
    let elements: String =
        found.transferred.iter().map(|element| format!("  {} ({})\n", element.id, element.ready_copies)).collect();
    format!(
        "{} transferred before by a client that then failed, {} of their payloads on the ready list now; once more is to \
         come:\n{elements}",
        words::count(found.transferred.len(), "element"),
        if copies == 1 { "1 copy".to_owned() } else { format!("{copies} copies") },
    )
}

fn kept(found: &Migration) -> Failed {
    Failed::runtime(format!(
        "migrate `{}`: {} stayed as they were: {} of no layout, which jam Redisson clients (a daemon makes dead letters of \
         them when they fall due), {} that would be read as the other layout, {} scheduled already with the very bytes that \
         they would get, {} entries of Redisson's list alone, which jam `readAll()` and `remove()` (a daemon sweeps those \
         that a claim left)",
        found.queue,
        words::count(found.kept, "element"),
        found.junk,
        found.ambiguous,
        found.twins,
        found.strays
    ))
}
