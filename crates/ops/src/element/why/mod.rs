//! Why an element is where it is: what it waits for, what was tried, what would deliver it now ([`why()`]). The explanation is a
//! pure function of facts; the facts are reads of `peek --id` and of the gauges, and what a daemon knows beside them.

mod answer;
mod explain;
mod facts;
mod order;
mod remedies;
#[cfg(test)]
mod tests;

pub use self::answer::{
    AtDaemon, Cure, ElementWhy, Obstacle, ObstacleKind, Remedy, SeenAttempt, SeenEvent, Whereabouts,
};
use self::explain::explain;
use self::facts::{WhyFacts, WhyRules};
use self::order::{OrderedElement, predecessor};
use super::{Detail, Met, Wanted, meet};
use crate::error::{Attempted, Error, ErrorKind};
use crate::operation::Scene;
use crate::pause::paused_of;
use crate::peek::PeekState;
use delaybridge_core::message::Identity;
use delaybridge_ledger::redis_now_ms;

/// Changes of operators among which that of an element is looked for.
const CHANGES: usize = 1_000;

/// Explains the element that is meant, with what the daemon knows of it if this is one; one that is nowhere is explained as gone. Costs a
/// search of the queue by the server, and the counts of the gauges. Answers all that is in Redis of it too, unless it is gone.
///
/// # Errors
///
/// When no element can be called so, when the search was ended, and when Redis cannot be asked.
pub async fn why(scene: &Scene, queue: &str, wanted: Wanted<'_>) -> Result<(ElementWhy, Option<Detail>), Error> {
    let queue = &scene.queue(queue).await?;
    let id = wanted.id;
    let what = format!("explain {id} in `{}`", queue.id());
    let mut payload = None;
    let detail = match meet(queue, wanted, &what, &mut *scene.patience()).await {
        Ok(met) => {
            if let Met::Alive(_, element) = &met {
                payload = queue.ledger.open(element).1.ok();
            }
            Some(met.detail(queue))
        }
        Err(error) if error.kind == ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let now_ms = redis_now_ms(&queue.conn).await.attempt(&what)?;
    let due_ms = detail.as_ref().filter(|detail| detail.state == PeekState::Scheduled).and_then(|detail| detail.due_ms);
    let before = match due_ms.filter(|due_ms| *due_ms <= now_ms) {
        Some(due_ms) => {
            queue.ledger.due_between(&queue.conn, &[(i64::MIN, due_ms.saturating_sub(1))]).await.attempt(&what)?.pop()
        }
        None => None,
    };
    let in_order = detail.as_ref().filter(|detail| detail.due_ms.is_some_and(|due_ms| due_ms <= now_ms));
    let predecessor = match in_order.and_then(|detail| Some((detail.id.as_ref()?, detail.due_ms?, payload.as_ref()?))) {
        Some((id, due_ms, payload)) => predecessor(queue, &OrderedElement { id, due_ms, payload }, &what).await?,
        None => None,
    };
    // Best effort: an operator without that right is answered too.
    let change = match &detail {
        None => queue.kept_changes(CHANGES).await.unwrap_or_default().into_iter().find(|change| change.which == id),
        Some(_) => None,
    };
    let identity = match detail.as_ref().and_then(|detail| detail.id.clone()) {
        Some(identity) => Some(identity),
        None => queue.identity(id).ok(),
    };
    let known = |id: &Identity| scene.live().map(|live| live.of_element(queue, id)).unwrap_or_default();
    let at_daemon = scene.live().map(|_| identity.as_ref().map(known).unwrap_or_default());
    let found = explain(&WhyFacts {
        queue: queue.id(),
        id,
        now_ms,
        detail: detail.as_ref(),
        rules: WhyRules::of(&queue.spec),
        paused: &paused_of(queue, &what).await?,
        daemons: queue.daemons().await,
        before: before.unwrap_or(0),
        predecessor: predecessor.as_ref(),
        daemon: at_daemon.as_ref(),
        change: change.as_ref(),
    });
    Ok((found, detail))
}
