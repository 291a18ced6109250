//! The way out: everything that delaybridge holds of a queue goes back to Redisson's keys.

mod apply;
mod plan;
pub(crate) mod sweep;

use serde::Serialize;

pub use self::apply::{RestoreOutcome, apply};
pub use self::plan::{RestorePlan, plan};
use super::Layout;
use crate::error::{Attempted, Error};
use crate::plural;
use crate::release;
use crate::session::Queue;
use delaybridge_core::message::MessageId;
use delaybridge_source::redisson::{AtWork, Kept, Restored as Reply};

/// The options of a restore.
#[derive(Debug, Clone, Copy, Default)]
pub struct RestoreOptions {
    /// The layout that the Redisson clients read; else that of what is scheduled, or of what is held.
    pub layout: Option<Layout>,
    /// Dead letters too.
    pub dead: bool,
}

/// An element that some sinks have confirmed: a Java consumer sees it although they have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConfirmedElement {
    /// The element.
    pub id: MessageId,
    /// The sinks.
    pub sinks: Vec<String>,
}

/// Elements that stay where they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeptCount {
    /// The number of elements.
    pub count: usize,
    /// Why, behind `element`.
    pub why: &'static str,
}

/// Counts of what stays, by reason.
#[derive(Debug, Default)]
struct Stay(std::collections::BTreeMap<Kept, usize>);

impl Stay {
    fn add(&mut self, why: Kept) {
        *self.0.entry(why).or_default() += 1;
    }

    fn counts(&self) -> Vec<KeptCount> {
        self.0.iter().map(|(why, count)| KeptCount { count: *count, why: why.as_str() }).collect()
    }
}

/// Why nothing may be restored now; `None` if no daemon is at work.
async fn refusal(queue: &Queue) -> Result<Option<String>, Error> {
    let what = format!("check for daemons at work on `{}`", queue.id());
    let daemons = queue.redisson().daemons(&queue.conn).await.attempt(&what)?;
    if daemons > 0 {
        let are = if daemons == 1 { "is" } else { "are" };
        return Ok(Some(format!(
            "{} of this queue {are} connected; stop its daemons first",
            plural::count(daemons, "daemon")
        )));
    }
    Ok(match queue.redisson().restore(&queue.conn, &[], false).await.attempt(&what)? {
        Reply::AtWork(AtWork { leases: 1.., sweeps: false, forwards: false })
            if !release::is_held(queue, &what).await? =>
        {
            None
        }
        Reply::AtWork(work) => Some(explain(queue, work)),
        Reply::Done(_) | Reply::Ghosts(_) => None,
    })
}

fn explain(queue: &Queue, work: AtWork) -> String {
    match work {
        AtWork { leases: 1.., .. } => format!(
            "{} under unexpired leases: a daemon works, or died less than {} ago; stop it, \
             or wait until the leases expire",
            plural::count(work.leases, "claim"),
            humantime::format_duration(queue.spec.lease)
        ),
        AtWork { sweeps: true, .. } => {
            "a daemon sweeps the queue's list, or died less than 10s ago; stop it, or wait".to_owned()
        }
        AtWork { .. } => "a daemon forwards dead letters, or died a moment ago; stop it, or wait".to_owned(),
    }
}

/// Returns an entry of the retry set or of a claim; `None` for one that this version cannot read.
fn entry(member: bytes::Bytes) -> Option<delaybridge_ledger::claims::Element> {
    delaybridge_ledger::claims::Element::entry(member, 0)
}
