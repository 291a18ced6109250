//! Claims that have lost their leases: no daemon finds what they hold.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::finding::{Health, LiveFinding, finding};
use crate::error::explained;
use crate::session::Queue;
use delaybridge_core::clock::Instant;
use delaybridge_ledger::claims::ClaimName;
use delaybridge_ledger::{StoreError, claims_with_keys};
use delaybridge_link::Conn;
use delaybridge_model::QueueSpec;

/// The time limit of the search through the keys of the database.
const LONGEST: Duration = Duration::from_secs(5);

/// Looks for claims of all queues that have keys and no lease.
pub(super) async fn look(conn: &Conn, queues: &[Arc<QueueSpec>]) -> LiveFinding {
    let what = "leases of claims";
    match unleased(conn, queues).await {
        Ok(Some(queues)) if queues.is_empty() => finding(what, Health::Well, "every claim has its lease"),
        Ok(Some(queues)) => {
            let of = |(queue, claims): &(String, usize)| format!("{claims} of {queue} (delaybridge recover {queue})");
            let detail = format!(
                "claims without a lease, because a key `leases` was deleted or evicted; no daemon finds what they \
                 hold: {}",
                queues.iter().map(of).collect::<Vec<_>>().join(", ")
            );
            finding(what, Health::Failed, detail)
        }
        Ok(None) => finding(what, Health::Well, "unknown: the database has more keys than can be looked through in 5s"),
        Err(StoreError::Refused { code: "NOPERM", .. }) => {
            finding(what, Health::Well, "not looked for: that takes the right to SCAN, as an operator has it")
        }
        Err(error) => finding(what, Health::Failed, explained(&error)),
    }
}

/// Counts claims without a lease, by queue.
async fn unleased(conn: &Conn, specs: &[Arc<QueueSpec>]) -> Result<Option<Vec<(String, usize)>>, StoreError> {
    // All of one Redis have the same prefix.
    let Some(first) = specs.first() else { return Ok(Some(Vec::new())) };
    let prefix = first.source.build().ledger_keys().space.prefix;
    let until = Instant::now().after(LONGEST);
    let Some(found) = claims_with_keys(conn, &prefix, None, Some(until)).await? else { return Ok(None) };
    let mut by_tag: BTreeMap<_, Vec<ClaimName>> = BTreeMap::new();
    for (tag, name) in found {
        by_tag.entry(tag).or_default().push(name);
    }
    let mut queues = Vec::new();
    for spec in specs {
        let queue = Queue::new(spec.clone(), conn.clone());
        let Some(names) = by_tag.get(queue.ledger.keys.tag.as_bytes()) else { continue };
        let without = queue.ledger.without_lease(conn, names).await?.len();
        if without > 0 {
            queues.push((spec.id.to_string(), without));
        }
    }
    Ok(Some(queues))
}
