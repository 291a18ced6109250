//! Elements by a field or a part of their payload: a bounded number of them is read and decoded, whatever is in the queue.

use std::str::FromStr;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::content::Content;
use super::dead::{FieldIs, Filter, Letters, is_place, selection::Selection};
use super::error::{Attempted, Error};
use super::peek::{PeekState, PeekedElement};
use super::progress::{Progress, ProgressWatch};
use super::session::Queue;
use delaybridge_ledger::claims::{self, Body};
use delaybridge_ledger::{BATCH_BYTES, BATCH_ENTRIES, Order, Page, Place, Show, redis_now_ms};

/// The fields to search for, and the bounds of the search.
#[derive(Debug, Clone)]
pub struct Search {
    /// Fields of the decoded payload: all of them.
    pub fields: Vec<FieldIs>,
    /// A text that is somewhere in the payload.
    pub part: Option<String>,
    /// Elements to look at, at most.
    pub limit: u64,
    /// Elements to answer, at most.
    pub matches: usize,
    /// The place to begin at: the `next` of the search before.
    pub after: Option<Cursor>,
}

impl Search {
    /// Creates a search for what a person wrote: `orderId=7` is a field, anything else a part of the payload.
    pub fn of(text: &str, limit: u64, matches: usize, after: Option<Cursor>) -> Search {
        let field = text.parse::<FieldIs>().ok();
        let part = field.is_none().then(|| text.to_owned());
        Search { fields: field.into_iter().collect(), part, limit, matches, after }
    }
}

/// The outcome of a search.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SearchHits", extend("additionalProperties" = true))]
pub struct Hits {
    /// The queue.
    pub queue: String,
    /// Redis time.
    pub now_ms: i64,
    /// Elements of the queue in all, dead ones too.
    pub total: u64,
    /// Elements that were examined.
    pub examined: u64,
    /// Whether some were not looked at: the limit was reached, there are as many matches as were asked for, or it was ended.
    pub incomplete: bool,
    /// Elements that fit: scheduled ones first, then those that wait for a retry, are in flight, ready, dead.
    #[schemars(skip)]
    pub elements: Vec<PeekedElement>,
    /// The place to go on at, if some were not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl Hits {
    /// Adds what the search found that went on where this one ended.
    pub fn add(&mut self, more: Hits) {
        self.total = self.total.max(more.total);
        self.now_ms = more.now_ms;
        self.examined += more.examined;
        self.elements.extend(more.elements);
        self.incomplete = more.next.is_some() && self.examined < self.total;
        self.next = more.next;
    }
}

/// A place in a queue that a search goes on at: `STATE:NUMBER`, with the elements of the state that were passed, or
/// `dead:STREAM-ID`, with the last letter that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cursor {
    /// Behind so many elements of one of the places.
    Element(usize, usize),
    /// Behind this dead letter; of the first one if there is none.
    Dead(Option<String>),
}

impl FromStr for Cursor {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Cursor, &'static str> {
        let problem = "it is the `next` of the search before";
        let (state, at) = text.split_once(':').ok_or(problem)?;
        if state == PeekState::Dead.as_str() {
            return match at {
                "" => Ok(Cursor::Dead(None)),
                at if is_place(at) => Ok(Cursor::Dead(Some(at.to_owned()))),
                _ => Err(problem),
            };
        }
        let place = PLACES.iter().position(|(_, known)| known.as_str() == state).ok_or(problem)?;
        Ok(Cursor::Element(place, at.parse().map_err(|_| problem)?))
    }
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Cursor::Element(place, first) => write!(f, "{}:{first}", PLACES[*place].1.as_str()),
            Cursor::Dead(after) => write!(f, "{}:{}", PeekState::Dead.as_str(), after.as_deref().unwrap_or_default()),
        }
    }
}

/// The places that are searched, beside the dead letters.
const PLACES: [(Place, PeekState); 4] = [
    (Place::Scheduled, PeekState::Scheduled),
    (Place::Retry, PeekState::Retry),
    (Place::InFlight, PeekState::InFlight),
    (Place::Ready, PeekState::Ready),
];

/// Searches the queue. An element that moves meanwhile can be missed, or be met twice.
pub async fn search(queue: &Queue, ask: &Search, watch: &mut dyn ProgressWatch) -> Result<Hits, Error> {
    let what = format!("search queue `{}`", queue.id());
    let now_ms = redis_now_ms(&queue.conn).await.attempt(&what)?;
    let mut hits = Hits { queue: queue.id().to_owned(), now_ms, ..Hits::default() };
    for (place, _) in PLACES {
        hits.total += queue.ledger.peek(&queue.conn, place, 0, 0, Show::Start(0)).await.attempt(&what)?.total as u64;
    }
    hits.total += queue.ledger.dead_count(&queue.conn).await.attempt(&what)? as u64;
    let begin = ask.after.clone().unwrap_or(Cursor::Element(0, 0));
    let from = match &begin {
        Cursor::Element(place, _) => *place,
        Cursor::Dead(_) => PLACES.len(),
    };
    for (number, (place, state)) in PLACES.into_iter().enumerate().skip(from) {
        let mut first = if let Cursor::Element(at, first) = begin
            && at == number
        {
            first
        } else {
            0
        };
        loop {
            if !goes_on(&mut hits, ask, watch) {
                hits.next = hits.incomplete.then(|| Cursor::Element(number, first).to_string());
                return Ok(hits);
            }
            let most = usize::try_from(ask.limit - hits.examined).unwrap_or(usize::MAX).min(BATCH_ENTRIES);
            let page = queue.ledger.peek(&queue.conn, place, first, most, Show::All).await.attempt(&what)?;
            if page.seen.is_empty() {
                break;
            }
            let examined = look(queue, ask, state, page, &mut hits, &what).await?;
            first += examined;
            hits.examined += examined as u64;
        }
    }
    let after = if let Cursor::Dead(after) = begin { after } else { None };
    dead(queue, ask, after, watch, &mut hits).await?;
    Ok(hits)
}

/// Returns whether there is anything left to look at that was asked for.
fn goes_on(hits: &mut Hits, ask: &Search, watch: &mut dyn ProgressWatch) -> bool {
    let of = Some(hits.total.min(ask.limit));
    watch.at(Progress { done: hits.examined, of, acted: hits.elements.len() as u64 });
    let over = hits.examined >= ask.limit || hits.elements.len() >= ask.matches || watch.is_stopped();
    // A search that goes on where another one ended does not know how many that one has looked at.
    hits.incomplete = over && (hits.examined < hits.total || ask.after.is_some() || watch.is_stopped());
    !over
}

/// Adds those of a page that fit, until there are as many as were asked for. Returns how many were examined.
async fn look(
    queue: &Queue,
    ask: &Search,
    state: PeekState,
    page: Page,
    hits: &mut Hits,
    what: &str,
) -> Result<usize, Error> {
    let payloads = payloads(queue, &page, state, what).await?;
    let mut examined = 0;
    for (seen, payload) in page.seen.into_iter().zip(payloads) {
        if hits.elements.len() >= ask.matches {
            break;
        }
        examined += 1;
        let Some(payload) = payload else { continue };
        let holds = |part: &String| content(queue, &payload).holds(part);
        if ask.fields.iter().all(|field| field.fits(&queue.spec, &payload)) && ask.part.as_ref().is_none_or(holds) {
            hits.elements.push(PeekedElement::with_payload(&queue.spec, state, seen, payload));
        }
    }
    Ok(examined)
}

fn content(queue: &Queue, payload: &Bytes) -> Content {
    Content::new(queue.spec.codec, payload.clone(), true).with(&queue.spec.classes)
}

/// The payloads of the elements of a page, which was read with all of them.
pub(super) async fn payloads(
    queue: &Queue,
    page: &Page,
    state: PeekState,
    what: &str,
) -> Result<Vec<Option<Bytes>>, Error> {
    if queue.ledger.source().bodies().is_some() && state != PeekState::Ready {
        bodies(queue, page, what).await
    } else {
        Ok(page.seen.iter().map(|seen| Some(seen.payload.clone())).collect())
    }
}

/// Returns the payloads of elements that have them elsewhere, as they will be at their time.
async fn bodies(queue: &Queue, page: &Page, what: &str) -> Result<Vec<Option<Bytes>>, Error> {
    let mut elements: Vec<claims::Element> = page
        .seen
        .iter()
        .map(|seen| {
            let member = seen.member.clone();
            claims::Element::entry(member.clone(), 0).unwrap_or_else(|| claims::Element::bare(member, 0))
        })
        .collect();
    let mut payloads = vec![None; elements.len()];
    let mut rest: Vec<usize> = (0..elements.len()).collect();
    while !rest.is_empty() {
        let mut some: Vec<_> = rest.iter().map(|at| elements[*at].clone()).collect();
        queue.ledger.fetch(&queue.conn, &mut some, BATCH_BYTES).await.attempt(what)?;
        let mut left = Vec::new();
        for (at, mut element) in rest.into_iter().zip(some) {
            match element.body.as_deref_mut() {
                // At least one of them was read.
                Some(Body::NoRoom(_)) => left.push(at),
                Some(Body::Here { read_ms, .. }) => {
                    *read_ms = i64::MAX;
                    payloads[at] = queue.ledger.open(&element).1.ok();
                }
                _ => {}
            }
            elements[at].body = None;
        }
        rest = left;
    }
    Ok(payloads)
}

async fn dead(
    queue: &Queue,
    ask: &Search,
    mut after: Option<String>,
    watch: &mut dyn ProgressWatch,
    hits: &mut Hits,
) -> Result<(), Error> {
    let filter = Filter { field: ask.fields.clone(), ..Filter::default() };
    let which = Letters { filter, after: after.clone(), ..Letters::default() };
    let mut selection = Selection::open(queue, &which, Order::Newest).await?;
    let before = hits.examined;
    while goes_on(hits, ask, watch) {
        let most = usize::try_from(ask.limit - hits.examined).unwrap_or(usize::MAX);
        let Some(page) = selection.next(most).await? else { return Ok(()) };
        hits.examined = before + selection.examined;
        after = page.last.or(after);
        for letter in page.letters {
            let payload = || queue.ledger.dead_payload(&letter).unwrap_or_default();
            if ask.part.as_ref().is_some_and(|part| !content(queue, &payload()).holds(part)) {
                continue;
            }
            hits.elements.push(PeekedElement::of_letter(queue, &letter));
            if hits.elements.len() >= ask.matches {
                after = Some(letter.stream_id);
                break;
            }
        }
    }
    hits.next = hits.incomplete.then(|| Cursor::Dead(after).to_string());
    Ok(())
}
