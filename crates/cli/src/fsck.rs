//! `fsck`: what a crash, an operator or another program left in Redis.

use std::io::{IsTerminal, Write, stderr};
use std::time::Duration;

use clap::Args;

use super::answer::answer;
use super::failed::Failed;
use super::global::Global;
use super::load::load;
use super::person::actor;
use delaybridge_core::clock::Instant;
use delaybridge_ops::Session;
use delaybridge_ops::fsck::{Checked, FaultCount, Fsck, FsckScope, Orphans, fsck};
use delaybridge_ops::plural;

/// Find and repair what a crash, an operator or another program left in Redis.
///
/// Checks claims and leases, entries that wait, dead letters, what is scheduled, Redisson's list, jobs and their ids.
/// Nothing is changed without --repair. Daemons may run: only what is still wrong at a second look is reported. A
/// repair checks again in the script that changes Redis, and removes only copies of what is elsewhere. What is in doubt
/// is kept, with the reason.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct FsckArgs {
    /// The queue's id in the configuration; without it all queues
    #[arg(value_name = "QUEUE")]
    pub queue: Option<String>,
    /// Repair what was found
    #[arg(long)]
    pub repair: bool,
    /// With --repair, entries of Redisson's list that are scheduled nowhere: deliver, or keep
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = Orphans::Deliver, hide_possible_values = true)]
    pub orphans: Orphans,
}

const AFTER: &str = "\
Examples:
  delaybridge fsck order_timeout             reports, changes nothing
  delaybridge fsck order_timeout --repair    reports and repairs
  delaybridge fsck --output json

Exit codes:
  0  everything is in order, or was repaired
  1  something is wrong, or a queue could not be read
  2  wrong arguments or configuration";

pub(super) async fn run(global: &Global, args: &FsckArgs, out: &mut dyn Write) -> Result<u8, Failed> {
    let session = Session::open(load(global)?.config, &actor()).await?;
    let request = FsckScope { repair: args.repair, orphans: args.orphans };
    let mut progress = FsckProgress::new();
    let result =
        fsck(&session, args.queue.as_deref(), request, &mut |queue, looked| progress.show(queue, looked)).await?;
    progress.clear();
    let code = u8::from(!result.is_clean());
    answer(global, out, &result, text)?;
    Ok(code)
}

fn text(result: &Fsck) -> String {
    let mut text = String::new();
    for queue in &result.queues {
        text.push_str(&of_queue(queue, result.repair));
    }
    for topic in &result.topics {
        let name = topic.topic.as_ref().map_or_else(|| "index of topics".to_owned(), |name| format!("topic {name}"));
        let of = if topic.topic.is_some() { "job" } else { "name" };
        let looked = plural::count(topic.looked_at, of);
        text.push_str(&format!("{name}: {} ({looked} looked at)\n", state(&topic.findings)));
        text.push_str(&of_findings(&topic.findings, result.repair));
    }
    for error in &result.errors {
        text.push_str(&format!("{}: not checked: {}\n", error.queue, error.message));
    }
    let open = |finding: &FaultCount| finding.things.iter().any(|thing| thing.kept.is_none() && !thing.repaired);
    let of_queues = result.queues.iter().flat_map(|queue| &queue.findings);
    if !result.repair && of_queues.chain(result.topics.iter().flat_map(|topic| &topic.findings)).any(open) {
        text.push_str("\nNothing was changed. Run it again with --repair.\n");
    }
    text
}

fn of_queue(checked: &Checked, repair: bool) -> String {
    let looked = plural::count(checked.looked_at, "element");
    let daemons = plural::count(checked.daemons, "daemon");
    let mut text = format!("{}: {} ({looked} looked at, {daemons} at work)\n", checked.queue, state(&checked.findings));
    text.push_str(&of_findings(&checked.findings, repair));
    for what in &checked.not_checked {
        text.push_str(&format!("  not checked: {what}\n"));
    }
    text
}

fn state(findings: &[FaultCount]) -> &'static str {
    if findings.is_empty() { "in order" } else { "not in order" }
}

fn of_findings(findings: &[FaultCount], repair: bool) -> String {
    let mut text = String::new();
    for finding in findings {
        let words = finding.explanation;
        text.push_str(&format!("\n  {}  {}\n", words.fault, words.what));
        let done = if repair { format!(", {} repaired", finding.repaired) } else { String::new() };
        text.push_str(&format!("    found      {}{done}\n", finding.count));
        if finding.more > 0 {
            text.push_str(&format!("    more       about {} that this run does not examine\n", finding.more));
        }
        text.push_str(&format!("    cause      {}\n", words.cause));
        text.push_str(&format!("    otherwise  {}\n", words.otherwise));
        text.push_str(&format!("    --repair   {}\n", words.repair));
        for thing in &finding.things {
            let end = match (thing.repaired, thing.kept) {
                (true, _) => ": repaired".to_owned(),
                (false, Some(why)) => format!(": kept, {why}"),
                (false, None) if repair => ": changed meanwhile".to_owned(),
                (false, None) => String::new(),
            };
            text.push_str(&format!("      {}{end}\n", thing.name));
        }
        if finding.count > finding.things.len() {
            text.push_str(&format!("      and {} more\n", finding.count - finding.things.len()));
        }
    }
    text
}

/// The progress on standard error, for a person who waits.
struct FsckProgress {
    watched: bool,
    shown: Option<Instant>,
}

impl FsckProgress {
    fn new() -> Self {
        FsckProgress { watched: stderr().is_terminal(), shown: None }
    }

    fn show(&mut self, queue: &str, looked: u64) {
        let now = Instant::now();
        let lately = self.shown.is_some_and(|shown| now.since(shown) < Duration::from_millis(500));
        if self.watched && !lately {
            self.shown = Some(now);
            // There is no way to report that standard error does not work.
            let _ = write!(stderr(), "\r\x1b[K{queue}: {looked} elements looked at");
        }
    }

    fn clear(&self) {
        if self.watched && self.shown.is_some() {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}
