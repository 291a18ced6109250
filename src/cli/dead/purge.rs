//! `dead purge`: the only command that destroys what was not delivered; asks for a word.

use std::io::{IsTerminal, Write};

use clap::Args;
use serde_json::json;

use super::super::session::{Session, attempted};
use super::super::{Failed, Global, Output, show};
use super::{Which, each, not_found};

/// Remove dead letters for good.
///
/// Their elements are lost: nothing else has them. --yes is needed with --all, and where no person sits at a terminal.
///
/// dead -> gone
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct PurgeArgs {
    /// Which letters.
    #[command(flatten)]
    pub which: Which,
    /// Yes, remove them
    #[arg(long)]
    pub yes: bool,
}

const AFTER: &str = "\
Examples:
  delaybridge dead purge order_timeout 1795251632252-0
  delaybridge dead purge order_timeout --all --yes";

pub(super) async fn run(global: &Global, args: &PurgeArgs, out: &mut dyn Write) -> Result<u8, Failed> {
    let which = &args.which;
    if !args.yes && (which.all || !std::io::stdin().is_terminal()) {
        return Err(Failed::usage(format!(
            "purge dead letters of `{}`: nothing was removed; they cannot be brought back, so say --yes",
            which.queue
        )));
    }
    let (session, queue) = Session::on_queue(global, &which.queue).await?;
    let mut done = 0;
    let unmet = each(&session, &queue, which, async |page| {
        let ids: Vec<_> = page.into_iter().map(|letter| letter.stream_id).collect();
        let what = format!("purge dead letters of `{}` ({done} removed before)", which.queue);
        done += queue.redisson.purge(&session.conn, &ids).await.map_err(attempted(&what))?;
        Ok(())
    })
    .await?;
    match global.output {
        Output::Json => writeln!(out, "{}", json!({ "queue": which.queue, "purged": done }))?,
        Output::Text => writeln!(out, "{} of {} removed", show::count(done, "dead letter"), which.queue)?,
    }
    match unmet.as_slice() {
        [] => Ok(0),
        unmet => Err(not_found(&which.queue, unmet, &format!("{done} removed"))),
    }
}
