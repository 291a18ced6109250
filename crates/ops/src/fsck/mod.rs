//! Finds what a crash, an operator or another program left in Redis, and repairs it. Works beside running daemons: what is
//! on its way is no fault, so only what is still wrong at a second look is reported, and each repair checks once more.

mod fault_text;
mod findings;
mod topics;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;

use super::error::{Attempted, Error, QueueError};
use super::plural;
use super::redisson::restore::sweep;
use super::session::{Queue, Session, find};
use delaybridge_ledger::fsck::{Fault, Found, Repair, Suspect, Terms};

pub use self::fault_text::{Explanation, explanation};
use self::findings::NAMED;
pub use self::findings::{FaultCount, Thing};
pub use self::topics::{CheckedTopic, keep_priorities};

/// Between the first look and the second.
const BETWEEN: Duration = Duration::from_secs(1);

/// The treatment of entries of Redisson's list that are scheduled nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Orphans {
    /// Scheduled, due now
    Deliver,
    /// Left as they are
    Keep,
}

/// The scope of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FsckScope {
    /// Whether faults are repaired.
    pub repair: bool,
    /// The treatment of orphans by a repair.
    pub orphans: Orphans,
}

/// The findings in all queues.
#[derive(Debug, Clone, Serialize)]
pub struct Fsck {
    /// Whether faults were to be repaired.
    pub repair: bool,
    /// The queues that were looked at.
    pub queues: Vec<Checked>,
    /// The index of topics, and the topics that were looked at, if there is a job queue.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub topics: Vec<CheckedTopic>,
    /// Queues that could not be read to the end.
    pub errors: Vec<QueueError>,
}

/// The findings in one queue.
#[derive(Debug, Clone, Serialize)]
pub struct Checked {
    /// The queue's id in the configuration.
    pub queue: String,
    /// Elements, entries of lists and jobs that were looked at.
    pub looked_at: u64,
    /// Daemons that deliver from it now.
    pub daemons: u64,
    /// The faults.
    pub findings: Vec<FaultCount>,
    /// The checks that were left out, and why.
    pub not_checked: Vec<String>,
}

impl Checked {
    /// Returns the number of repairs, for a log.
    fn repaired(&self) -> String {
        let (found, repaired) = self.findings.iter().fold((0, 0), |sum, one| (sum.0 + one.count, sum.1 + one.repaired));
        format!("{} found, {repaired} repaired", plural::count(found, "fault"))
    }
}

impl Fsck {
    /// Returns whether everything is in order now.
    pub fn is_clean(&self) -> bool {
        let whole = |finding: &FaultCount| finding.repaired == finding.count && finding.more == 0;
        let mut findings = self
            .queues
            .iter()
            .flat_map(|queue| &queue.findings)
            .chain(self.topics.iter().flat_map(|topic| &topic.findings));
        self.errors.is_empty() && findings.all(whole)
    }
}

/// Looks at one queue, or at all. `progress` hears the queue and how many elements were looked at.
///
/// # Errors
///
/// When the configuration has no such queue.
pub async fn fsck(
    session: &Session,
    only: Option<&str>,
    request: FsckScope,
    progress: &mut (dyn FnMut(&str, u64) + Send),
) -> Result<Fsck, Error> {
    let specs = match only {
        Some(id) => vec![find(&session.config, id)?],
        None => session.config.queues.clone(),
    };
    let mut answer = Fsck { repair: request.repair, queues: Vec::new(), topics: Vec::new(), errors: Vec::new() };
    // Of one queue, the topic that it delivers.
    let topic = specs.iter().find_map(|spec| spec.source.jobs()?.topic.parse().ok());
    if let Some(jobs) = session.jobs().filter(|_| only.is_none() || topic.is_some()) {
        let of_queues = session.config.queues.iter().filter_map(|spec| spec.source.jobs());
        let delivered = of_queues.filter_map(|spec| spec.topic.parse().ok()).collect();
        let only = topic.filter(|_| only.is_some());
        let (topics, errors) = topics::check(&jobs, only, &delivered, request.repair, progress).await;
        answer.topics = topics;
        answer.errors.extend(errors);
    }
    for spec in specs {
        let id = spec.id.to_string();
        let checked = match session.queue(spec).await {
            Ok(queue) => {
                let checked = check(&queue, request, &mut |looked| progress(&id, looked)).await;
                if request.repair { queue.tell("fsck", "--repair", checked, Checked::repaired).await } else { checked }
            }
            Err(error) => Err(error),
        };
        match checked {
            Ok(checked) => answer.queues.push(checked),
            Err(error) => answer.errors.push(QueueError { queue: id, message: error.message }),
        }
    }
    Ok(answer)
}

async fn check(queue: &Queue, request: FsckScope, progress: &mut (dyn FnMut(u64) + Send)) -> Result<Checked, Error> {
    let mut checked = look(queue, request, progress).await?;
    // A key of another type hides everything else. Once it is out of the way, the rest can be read.
    let hidden = |finding: &FaultCount| finding.explanation.fault == explanation(Fault::ForeignType).fault;
    if checked.findings.iter().any(|finding| hidden(finding) && finding.repaired == finding.count) {
        let rest = look(queue, request, progress).await?;
        checked.findings.extend(rest.findings);
        checked.looked_at += rest.looked_at;
        checked.not_checked = rest.not_checked;
    }
    Ok(checked)
}

async fn look(queue: &Queue, request: FsckScope, progress: &mut (dyn FnMut(u64) + Send)) -> Result<Checked, Error> {
    let what = format!("check `{}`", queue.id());
    let conn = &queue.conn;
    let ledger = &queue.ledger;
    let sinks: Vec<Arc<str>> = queue.spec.to.iter().map(|route| route.sink.clone()).collect();
    let grace = conn.command_timeout().saturating_mul(2);
    let terms = Terms { lease: queue.spec.lease, grace, sinks };
    let mut found = Found::new(progress);
    ledger.look_for_faults(conn, &terms, &mut found).await.attempt(&what)?;
    let Found { mut suspects, seen, looked_at, unchecked, .. } = found;
    if !suspects.is_empty() {
        tokio::time::sleep(BETWEEN).await;
    }
    // Leases first: an element that a daemon can find again is no last copy.
    suspects.sort_by_key(|suspect| suspect.fault);
    let mut findings: BTreeMap<Fault, FaultCount> = BTreeMap::new();
    for suspect in suspects {
        if !suspect.is_there(conn).await.attempt(&what)? {
            continue;
        }
        let kept = kept(&suspect, request.orphans);
        let repaired = request.repair && kept.is_none() && mend(queue, &suspect).await?;
        let finding = findings.entry(suspect.fault).or_insert_with(|| FaultCount {
            explanation: explanation(suspect.fault),
            count: 0,
            more: 0,
            repaired: 0,
            things: Vec::new(),
        });
        finding.count += 1;
        finding.more = seen.get(&suspect.fault).map_or(0, |seen| seen.saturating_sub(delaybridge_ledger::fsck::MOST));
        finding.repaired += usize::from(repaired);
        if finding.things.len() < NAMED {
            finding.things.push(Thing { name: suspect.subject, kept, repaired });
        }
    }
    Ok(Checked {
        queue: queue.id().to_owned(),
        looked_at,
        daemons: ledger.daemons(conn).await.attempt(&what)?,
        findings: findings.into_values().collect(),
        not_checked: unchecked,
    })
}

/// Why a repair leaves it.
fn kept(suspect: &Suspect, orphans: Orphans) -> Option<&'static str> {
    match (suspect.repair, suspect.fault, orphans) {
        (Repair::Kept(why), ..) => Some(why),
        (_, Fault::Orphan, Orphans::Keep) => Some("`--orphans keep`"),
        _ => None,
    }
}

async fn mend(queue: &Queue, suspect: &Suspect) -> Result<bool, Error> {
    let what = format!("repair `{}`: {}", queue.id(), suspect.subject);
    match suspect.repair {
        Repair::Turn => {
            sweep::turn(queue, &what).await?;
            Ok(!suspect.is_there(&queue.conn).await.attempt(&what)?)
        }
        _ => suspect.mend(&queue.conn).await.attempt(&what),
    }
}
