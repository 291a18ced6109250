//! Elements by a field of their payload: a bounded number of them is read and decoded, whatever is in the queue.

use bytes::Bytes;
use serde::Serialize;

use super::dead::{FieldIs, Filter, Letters, selection::Selection};
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
    /// Elements to look at, at most.
    pub limit: u64,
    /// Elements to answer, at most.
    pub matches: usize,
}

/// The outcome of a search.
#[derive(Debug, Clone, Serialize)]
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
    pub elements: Vec<PeekedElement>,
}

/// The places that are searched, beside the dead letters.
const PLACES: [(Place, PeekState); 4] = [
    (Place::Scheduled, PeekState::Scheduled),
    (Place::Retry, PeekState::Retry),
    (Place::InFlight, PeekState::InFlight),
    (Place::Ready, PeekState::Ready),
];

/// Searches the queue. An element that moves meanwhile can be missed, or be met twice.
///
/// # Errors
///
/// When Redis cannot be asked.
pub async fn search(queue: &Queue, ask: &Search, watch: &mut dyn ProgressWatch) -> Result<Hits, Error> {
    let what = format!("search queue `{}`", queue.id());
    let now_ms = redis_now_ms(&queue.conn).await.attempt(&what)?;
    let mut hits =
        Hits { queue: queue.id().to_owned(), now_ms, total: 0, examined: 0, incomplete: false, elements: Vec::new() };
    for (place, _) in PLACES {
        hits.total += queue.ledger.peek(&queue.conn, place, 0, 0, Show::Start(0)).await.attempt(&what)?.total as u64;
    }
    hits.total += queue.ledger.dead_count(&queue.conn).await.attempt(&what)? as u64;
    for (place, state) in PLACES {
        let mut first = 0;
        while goes_on(&mut hits, ask, watch) {
            let most = usize::try_from(ask.limit - hits.examined).unwrap_or(usize::MAX).min(BATCH_ENTRIES);
            let page = queue.ledger.peek(&queue.conn, place, first, most, Show::All).await.attempt(&what)?;
            if page.seen.is_empty() {
                break;
            }
            first += page.seen.len();
            hits.examined += page.seen.len() as u64;
            look(queue, ask, state, page, &mut hits, &what).await?;
        }
    }
    dead(queue, ask, watch, &mut hits).await?;
    Ok(hits)
}

/// Whether there is anything left to look at that was asked for.
fn goes_on(hits: &mut Hits, ask: &Search, watch: &mut dyn ProgressWatch) -> bool {
    let of = Some(hits.total.min(ask.limit));
    watch.at(Progress { done: hits.examined, of, acted: hits.elements.len() as u64 });
    let over = hits.examined >= ask.limit || hits.elements.len() >= ask.matches || watch.is_stopped();
    hits.incomplete = over && (hits.examined < hits.total || watch.is_stopped());
    !over
}

/// Adds those of a page that fit.
async fn look(
    queue: &Queue,
    ask: &Search,
    state: PeekState,
    page: Page,
    hits: &mut Hits,
    what: &str,
) -> Result<(), Error> {
    let payloads: Vec<Option<Bytes>> = match queue.ledger.source().bodies().is_some() && state != PeekState::Ready {
        true => bodies(queue, &page, what).await?,
        false => page.seen.iter().map(|seen| Some(seen.payload.clone())).collect(),
    };
    for (seen, payload) in page.seen.into_iter().zip(payloads) {
        let Some(payload) = payload else { continue };
        if hits.elements.len() < ask.matches && ask.fields.iter().all(|field| field.fits(&queue.spec, &payload)) {
            hits.elements.push(PeekedElement::with_payload(&queue.spec, state, seen, payload));
        }
    }
    Ok(())
}

/// The payloads of elements that have them elsewhere, as they will be at their time.
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

async fn dead(queue: &Queue, ask: &Search, watch: &mut dyn ProgressWatch, hits: &mut Hits) -> Result<(), Error> {
    if !goes_on(hits, ask, watch) {
        return Ok(());
    }
    let which = Letters { filter: Filter { fields: ask.fields.clone(), ..Filter::default() }, ..Letters::default() };
    let mut selection = Selection::open(queue, &which, Order::Newest).await?;
    let before = hits.examined;
    while goes_on(hits, ask, watch) {
        let most = usize::try_from(ask.limit - hits.examined).unwrap_or(usize::MAX);
        let Some(page) = selection.next(most, &mut super::progress::Unwatched).await? else { break };
        hits.examined = before + selection.step.done;
        for letter in page.letters {
            if hits.elements.len() < ask.matches {
                hits.elements.push(PeekedElement::of_letter(queue, &letter));
            }
        }
    }
    Ok(())
}
