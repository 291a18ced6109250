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
use super::progress::{Progress, ProgressWatch};
use super::session::Queue;
use delaybridge_core::message::Identity;
use delaybridge_ledger::claims::{Element, Part};
use delaybridge_ledger::{BATCH_BYTES, DeadLetter, Located, Order, Place, ScheduleCursor, SearchStep, redis_now_ms};
use delaybridge_link::Score;

/// Scheduled elements of a queue that are more to search than its dead letters: these come first.
const DEEP: u64 = 100_000;

/// The element that is meant.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The id; of a dead letter its stream id too.
    pub id: &'a str,
    /// The due time, if the caller knows it: the element is found there at once, unless thousands have the same.
    pub due_ms: Option<i64>,
}

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

/// Finds the element with this id, and everything that Redis knows of it. The server searches the whole queue, unless the due time is
/// known; `watch` sees how far it is, and may end it.
///
/// # Errors
///
/// When no element can be called so, when there is none, when the search was ended, and when Redis cannot be asked.
pub async fn find(queue: &Queue, wanted: Wanted<'_>, watch: &mut dyn ProgressWatch) -> Result<FoundElement, Error> {
    let what = format!("find {} in `{}`", wanted.id, queue.id());
    let met = meet(queue, wanted, &what, watch).await?;
    let now_ms = redis_now_ms(&queue.conn).await.attempt(&what)?;
    let detail = met.detail(queue);
    let paused = paused_of(queue, &what).await?;
    Ok(FoundElement { queue: queue.id().to_owned(), now_ms, paused, held: None, elements: [detail] })
}

impl Met {
    /// Returns everything that is known of it.
    pub(super) fn detail(self, queue: &Queue) -> Detail {
        match self {
            Met::Alive(located, element) => Detail::alive(queue, &located, &element),
            Met::Dead(letter) => Detail::dead(queue, *letter),
        }
    }
}

/// Returns the element that is meant, alive or dead.
pub(super) async fn meet(
    queue: &Queue,
    wanted: Wanted<'_>,
    what: &str,
    watch: &mut dyn ProgressWatch,
) -> Result<Met, Error> {
    if let Some(met) = at_place(queue, wanted.id, what).await? {
        return Ok(met);
    }
    let identity = queue.identity(wanted.id)?;
    let mut search = queue.ledger.search_id(&identity, wanted.due_ms, None);
    let mut has_letters = true;
    loop {
        match search.step(&queue.conn).await.attempt(what)? {
            SearchStep::Found(located) => {
                let element = element(queue, &located, what).await?;
                return Ok(Met::Alive(located, Box::new(element)));
            }
            SearchStep::Nowhere => break,
            SearchStep::GoOn => {}
        }
        let (done, of) = search.progress();
        watch.at(Progress { done, of: Some(of), acted: 0 });
        if watch.is_stopped() {
            return Err(Error::ended(ended(queue, wanted, what, (done, of))));
        }
        // Before the schedule, if that is long.
        if of > DEEP
            && std::mem::take(&mut has_letters)
            && let Some(met) = dead(queue, &identity, what).await?
        {
            return Ok(met);
        }
    }
    // One that has died meanwhile is there.
    dead(queue, &identity, what).await?.ok_or_else(|| {
        Error::not_found(format!(
            "{what}: not found among the scheduled, retried, in-flight and dead elements; it was delivered or cancelled, or is junk \
             and so has no id, or a Redisson client has transferred it to the ready list, where elements have none"
        ))
    })
}

/// Returns what to say of a search that was ended.
fn ended(queue: &Queue, wanted: Wanted<'_>, what: &str, (done, of): (u64, u64)) -> String {
    let due = match wanted.due_ms {
        None => "with its due time (--due, `due_ms`) it is found at once;",
        Some(_) => "it has another due time than was named, or is not there:",
    };
    let (queue, id) = (queue.id(), wanted.id);
    format!(
        "{what}: the search was ended after {done} of {of} scheduled elements; {due} `delaybridge find {queue} --id {id}` searches all of \
         it, in parts"
    )
}

/// A part of a search for an element by its id.
pub struct SearchPart {
    /// The element.
    pub found: Option<Detail>,
    /// Redis time.
    pub now_ms: i64,
    /// Scheduled elements that were compared in this part.
    pub compared: u64,
    /// Scheduled elements to compare in all parts.
    pub of: u64,
    /// The place to go on at; none at the end.
    pub next: Option<ScheduleCursor>,
}

/// Does a part of the search for the element with this id, until `watch` ends it. The parts together look at the same places as
/// [`find()`].
///
/// # Errors
///
/// When no element can be called so, and when Redis cannot be asked.
pub async fn search_part(
    queue: &Queue,
    id: &str,
    after: Option<ScheduleCursor>,
    watch: &mut dyn ProgressWatch,
) -> Result<SearchPart, Error> {
    let what = format!("find {id} in `{}`", queue.id());
    let identity = queue.identity(id)?;
    let is_first = after.is_none();
    let mut search = queue.ledger.search_id(&identity, None, after);
    let mut met = None;
    if is_first {
        met = at_place(queue, id, &what).await?;
        if met.is_none() {
            met = dead(queue, &identity, &what).await?;
        }
    }
    let mut next = None;
    while met.is_none() {
        match search.step(&queue.conn).await.attempt(&what)? {
            SearchStep::Found(located) => {
                let element = element(queue, &located, &what).await?;
                met = Some(Met::Alive(located, Box::new(element)));
            }
            SearchStep::Nowhere => {
                met = dead(queue, &identity, &what).await?;
                break;
            }
            SearchStep::GoOn => {}
        }
        watch.at(Progress { done: search.compared(), of: Some(search.progress().1), acted: 0 });
        if met.is_none() && watch.is_stopped() {
            next = search.cursor();
            if next.is_some() {
                break;
            }
        }
    }
    let now_ms = redis_now_ms(&queue.conn).await.attempt(&what)?;
    let found = met.map(|met| met.detail(queue));
    Ok(SearchPart { found, now_ms, compared: search.compared(), of: search.progress().1, next })
}

/// Returns the dead letter at this place of the stream; none where the id is no place.
async fn at_place(queue: &Queue, id: &str, what: &str) -> Result<Option<Met>, Error> {
    if !super::dead::is_place(id) {
        return Ok(None);
    }
    let letter = queue.ledger.dead_letter(&queue.conn, id).await.attempt(what)?;
    Ok(letter.map(|letter| Met::Dead(Box::new(letter))))
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
async fn dead(queue: &Queue, wanted: &Identity, what: &str) -> Result<Option<Met>, Error> {
    let mut letters = queue.ledger.dead_letters(&queue.conn, Order::Newest).await.attempt(what)?;
    loop {
        let page = letters.next(&queue.conn, usize::MAX).await.attempt(what)?;
        if page.is_empty() {
            return Ok(None);
        }
        let is_it = |letter: &DeadLetter| letter.identity().is_some_and(|own| own.id == wanted.id);
        if let Some(letter) = page.into_iter().find(is_it) {
            return Ok(Some(Met::Dead(Box::new(letter))));
        }
    }
}
