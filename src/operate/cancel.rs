//! Removes one unclaimed element.

use serde::Serialize;

use super::error::{Attempt, Error, may_have_run};
use super::peek::State;
use super::session::Queue;
use crate::message::Identity;
use crate::source::ledger::Place;

/// What was cancelled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cancelled {
    /// The queue.
    pub queue: String,
    /// The element.
    pub elements: [CancelledElement; 1],
}

/// An element that is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CancelledElement {
    /// Its id.
    pub id: Identity,
    /// Where it was.
    pub cancelled_from: State,
}

/// Removes an element that is scheduled or waits for a retry.
///
/// # Errors
///
/// When it is not there, when it is in flight, and when Redis cannot be asked.
pub async fn cancel(queue: &Queue, id: &str) -> Result<Cancelled, Error> {
    let what = format!("cancel {id} in `{}`", queue.id());
    let id = queue.identity(id)?;
    let Some(found) = queue.ledger.locate(&queue.conn, &id).await.attempt(&what)? else {
        return Err(Error::not_found(format!(
            "{what}: not found among the scheduled, retried and in-flight elements; it was delivered or cancelled, \
             is a dead letter (`delaybridge dead ls {}`), or is junk and so has no id",
            queue.id()
        )));
    };
    let cancelled_from = match found.place {
        Place::Scheduled => State::Scheduled,
        Place::Retry => State::Retry,
        Place::InFlight | Place::Ready => return Err(in_flight(&what)),
    };
    let cancelled = match cancelled_from {
        State::Retry => queue.ledger.cancel_retry(&queue.conn, found.member).await,
        _ => queue.ledger.source().cancel(&queue.conn, &found.member).await,
    };
    match cancelled {
        Ok(true) => Ok(Cancelled { queue: queue.id().to_owned(), elements: [CancelledElement { id, cancelled_from }] }),
        // Claimed between the search and the removal: only a claim takes an element from there.
        Ok(false) => Err(in_flight(&what)),
        Err(error) if may_have_run(&error) => Err(Error::failed(format!(
            "{what}: {error}; it may have been cancelled: run the command again, which does no harm"
        ))),
        Err(error) => Err(error).attempt(&what),
    }
}

fn in_flight(what: &str) -> Error {
    Error::conflict(format!(
        "{what}: it is in flight and cannot be cancelled: a daemon has claimed it and may be delivering it now; try again \
         if it comes back for a retry"
    ))
}
