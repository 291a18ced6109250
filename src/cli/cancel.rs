//! `cancel`: one element that is not claimed yet.

use std::io::Write;

use clap::Args;

use super::{Failed, Global, answer, on_element};
use crate::operate::cancel::cancel;
use crate::operate::peek::State;

/// Remove an element that is scheduled or waits for a retry.
///
/// It is removed permanently, from the source's structures too. An element in flight belongs to the daemon that claimed it,
/// and is not cancelled. The server searches the whole queue; in a queue of millions this takes a while.
///
/// scheduled | retry -> gone
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct CancelArgs {
    /// The queue's id in the configuration
    #[arg(value_name = "QUEUE")]
    pub queue: String,
    /// The element's id, as `peek` and `offer` show it
    #[arg(value_name = "ID")]
    pub id: String,
}

const AFTER: &str = "\
Example:
  delaybridge cancel order_timeout 52414e444f4d3842

Exit codes: 0 cancelled, 1 not found, or in flight, or failed, 2 wrong arguments or configuration";

pub(super) async fn run(global: &Global, args: &CancelArgs, out: &mut dyn Write) -> Result<u8, Failed> {
    let (_session, queue) = on_element(global, &args.queue, &args.id).await?;
    answer(global, out, &cancel(&queue, &args.id).await?, |cancelled| {
        let [element] = &cancelled.elements;
        let from = if element.cancelled_from == State::Retry { "retry" } else { "scheduled" };
        format!("{} cancelled in {} (it was {from})\n", element.id, cancelled.queue)
    })?;
    Ok(0)
}
