//! `audit`: who did what when.

use std::io::Write;

use clap::Args;

use super::answer::answer;
use super::failed::Failed;
use super::global::Global;
use super::remote::DaemonArgs;
use super::show;
use super::table::TextTable;
use delaybridge_ops::audit::{AuditTrail, MOST};
use delaybridge_ops::content::escaped;

/// Show who changed what, the latest first.
///
/// Every pause, resume, run-now, reschedule, cancel, kill, redrive, purge and import, and each attempt at one, is kept in a stream
/// beside its queue: by whom, from where, and the result, whether it was done by the command line over Redis, by a daemon's API or on
/// its page. The last 1,000 of each queue are kept. A reload of the configuration, and commands on jobs, are in the log only.
///
/// Whoever may write to the queue's keys may also write there: it shows what operators did, and is no proof against them.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct AuditArgs {
    /// The queue's id in the configuration; all queues if it is left out
    #[arg(value_name = "QUEUE")]
    pub queue: Option<String>,
    /// Changes to show, at most
    #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub limit: u16,
    /// The daemon to ask.
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

const AFTER: &str = "\
Examples:
  delaybridge audit
  delaybridge audit order_timeout --limit 5
  delaybridge audit --daemon http://127.0.0.1:9465 --token-file /run/secrets/admin --output json

Exit codes: 0 done, 1 failed, 2 wrong arguments or configuration";

pub(super) async fn run(global: &Global, args: &AuditArgs, out: &mut dyn Write) -> Result<u8, Failed> {
    let operator = args.daemon.operator(global)?;
    let found = operator.audit(args.queue.as_deref(), usize::from(args.limit).min(MOST)).await?;
    answer(global, out, &found, text)?;
    let failed: Vec<_> = found.errors.iter().map(|error| error.message.clone()).collect();
    if failed.is_empty() { Ok(0) } else { Err(Failed::runtime(failed.join("\n"))) }
}

fn text(found: &AuditTrail) -> String {
    let mut table = TextTable::new("TIME|QUEUE|WHAT|WHICH|BY|FROM|RESULT");
    for change in &found.changes {
        let result = match &change.problem {
            Some(problem) => format!("failed: {}", escaped(problem)),
            None => escaped(change.result.as_deref().unwrap_or_default()),
        };
        table.row([
            show::absolute(change.at_ms),
            change.queue.clone(),
            escaped(&change.what),
            escaped(&change.which),
            escaped(&change.by),
            escaped(&change.from),
            result,
        ]);
    }
    table.render()
}
