//! `migrate`: one layout for all elements of a queue, which unblocks a queue with two.

use std::io::Write;

use clap::Args;

use super::answer::answer;
use super::failed::Failed;
use super::global::{Global, Output};
use super::load::on_queue;
use super::progress::ProgressLine;
use delaybridge_ops::plural;
use delaybridge_ops::redisson::ClientLayout;
use delaybridge_ops::redisson::migrate::{Migration, apply, survey};

/// Convert every scheduled element to the layout that the Redisson clients read.
///
/// Redisson 3.21.1 changed the layout, and a client stops at the first element that it cannot read. Elements keep id,
/// payload, due time and place in Redisson's list; the order within a millisecond may change. Without --apply nothing
/// is changed. Daemons and clients can continue; stop clients of the other layout first.
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
    pub to: ClientLayout,
    /// Apply the changes; without it, only show them
    #[arg(long)]
    pub apply: bool,
}

const AFTER: &str = "\
Examples:
  delaybridge migrate order_timeout --to new              shows what it would convert
  delaybridge migrate order_timeout --to new --apply

A client that stops in a transfer has pushed the elements before it to the ready list, again at every
attempt. Such elements are due and missing in Redisson's list; they are listed with the number of
copies, and stay scheduled: `delaybridge cancel QUEUE ID` removes one. Consumers may have taken copies,
and while clients and daemons work, an element can look missing that is not.

After a failure or Ctrl-C run it again.

Exit codes: 0 done, 1 some elements stay, or it failed, 2 wrong arguments or configuration";

pub(super) async fn run(global: &Global, args: &MigrateArgs, out: &mut dyn Write) -> Result<u8, Failed> {
    let (_session, queue) = on_queue(global, &args.queue).await?;
    let mut found = survey(&queue, args.to.into()).await?;
    if args.apply {
        // Before any conversion: after it, clients transfer the blocked elements, and no other run would list them.
        if global.output == Output::Text {
            write!(out, "{}", transferred(&found))?;
            out.flush()?;
        }
        let applied = apply(&queue, args.to.into(), found, &mut ProgressLine::start("migrate")).await;
        let words = |found: &Migration| format!("{} converted", plural::count(found.packed, "element"));
        found = queue.tell("migrate", "--apply", applied, words).await?;
    }
    answer(global, out, &found, text)?;
    if found.kept > 0 && (args.apply || found.junk + found.strays > 0) { Err(kept(&found)) } else { Ok(0) }
}

fn text(found: &Migration) -> String {
    let new = plural::count(found.new, "element");
    let head = format!("{}: {new} in the new layout, {} in the old one\n", found.queue, found.old);
    if found.applied {
        format!("{head}{} converted to the {} layout\n", plural::count(found.packed, "element"), found.to)
    } else {
        format!(
            "{head}{} would be converted, with their ids\n{}Nothing was changed; --apply does it\n",
            plural::count(found.foreign, "element"),
            transferred(found)
        )
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
        plural::count(found.transferred.len(), "element"),
        if copies == 1 { "1 copy".to_owned() } else { format!("{copies} copies") },
    )
}

fn kept(found: &Migration) -> Failed {
    Failed::runtime(format!(
        "migrate `{}`: {} stayed as they were: {} of no layout, which block Redisson clients (a daemon makes dead letters of \
         them at their due time), {} that would be read as the other layout, {} already scheduled with the bytes that \
         they would get, {} entries only in Redisson's list, which block `readAll()` and `remove()` (a daemon sweeps those \
         that a claim left)",
        found.queue,
        plural::count(found.kept, "element"),
        found.junk,
        found.ambiguous,
        found.twins,
        found.strays
    ))
}
