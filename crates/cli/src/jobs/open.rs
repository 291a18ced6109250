//! The job queue of the configuration.

use std::io::IsTerminal;

use crate::failed::Failed;
use crate::global::Global;
use crate::load::load_queues;
use delaybridge_ops::jobs::Jobs;

/// Connects to the job queue.
pub(super) async fn open(global: &Global) -> Result<Jobs, Failed> {
    Ok(Jobs::open(&load_queues(global)?).await?)
}

/// Whether a removal is confirmed: by `--yes`, or because a person at a terminal named the jobs.
pub(super) fn confirmed(yes: bool, all: bool) -> bool {
    yes || !all && std::io::stdin().is_terminal()
}
