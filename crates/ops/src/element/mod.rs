//! One element by its id: where it is and what is known of it ([`find`]), why it is there
//! ([`why`]), and what an operator does with it ([`act`]).

mod act;
mod detail;
mod kill;
mod why;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use self::act::{ActOutcome, ActedElement, Action, NewState, When, act, time_of};
pub use self::detail::{Detail, Holder};
pub use self::kill::KILLED;
pub use self::why::{
    AtDaemon, Cure, ElementWhy, Obstacle, ObstacleKind, Remedy, SeenAttempt, SeenEvent, Whereabouts, why,
};
use super::error::{Attempted, Error};
use super::overview::Hold;
use super::pause::{PauseState, paused_of};
use super::session::Queue;
use delaybridge_core::message::Identity;
use delaybridge_ledger::claims::{Element, Part};
use delaybridge_ledger::{BATCH_BYTES, DeadLetter, Located, Order, Place, redis_now_ms};
use delaybridge_link::Score;

/// Searches of a queue: one search misses an element that moves from a place that is still to be searched to one that
/// was.
const SEARCHES: usize = 2;

/// An element, and the queue that it is in.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Element", extend("additionalProperties" = true))]
pub struct FoundElement {
    /// The queue.
    pub queue: String,
    /// Redis time.
    pub now_ms: i64,
    /// The pauses of the queue and of its sinks.
    pub paused: Vec<PauseState>,
    /// The reason why the daemon that was asked claims nothing from the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Map<String, Value>>")]
    pub held: Option<Hold>,
    /// The element.
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub elements: [Detail; 1],
}

/// An element as it was met.
pub(super) enum Met {
    /// In the queue: scheduled, waiting for a retry, in flight.
    Alive(Box<Located>, Box<Element>),
    /// Among the dead letters; of several with the same id the latest.
    Dead(Box<DeadLetter>),
}

/// Finds the element with this id, and everything that Redis knows of it. The server searches the whole queue. What moves
/// meanwhile is looked for once more.
///
/// # Errors
///
/// When no element can be called so, when there is none, and when Redis cannot be asked.
pub async fn find(queue: &Queue, id: &str) -> Result<FoundElement, Error> {
    let what = format!("find {id} in `{}`", queue.id());
    let met = meet(queue, id, &what).await?;
    let now_ms = redis_now_ms(&queue.conn).await.attempt(&what)?;
    let detail = match met {
        Met::Alive(located, element) => Detail::alive(queue, &located, &element),
        Met::Dead(letter) => Detail::dead(queue, *letter),
    };
    let paused = paused_of(queue, &what).await?;
    Ok(FoundElement { queue: queue.id().to_owned(), now_ms, paused, held: None, elements: [detail] })
}

/// Returns the element that is meant, alive or dead.
pub(super) async fn meet(queue: &Queue, id: &str, what: &str) -> Result<Met, Error> {
    if super::dead::is_place(id)
        && let Some(letter) = queue.ledger.dead_letter(&queue.conn, id).await.attempt(what)?
    {
        return Ok(Met::Dead(Box::new(letter)));
    }
    let wanted = queue.identity(id)?;
    for _ in 0..SEARCHES {
        if let Some(met) = search(queue, &wanted, what).await? {
            return Ok(met);
        }
    }
    Err(Error::not_found(format!(
        "{what}: not found among the scheduled, retried, in-flight and dead elements; it was delivered or cancelled, or is junk \
         and so has no id, or a Redisson client has transferred it to the ready list, where elements have none"
    )))
}

async fn search(queue: &Queue, wanted: &Identity, what: &str) -> Result<Option<Met>, Error> {
    let Some(located) = queue.ledger.locate(&queue.conn, wanted).await.attempt(what)? else {
        return Ok(dead(queue, wanted, what).await?.map(|letter| Met::Dead(Box::new(letter))));
    };
    let element = element(queue, &located, what).await?;
    Ok(Some(Met::Alive(Box::new(located), Box::new(element))))
}

/// Returns the element with its header, and its body where that is elsewhere.
async fn element(queue: &Queue, located: &Located, what: &str) -> Result<Element, Error> {
    let bare =
        located.place == Place::Scheduled || located.claim.as_ref().is_some_and(|claim| claim.part == Part::Bare);
    let score = located.score.unwrap_or(Score::of_ms(0));
    let member = located.member.clone();
    let entry = if bare { None } else { Element::entry(member.clone(), score.ceil_ms()) };
    let mut element = [entry.unwrap_or_else(|| queue.ledger.source().bare(member, score))];
    queue.ledger.fetch(&queue.conn, &mut element, BATCH_BYTES).await.attempt(what)?;
    let [element] = element;
    Ok(element)
}

/// Returns the latest dead letter of the element.
async fn dead(queue: &Queue, wanted: &Identity, what: &str) -> Result<Option<DeadLetter>, Error> {
    let mut letters = queue.ledger.dead_letters(&queue.conn, Order::Newest).await.attempt(what)?;
    loop {
        let page = letters.next(&queue.conn, usize::MAX).await.attempt(what)?;
        if page.is_empty() {
            return Ok(None);
        }
        let is_it = |letter: &DeadLetter| letter.identity().is_some_and(|own| own.id == wanted.id);
        if let Some(letter) = page.into_iter().find(is_it) {
            return Ok(Some(letter));
        }
    }
}
