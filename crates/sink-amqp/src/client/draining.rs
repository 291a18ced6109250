//! A channel on which a message has had no answer for long: nothing more is published there, and the outstanding answers
//! are awaited.
//!
//! Messages that were sent behind a route without an answer are in doubt and count no attempt.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::flight::Flight;
use super::message::attempt;
use super::session::AmqpSession;
use crate::errors;
use delaybridge_sink::Destination;

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(100);
/// Messages behind the silent one get this time while a newer channel works.
const GRACE: Duration = Duration::from_millis(500);

/// Waits for the answers that are still to come. Messages of other routes than the silent one are in doubt, and not at fault:
/// they are answered so as soon as it is certain that the broker itself answers, or when the channel ends. `newest` is the
/// number of the last channel of this publisher that has had an answer.
pub(super) async fn drain(
    mut flight: Flight,
    number: u64,
    session: Arc<AmqpSession>,
    silent: Destination,
    newest: Arc<AtomicU64>,
) {
    let begun = Instant::now();
    let behind = |flight: &mut Flight| {
        for item in flight.release(|destination| destination.lane() != silent.lane()) {
            let failure = errors::behind(&attempt(&item.message().destination));
            item.finish(Err(failure));
        }
    };
    while !flight.is_empty() && flight.is_usable() && session.is_up() {
        if flight.due().is_none_or(|due| Instant::now() >= due + GRACE) {
            break;
        }
        if newest.load(Ordering::Relaxed) > number && begun.elapsed() >= GRACE {
            behind(&mut flight);
        }
        // Answers first. Both are cancel safe.
        tokio::select! {
            biased;
            () = flight.answered(), if !flight.is_empty() => {}
            () = tokio::time::sleep(LOOK) => {}
        }
    }
    if flight.has_unsent() {
        // It would leave after its answer.
        session.give_up();
    }
    behind(&mut flight);
    let (left, cause) = flight.end();
    for item in left {
        let failure = cause.in_doubt(&attempt(&item.message().destination));
        item.finish(Err(failure));
    }
}
