//! What an operator does with one element: another time, its end, the dead letters.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Met, SeenAttempt, Wanted, kill, meet};
use crate::error::{Attempted, Error, may_have_run};
use crate::operation::OperatorAct;
use crate::peek::PeekState;
use crate::plural;
use crate::progress::ProgressWatch;
use crate::session::Queue;
use delaybridge_core::clock::utc;
use delaybridge_core::message::Identity;
use delaybridge_ledger::claims::{Body, Element};
use delaybridge_ledger::{DeadLetter, Located, NewBody, Place, Removal, redis_now_ms};

/// Attempts to find an element that moved before it could be acted on.
const TRIES: usize = 3;
/// The last time that an element can be given: the end of the year 9999.
const LAST_MS: i64 = 253_402_300_799_999;

/// An action on an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action<'a> {
    /// Due at this time.
    Reschedule(When),
    /// Gone for good.
    Cancel,
    /// To the dead letters.
    Kill {
        /// The person.
        by: &'a str,
        /// Why.
        why: &'a str,
        /// The failed attempts that the daemon which does it has seen.
        seen: &'a [SeenAttempt],
    },
}

/// A time by the clock of Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// At once.
    Now,
    /// So long from now.
    In(Duration),
    /// At this time in ms.
    At(i64),
}

/// The outcome of an action.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("additionalProperties" = true))]
pub struct ActOutcome {
    /// The queue.
    pub queue: String,
    /// Redis time.
    pub now_ms: i64,
    /// The element.
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub elements: [ActedElement; 1],
}

/// An element that was acted on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ActedElement {
    /// The element's id.
    pub id: Identity,
    /// The state before.
    pub was: PeekState,
    /// The new state.
    pub state: NewState,
    /// The time at which it is due, or tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_ms: Option<i64>,
    /// The time at which it was due, or would have been tried again, where it got another time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was_due_ms: Option<i64>,
    /// Whether it was so already, and nothing was changed.
    pub unchanged: bool,
    /// The new id, where ids are hashes over the due time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_id: Option<Identity>,
}

impl ActedElement {
    /// Returns what was done with it, for a counter; `None` if it only got another time.
    pub(crate) fn done(&self) -> Option<OperatorAct> {
        match (self.was, self.state) {
            (_, NewState::Gone) => Some(OperatorAct::Cancelled),
            (_, NewState::Dead) => Some(OperatorAct::Killed),
            (PeekState::Dead, NewState::Scheduled | NewState::Retry) => Some(OperatorAct::Redriven),
            (_, NewState::Scheduled | NewState::Retry) => None,
        }
    }

    /// Returns the outcome in words, for a log.
    pub fn words(&self) -> String {
        let unchanged = if self.unchanged { ", as it was" } else { "" };
        let due = self.due_ms.map(|due_ms| format!(", due at {}", utc(due_ms))).unwrap_or_default();
        let before = self.was_due_ms.map(|due_ms| format!(", before at {}", utc(due_ms))).unwrap_or_default();
        format!("{} -> {}{due}{before}{unchanged}", self.was.as_str(), self.state.as_str())
    }
}

/// The state of an element after an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NewState {
    /// Waiting for its due time.
    Scheduled,
    /// Waiting for its next attempt.
    Retry,
    /// A dead letter.
    Dead,
    /// Gone.
    Gone,
}

impl NewState {
    /// Returns the name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            NewState::Scheduled => "scheduled",
            NewState::Retry => "retry",
            NewState::Dead => "dead",
            NewState::Gone => "gone",
        }
    }
}

/// A time before that is one in seconds, or a mistake: it would not be delivered, or as years late.
const TEN_YEARS_MS: i64 = 10 * 366 * 86_400_000;

/// Returns the time that is meant, in ms.
///
/// # Errors
///
/// For one beyond the calendar, and for one that was hardly meant.
pub fn time_of(when: When, now_ms: i64) -> Result<i64, Error> {
    let at = match when {
        When::Now => Some(now_ms),
        When::In(delay) => i64::try_from(delay.as_millis()).ok().and_then(|delay| now_ms.checked_add(delay)),
        When::At(ms) if ms >= 0 && ms < now_ms.saturating_sub(TEN_YEARS_MS) => {
            return Err(Error::invalid(
                "reschedule: the time is more than ten years ago: it counts in milliseconds since 1970; `run-now` is for now",
            ));
        }
        When::At(ms) => Some(ms),
    };
    at.filter(|ms| (0..=LAST_MS).contains(ms))
        .ok_or_else(|| Error::invalid("reschedule: the time is beyond the year 9999, or before 1970"))
}

impl Action<'_> {
    pub(crate) fn verb(self) -> &'static str {
        match self {
            Action::Reschedule(When::Now) => "run-now",
            Action::Reschedule(_) => "reschedule",
            Action::Cancel => "cancel",
            Action::Kill { .. } => "kill",
        }
    }
}

/// The outcome of one attempt.
enum Try {
    Done(ActedElement),
    /// The element is not any more what was met.
    Again,
}

/// Does it with the element that is meant, which is scheduled, waits for a retry or is dead. Repeated, it does no harm. `watch` sees how far
/// the search for it is, and may end that.
///
/// # Errors
///
/// When it is in flight or not there, when the search was ended, when the time or the words cannot be, and when Redis cannot be asked.
pub async fn act(
    queue: &Queue,
    wanted: Wanted<'_>,
    action: Action<'_>,
    watch: &mut dyn ProgressWatch,
) -> Result<ActOutcome, Error> {
    let what = format!("{} {} in `{}`", action.verb(), wanted.id, queue.id());
    for _ in 0..TRIES {
        let met = meet(queue, wanted, &what, watch).await?;
        let now_ms = redis_now_ms(&queue.conn).await.attempt(&what)?;
        let tried = match met {
            Met::Alive(located, _) if located.place == Place::InFlight => {
                return Err(in_flight(&located, action, now_ms, &what));
            }
            Met::Alive(located, element) => alive(queue, &located, &element, action, now_ms).await,
            Met::Dead(letter) => dead(queue, &letter, action, now_ms).await,
        };
        match tried.map_err(|error| unknown(error, &what))? {
            Try::Done(element) => return Ok(ActOutcome { queue: queue.id().to_owned(), now_ms, elements: [element] }),
            Try::Again => {}
        }
    }
    Err(Error::conflict(format!("{what}: it moves faster than it can be met; nothing was changed, try again")))
}

/// Why a try has no answer.
enum ActFailure {
    Source(delaybridge_ledger::StoreError),
    Refused(Error),
}

impl<E: Into<delaybridge_ledger::StoreError>> From<E> for ActFailure {
    fn from(error: E) -> Self {
        ActFailure::Source(error.into())
    }
}

fn unknown(failure: ActFailure, what: &str) -> Error {
    match failure {
        ActFailure::Refused(error) => error,
        ActFailure::Source(error) if may_have_run(&error) => {
            Error::failed(format!("{what}: {error}; it may have been done: run the command again, which does no harm"))
        }
        ActFailure::Source(error) => match Err::<(), _>(error).attempt(what) {
            Err(error) => error,
            Ok(()) => Error::failed(what),
        },
    }
}

/// One that is scheduled, or waits for a retry.
async fn alive(
    queue: &Queue,
    located: &Located,
    element: &Element,
    action: Action<'_>,
    now_ms: i64,
) -> Result<Try, ActFailure> {
    let ledger = &queue.ledger;
    let scheduled = located.place == Place::Scheduled;
    let id = ledger.open(element).0;
    let was = if scheduled { PeekState::Scheduled } else { PeekState::Retry };
    let mut was_due_ms = None;
    let (acted, state, due_ms) = match action {
        Action::Reschedule(when) => {
            let at_ms = time_of(when, now_ms).map_err(ActFailure::Refused)?;
            let own_ms = located
                .score
                .map(|score| if scheduled { ledger.source().unit().due_ms(score) } else { score.ceil_ms() });
            let state = if scheduled { NewState::Scheduled } else { NewState::Retry };
            if when == When::Now && own_ms.is_some_and(|own| own <= now_ms) {
                // Due already: what waits for a pause or a hold would lose its place to others.
                (delaybridge_ledger::Acted::Already, state, own_ms)
            } else {
                let body = if scheduled { new_body(queue, element, at_ms).map_err(ActFailure::Refused)? } else { None };
                let acted = ledger.reschedule(&queue.conn, located, at_ms, body.as_ref()).await?;
                was_due_ms = own_ms;
                (acted, state, Some(ledger.due_at(located.place, at_ms)))
            }
        }
        Action::Cancel => (ledger.remove(&queue.conn, located, &Removal::ForGood).await?, NewState::Gone, None),
        Action::Kill { by, why, seen } => {
            let message = format!("killed by {by}: {why}");
            let fields = kill::fields(queue, &id, element, now_ms, &message, seen);
            let removal = Removal::Dead { fields, body: element.body_bytes().cloned() };
            (ledger.remove(&queue.conn, located, &removal).await?, NewState::Dead, None)
        }
    };
    let unchanged = match acted {
        delaybridge_ledger::Acted::Done => false,
        delaybridge_ledger::Acted::Already => true,
        delaybridge_ledger::Acted::Gone | delaybridge_ledger::Acted::Moved | delaybridge_ledger::Acted::Rewritten => {
            return Ok(Try::Again);
        }
    };
    let new_id = due_ms.filter(|_| scheduled && !unchanged).map(|due_ms| renamed(queue, located, due_ms));
    let new_id = new_id.filter(|new| *new != id);
    Ok(Try::Done(ActedElement { id, was, state, due_ms, was_due_ms, unchanged, new_id }))
}

/// Returns the id that the element has with its new score.
fn renamed(queue: &Queue, located: &Located, due_ms: i64) -> Identity {
    let source = queue.ledger.source();
    let element = source.bare(located.member.clone(), source.unit().whole(due_ms));
    queue.ledger.open(&element).0
}

/// Returns the body with the new time in it, where it says when it is due.
fn new_body(queue: &Queue, element: &Element, at_ms: i64) -> Result<Option<NewBody>, Error> {
    let Some(Body::Here { bytes, .. }) = element.body.as_deref() else { return Ok(None) };
    let refused = |why: &str| {
        Error::conflict(format!("give an element of `{}` another time: {why}; nothing was changed", queue.id()))
    };
    let Some(bodies) = queue.ledger.source().bodies() else { return Ok(None) };
    let new = bodies.due_anew(bytes, at_ms).map_err(refused)?;
    Ok(new.map(|is| NewBody { was: bytes.clone(), is }))
}

/// Returns a dead letter: it is redriven, due at that time, or goes for good.
async fn dead(queue: &Queue, letter: &DeadLetter, action: Action<'_>, now_ms: i64) -> Result<Try, ActFailure> {
    let id = letter.identity().unwrap_or_else(|| delaybridge_core::message::MessageId([0; 8]).into());
    let place = letter.stream_id.clone();
    let was_due_ms = None;
    let done = |state, due_ms, unchanged| {
        Ok(Try::Done(ActedElement {
            id: id.clone(),
            was: PeekState::Dead,
            state,
            due_ms,
            was_due_ms,
            unchanged,
            new_id: None,
        }))
    };
    match action {
        Action::Reschedule(when) => {
            let at_ms = time_of(when, now_ms).map_err(ActFailure::Refused)?;
            let member = letter.reborn().map_err(|error| ActFailure::Refused(Error::conflict(error.to_string())))?;
            let at = Some(at_ms).filter(|_| when != When::Now);
            if !queue.ledger.redrive(&queue.conn, letter, member, at).await? {
                return if queue.ledger.dead_letter(&queue.conn, &place).await?.is_some() {
                    Err(ActFailure::Refused(Error::conflict(format!(
                        "redrive dead letter {place} of `{}`: the same element waits already, or its job was written again; \
                         nothing was changed",
                        queue.id()
                    ))))
                } else {
                    Ok(Try::Again)
                };
            }
            // Daemons look by themselves too, only later.
            let _ = queue.ledger.announce_change(&queue.conn).await;
            done(NewState::Retry, Some(at_ms), false)
        }
        Action::Cancel => match queue.ledger.purge(&queue.conn, &[place]).await? {
            0 => Ok(Try::Again),
            _ => done(NewState::Gone, None, false),
        },
        Action::Kill { .. } => done(NewState::Dead, None, true),
    }
}

fn in_flight(located: &Located, action: Action<'_>, now_ms: i64, what: &str) -> Error {
    let held = located.claim.as_ref().map_or_else(String::new, |claim| {
        let left = claim.until_ms.saturating_sub(now_ms);
        let lease = match u64::try_from(left) {
            Ok(left) => {
                format!("lease until {}, in {}", delaybridge_core::clock::utc(claim.until_ms), plural::duration(left))
            }
            Err(_) => "its lease is over, and the next daemon takes it over".to_owned(),
        };
        let daemon = delaybridge_core::message::MessageId(claim.name.owner);
        format!(" with daemon {daemon} (claim {}), {lease}", claim.name)
    });
    let end = if action == Action::Cancel { "cannot be cancelled" } else { "is left to it" };
    Error::conflict(format!(
        "{what}: it is in flight{held}: it may be delivered right now, and {end}; try again if it comes back for a retry"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use delaybridge_core::message::MessageId;

    #[test]
    fn another_due_time_is_told_with_the_one_before() {
        let mut acted = ActedElement {
            id: MessageId(*b"RANDOM8B").into(),
            was: PeekState::Scheduled,
            state: NewState::Scheduled,
            due_ms: Some(1_795_255_200_000),
            was_due_ms: Some(1_795_251_632_252),
            unchanged: false,
            new_id: None,
        };
        let words = "scheduled -> scheduled, due at 2026-11-21T10:00:00Z, before at 2026-11-21T09:00:32Z";
        assert_eq!(acted.words(), words);
        (acted.was_due_ms, acted.unchanged) = (None, true);
        assert_eq!(acted.words(), "scheduled -> scheduled, due at 2026-11-21T10:00:00Z, as it was");
    }
}
