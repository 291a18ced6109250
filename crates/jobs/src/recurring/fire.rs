//! Firing recurring jobs.

use super::calls::{ListedRecurring, RecurringSelection};
use super::plan::{FiringPlan, plan};
use super::{MAX_RECURRING, RecurringState};
use crate::error::JobError;
use crate::job::JobOperation;
use crate::name::{RecurringName, Topic};
use crate::queue::{JobQueue, millis, number, or_empty, text};
use delaybridge_link::{BadReply, Fields};

/// Number of due firings in a page: with all that a topic may have, it is not full, and no other is asked for.
const PAGE: usize = MAX_RECURRING + 1;
/// Maximum number of pages that are read at once.
const PAGES: usize = 10;

/// A due firing of a recurring job, and the decision about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedFiring {
    /// The recurring job.
    pub name: RecurringName,
    /// The firing that was due, in ms since 1970.
    pub due_ms: i64,
    revision: u64,
    priority: u8,
    plan: FiringPlan,
}

/// The due firings of a topic.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DueRecurring {
    /// The firings, the earliest first.
    pub firings: Vec<PlannedFiring>,
    /// The number of due recurring jobs that this version cannot read; the version that wrote them fires them.
    pub unreadable: u64,
}

/// The outcome of firing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fired {
    /// This call fired it.
    Done {
        /// Number of added jobs.
        added: u64,
        /// Number of firings that were missed, and for which no job was added.
        skipped: u64,
        /// Number of firings for which the topic had no room. They stay due.
        left: u64,
    },
    /// Another daemon has fired it, or it was changed, paused or removed meanwhile. Nothing was done.
    Elsewhere,
}

impl JobQueue {
    /// Reads the firings of a topic that are due, with the decision about each.
    ///
    /// # Errors
    ///
    /// Returns an error of the connection.
    pub async fn due_recurring(&self, topic: &Topic) -> Result<DueRecurring, JobError> {
        let mut due = DueRecurring::default();
        // There is another page if other programs write there.
        for page in 0..PAGES {
            let wanted = RecurringSelection::Due(page * PAGE);
            let ListedRecurring { now_ms, recurring, nameless, rows, .. } =
                self.list_recurring(topic, wanted, PAGE).await?;
            due.unreadable += nameless;
            for state in recurring {
                // After days without a daemon a plan takes milliseconds, and there may be many.
                tokio::task::yield_now().await;
                match planned(state, now_ms) {
                    Some(firing) => due.firings.push(firing),
                    None => due.unreadable += 1,
                }
            }
            if rows < PAGE {
                break;
            }
        }
        Ok(due)
    }

    /// Fires a recurring job as it was decided: adds as many jobs as the topic has room for. A second call, from this daemon or
    /// another one, does nothing.
    ///
    /// # Errors
    ///
    /// With [`JobError::Full`] there is no room at all: nothing was done, and the firing stays due.
    pub async fn fire(&self, topic: &Topic, firing: &PlannedFiring) -> Result<Fired, JobError> {
        let PlannedFiring { name, due_ms, revision, priority, plan } = firing;
        let settings = self.settings().of(topic);
        let mut args = vec![or_empty(settings.max_jobs.map(number)), text(topic.as_str())];
        args.extend([millis(settings.ttr), number(settings.tries), millis(settings.ttl.unwrap_or_default())]);
        args.extend([text(name.as_str()), number(*due_ms), number(*revision), or_empty(plan.next_ms.map(number))]);
        args.push(number(*priority));
        args.extend(plan.fires.iter().flat_map(|at| [text(&job_id(name, *at)), number(*at)]));
        let reply = self.run_on_all(&self.shared.scripts.recurring_fire, topic, &args).await?;
        let mut fields = Fields::of("jobs_recurring_fire", reply)?;
        let word = fields.text()?;
        self.observe(&mut fields)?;
        let mut count = || Ok::<_, BadReply>(u64::try_from(fields.int()?).unwrap_or(0));
        match word.as_str() {
            "y" => {
                let added = count()?;
                let left = count()?;
                if added > 0 {
                    self.counted(topic, JobOperation::Added, added);
                    self.tell(topic);
                }
                self.fired(topic, name, added, plan.skipped);
                Ok(Fired::Done { added, skipped: plan.skipped, left })
            }
            "n" => Ok(Fired::Elsewhere),
            "full" => Err(JobError::Full { topic: topic.clone(), limit: count()? }),
            _ => Err(BadReply { script: "jobs_recurring_fire", expected: "y, n or full" }.into()),
        }
    }

    /// Fires a recurring job if it is due, before it is changed. Returns the number of firings that cannot be fired: the topic or
    /// Redis has no room, or this version cannot read the rule. A person who pauses or removes it wants that all the same.
    pub(super) async fn fire_before_change(&self, topic: &Topic, name: &RecurringName) -> Result<u64, JobError> {
        let ListedRecurring { now_ms, mut recurring, .. } =
            self.list_recurring(topic, RecurringSelection::One(name), 1).await?;
        let due = recurring.pop().filter(|state| state.next_ms.is_some_and(|next_ms| next_ms <= now_ms));
        let Some(state) = due else { return Ok(0) };
        let Some(firing) = planned(state, now_ms) else { return Ok(1) };
        let all = firing.plan.fires.len() as u64 + firing.plan.skipped;
        match self.fire(topic, &firing).await {
            Ok(Fired::Done { left, .. }) => Ok(left),
            Ok(Fired::Elsewhere) => Ok(0),
            Err(JobError::Full { .. }) => Ok(all),
            Err(JobError::Unavailable(error)) if error.code() == Some("OOM") => Ok(all),
            Err(error) => Err(error),
        }
    }
}

/// Returns the firing of a recurring job that this version can read, as it is decided now.
fn planned(state: RecurringState, now_ms: i64) -> Option<PlannedFiring> {
    let definition = state.definition?;
    let due_ms = state.next_ms?;
    Some(PlannedFiring {
        plan: plan(&definition.schedule, definition.missed, due_ms, now_ms),
        name: state.name,
        due_ms,
        revision: state.revision,
        priority: definition.priority,
    })
}

/// Returns the id of the job of a firing, behind its topic: `NAME:2027-01-31T09:00:00Z`.
fn job_id(name: &RecurringName, at_ms: i64) -> String {
    let at = jiff::Timestamp::from_millisecond(at_ms).unwrap_or_default();
    format!("{name}:{at}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::LocalId;

    #[test]
    fn the_id_of_a_firing_is_an_id_of_a_job_however_long_the_name() {
        let name: RecurringName = "x".repeat(100).parse().unwrap();
        let id = job_id(&name, 1_801_386_000_000);
        assert!(id.ends_with(":2027-01-31T09:00:00Z") && id.parse::<LocalId>().is_ok(), "{id}");
        assert!("x".repeat(101).parse::<RecurringName>().is_err());
    }
}
