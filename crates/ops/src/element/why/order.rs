//! The element that another one waits for in a queue with an order: the earliest of those before it that is not delivered.

use crate::error::{Attempted, Error};
use crate::peek::PeekState;
use crate::search::payloads;
use crate::session::Queue;
use delaybridge_core::message::Identity;
use delaybridge_core::template::ElementInfo;
use delaybridge_ledger::{BATCH_ENTRIES, Place, Seen, Show};
use delaybridge_model::Ordered;

/// Elements of each place that are looked at.
const LOOKED_AT: usize = 1_000;
/// The places of elements that are not delivered, those that delay the others first.
const PLACES: [(Place, PeekState); 3] = [
    (Place::InFlight, PeekState::InFlight),
    (Place::Retry, PeekState::Retry),
    (Place::Scheduled, PeekState::Scheduled),
];

pub(super) struct OrderedElement<'a> {
    pub id: &'a Identity,
    pub due_ms: i64,
    pub payload: &'a bytes::Bytes,
}

/// The element before another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Predecessor {
    pub id: String,
    pub state: PeekState,
    pub due_ms: i64,
    /// Attempts that counted so far.
    pub attempts: u32,
    /// Code of the last failure.
    pub code: String,
    pub next_attempt_ms: Option<i64>,
}

/// Finds the earliest element before this one, in its key where the order is by key. Looks at a bounded number of elements.
pub(super) async fn predecessor(
    queue: &Queue,
    own: &OrderedElement<'_>,
    what: &str,
) -> Result<Option<Predecessor>, Error> {
    let Some(order) = queue.spec.order.as_deref() else { return Ok(None) };
    let by_key = matches!(order, Ordered::Key(_));
    let key = |id: &Identity, due_ms, payload: &bytes::Bytes| {
        let info = ElementInfo { id, queue: &queue.spec.id, due_ms, attempt: 1, topic: None, carried: None };
        queue.spec.order_key(&info, payload)
    };
    let own_key = if by_key { key(own.id, Some(own.due_ms), own.payload) } else { None };
    if by_key && own_key.is_none() {
        // Nothing else has its key.
        return Ok(None);
    }
    let mut first: Option<Predecessor> = None;
    for (place, state) in PLACES {
        let mut passed = 0;
        'pages: while passed < LOOKED_AT {
            let most = BATCH_ENTRIES.min(LOOKED_AT - passed);
            let page = queue.ledger.peek(&queue.conn, place, passed, most, Show::All).await.attempt(what)?;
            if page.seen.is_empty() {
                break;
            }
            passed += page.seen.len();
            let payloads =
                if by_key { payloads(queue, &page, state, what).await? } else { vec![None; page.seen.len()] };
            for (seen, payload) in page.seen.into_iter().zip(payloads) {
                let (Some(id), Some(due_ms)) = (seen.id.clone(), seen.due_ms) else { continue };
                if state == PeekState::Scheduled && due_ms > own.due_ms {
                    // They are in the order of their due times.
                    break 'pages;
                }
                let is_before = due_ms <= own.due_ms || state == PeekState::InFlight;
                let is_earlier = first.as_ref().is_none_or(|first| due_ms < first.due_ms);
                if id.id == own.id.id || !is_before || !is_earlier {
                    continue;
                }
                if by_key && payload.and_then(|payload| key(&id, Some(due_ms), &payload)) != own_key {
                    continue;
                }
                first = Some(Predecessor::new(&id, state, due_ms, &seen));
            }
        }
    }
    Ok(first)
}

impl Predecessor {
    fn new(id: &Identity, state: PeekState, due_ms: i64, seen: &Seen) -> Predecessor {
        let next_attempt_ms = seen.score_ms.filter(|_| state == PeekState::Retry);
        Predecessor {
            id: id.to_string(),
            state,
            due_ms,
            attempts: seen.attempts,
            code: seen.code.clone(),
            next_attempt_ms,
        }
    }
}
