//! `peek`: the elements of a queue. Takes nothing.

use std::io::Write;

use clap::Args;

use super::answer::answer;
use super::failed::Failed;
use super::global::Global;
use super::remote::{DaemonArgs, carry_out_at};
use delaybridge_ops::jobs::text;
use delaybridge_ops::operations::{ListElements, ShowElement};
use delaybridge_ops::time::Moment;

// No doc comment: --help takes what the command does from the elements.
#[derive(Debug, Args)]
pub struct PeekArgs {
    /// The elements.
    #[command(flatten)]
    pub elements: ListElements,
    /// Everything about the one element with this id, wherever it is
    #[arg(long, value_name = "ID", conflicts_with_all = ["limit", "state", "full", "routes"])]
    pub id: Option<String>,
    /// The due time of the element, if it is known: it is found there at once, unless more than 20,000 are due then
    #[arg(long, value_name = "TIME", requires = "id")]
    pub due: Option<Moment>,
    /// The daemon to ask.
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

pub(super) async fn run(global: &Global, args: &PeekArgs, out: &mut dyn Write) -> Result<u8, Failed> {
    let place = args.daemon.place(global)?;
    let elements = &args.elements;
    if let Some(id) = &args.id {
        let request = ShowElement { queue: elements.queue.clone(), id: id.clone(), due: args.due };
        return carry_out_at(global, &place, &request, out).await;
    }
    match elements.jobs(&place).await? {
        Some(found) => answer(global, out, &found, text::list).map(|()| 0),
        None => carry_out_at(global, &place, elements, out).await,
    }
}
