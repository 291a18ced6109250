//! `recover`: claims that have lost their leases.

use std::io::Write;

use clap::Args;

use super::answer::answer;
use super::failed::Failed;
use super::global::Global;
use super::load::on_queue;
use delaybridge_ops::plural;
use delaybridge_ops::recover::recover;

/// Bring back elements in flight whose leases were deleted.
///
/// Daemons find elements in flight by their leases, in a key of the queue (delaybridge:leases:{NAME}, with the queue's
/// name in Redis). If it was deleted or evicted, no daemon finds the elements, and `check --live` reports them. This
/// command gives each of their claims (the elements that a daemon took together) an expired lease, so that a daemon
/// takes them over and delivers. Daemons may run. What was delivered shortly before may arrive twice.
///
/// It looks at the name of every key of the database, and needs the right to SCAN.
///
/// in flight (no lease) -> in flight (lease expired)
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct RecoverArgs {
    /// The queue's id in the configuration
    #[arg(value_name = "QUEUE")]
    pub queue: String,
}

const AFTER: &str = "\
Example:
  delaybridge recover order_timeout

Exit codes: 0 done, or nothing to do, 1 it failed, 2 wrong arguments or configuration";

pub(super) async fn run(global: &Global, args: &RecoverArgs, out: &mut dyn Write) -> Result<u8, Failed> {
    let (_session, queue) = on_queue(global, &args.queue).await?;
    let done = queue.tell("recover", "", recover(&queue).await, |done| plural::count(done.claims, "claim")).await?;
    answer(global, out, &done, |done| match done.claims {
        0 => format!("every claim of {} has its lease\n", done.queue),
        claims => format!(
            "{} with {} had no lease; daemons of {} deliver them now\n",
            plural::count(claims, "claim"),
            plural::count(done.elements, "element"),
            done.queue
        ),
    })?;
    Ok(0)
}
