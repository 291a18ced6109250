//! Who did what when: the changes of operators that are kept beside the queues, over Redis and over daemons alike.

use std::sync::Arc;

use futures_util::future::join_all;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::content::bounded;
use super::error::{Attempted, Error, QueueError};
use super::note::OperatorNote;
use super::session::{Queue, Session, find};
use delaybridge_ledger::ChangeRecord;
use delaybridge_model::QueueSpec;

/// Queues that are read at the same time: an entry may be as large as a stranger makes it.
const SIDE_BY_SIDE: usize = 8;
/// Most changes that are answered.
pub const MOST: usize = 1_000;

/// Changes of operators, the latest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Audit")]
pub struct AuditTrail {
    /// The changes.
    pub changes: Vec<OperatorChange>,
    /// Queues that could not be read.
    pub errors: Vec<QueueError>,
}

/// One change of an operator, or an attempt at one. No payload.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OperatorChange {
    /// Redis time.
    pub at_ms: i64,
    /// The queue.
    pub queue: String,
    /// The command.
    pub what: String,
    /// The subject in the queue: an element's id, the filter of dead letters, a sink.
    pub which: String,
    /// The name of the token, or the person and the host.
    pub by: String,
    /// The address of the client of a daemon; empty over Redis.
    #[serde(default)]
    pub from: String,
    /// The result; none if it failed.
    #[serde(default)]
    pub result: Option<String>,
    /// The problem, if it failed.
    #[serde(default)]
    pub problem: Option<String>,
}

impl OperatorChange {
    fn read(queue: &str, record: ChangeRecord) -> OperatorChange {
        let ChangeRecord { at_ms, mut fields } = record;
        // Whoever may write there can write anything.
        let mut field = |name: &str| fields.remove(name).map(|text| bounded(&text));
        OperatorChange {
            at_ms,
            queue: queue.to_owned(),
            what: field("what").unwrap_or_default(),
            which: field("which").unwrap_or_default(),
            by: field("by").unwrap_or_default(),
            from: field("from").unwrap_or_default(),
            result: field("result"),
            problem: field("problem"),
        }
    }
}

impl Queue {
    /// Keeps a change beside the queue; `from` is the address of a daemon's client. Best effort: the change is done, and who may not
    /// write there may still change.
    pub async fn keep_change(&self, note: &OperatorNote, from: &str) {
        let outcome = match (&note.problem, &note.result) {
            (Some(problem), _) => ("problem", problem.as_str()),
            (None, result) => ("result", result.as_deref().unwrap_or_default()),
        };
        let fields = [("what", note.what.as_str()), ("which", &note.which), ("by", &note.by), ("from", from), outcome];
        let _ = self.ledger.keep_change(&self.conn, &fields).await;
    }

    /// Returns the latest changes of the queue, the latest first.
    pub(super) async fn kept_changes(&self, most: usize) -> Result<Vec<OperatorChange>, Error> {
        let what = format!("read the changes of `{}`", self.id());
        let kept = self.ledger.changes(&self.conn, most).await.attempt(&what)?;
        Ok(kept.into_iter().map(|record| OperatorChange::read(self.id(), record)).collect())
    }
}

/// Reads the latest changes of a queue, or of all queues; one that cannot be read does not keep the others from being read.
///
/// # Errors
///
/// When there is no such queue.
pub async fn audit(session: &Session, queue: Option<&str>, most: usize) -> Result<AuditTrail, Error> {
    let wanted = match queue {
        Some(queue) => vec![find(&session.config, queue)?],
        None => session.config.queues.clone(),
    };
    Ok(audit_of(session, &wanted, most).await)
}

/// Reads the latest changes of these queues together.
pub async fn audit_of(session: &Session, wanted: &[Arc<QueueSpec>], most: usize) -> AuditTrail {
    let mut trail = AuditTrail::default();
    for some in wanted.chunks(SIDE_BY_SIDE) {
        let read = some.iter().map(async |spec| session.queue(spec.clone()).await?.kept_changes(most).await);
        for (spec, found) in some.iter().zip(join_all(read).await) {
            match found {
                Ok(changes) => trail.changes.extend(changes),
                Err(error) => {
                    trail.errors.push(QueueError { queue: spec.id.to_string(), message: error.message });
                }
            }
        }
        trail.changes.sort_by_key(|change| std::cmp::Reverse(change.at_ms));
        trail.changes.truncate(most);
    }
    trail
}
