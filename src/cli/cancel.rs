//! `cancel`: one element that nobody has claimed yet.

use std::io::Write;

use clap::Args;
use serde_json::json;

use super::session::{Session, attempted, may_have_run};
use super::{Failed, Global, Output};
use crate::message::MessageId;
use crate::source::redisson::Place;

/// Remove an element that is scheduled or waits for a retry.
///
/// It is gone for good, from Redisson's structures too. An element in flight belongs to the daemon that claimed it and
/// is left to it. The whole queue is searched, by the server; in a queue of millions that takes a while.
///
/// scheduled | retry -> gone
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct CancelArgs {
    /// The queue's id in the configuration
    #[arg(value_name = "QUEUE")]
    pub queue: String,
    /// The element's id: 16 hexadecimal digits, as `peek` and `offer` show it
    #[arg(value_name = "ID")]
    pub id: MessageId,
}

const AFTER: &str = "\
Example:
  delaybridge cancel order_timeout 52414e444f4d3842

Exit codes: 0 cancelled, 1 not found, or in flight, or failed, 2 wrong arguments or configuration";

pub(super) async fn run(global: &Global, args: &CancelArgs, out: &mut dyn Write) -> Result<u8, Failed> {
    let (session, queue) = Session::on_queue(global, &args.queue).await?;
    let what = format!("cancel {} in `{}`", args.id, args.queue);
    let found = queue.redisson.locate(&session.conn, args.id).await.map_err(attempted(&what))?;
    let Some(found) = found else {
        return Err(Failed::runtime(format!(
            "{what}: not found among what is scheduled, waits for a retry or is in flight; it was delivered or cancelled, \
             is a dead letter (`delaybridge dead ls {}`), or fits no layout of Redisson and has no id of its own",
            args.queue
        )));
    };
    let in_retry = match found.place {
        Place::Scheduled => false,
        Place::Retry => true,
        Place::InFlight | Place::Ready | Place::Listed => return Err(in_flight(&what)),
    };
    match queue.redisson.cancel(&session.conn, found.member, in_retry).await {
        Ok(true) => {}
        // Claimed between the look and the removal: nothing else takes an element away that stands there.
        Ok(false) => return Err(in_flight(&what)),
        Err(error) if may_have_run(&error) => {
            return Err(Failed::runtime(format!(
                "{what}: {error}; it may have been cancelled: run the command again, which does no harm"
            )));
        }
        Err(error) => return Err(attempted(&what)(error)),
    }
    let from = if in_retry { "retry" } else { "scheduled" };
    match global.output {
        Output::Json => {
            writeln!(out, "{}", json!({ "id": args.id.to_string(), "queue": args.queue, "cancelled_from": from }))?;
        }
        Output::Text => writeln!(out, "{} cancelled in {} (it was {from})", args.id, args.queue)?,
    }
    Ok(0)
}

fn in_flight(what: &str) -> Failed {
    Failed::runtime(format!(
        "{what}: it is in flight and cannot be cancelled: a daemon has claimed it and may be delivering it now; try again \
         if it comes back for a retry"
    ))
}
