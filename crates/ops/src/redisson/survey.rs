//! A walk through a queue: its layouts, and the effects of a blocked queue. Memory grows by a hash for each entry of
//! Redisson's list; payloads are not kept.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use serde::Serialize;
use xxhash_rust::xxh3::xxh3_64;

use super::Layout;
use crate::session::Queue;
use delaybridge_core::message::MessageId;
use delaybridge_ledger::{Place, StoreError};
use delaybridge_source::redisson::layout;
use delaybridge_source::redisson::{Kept, Repack, repacked};

/// An element that a client transferred without removing it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Transferred {
    /// The element's id.
    pub id: MessageId,
    /// Copies of the payload that are on the ready list now.
    pub ready_copies: usize,
}

/// The findings of a walk.
#[derive(Debug, Default)]
pub struct Survey {
    /// Elements of the sorted set by layout.
    pub(super) new: usize,
    pub(super) old: usize,
    /// Elements that are not in the wanted layout and can be converted to it.
    pub(super) foreign: usize,
    pub(super) junk: usize,
    /// Elements that would be read as the other layout after conversion.
    pub(super) ambiguous: usize,
    /// Due elements that are missing in the list: a client took them out and failed before it removed them from the
    /// sorted set. With the number of their payloads on the ready list.
    pub(super) transferred: Vec<Transferred>,
    /// Entries of the list in the other layout that are scheduled nowhere: they stay.
    pub(super) strays: usize,
}

impl Survey {
    /// Walks through the list, the sorted set and the ready list; `act` gets the elements to convert, page by page.
    pub(super) async fn of(
        queue: &Queue,
        to: Layout,
        act: &mut impl AsyncFnMut(Vec<Repack>) -> Result<(), StoreError>,
    ) -> Result<Survey, StoreError> {
        let (listed, mut foreign) = list(queue, to, act).await?;
        let mut survey = Survey::default();
        let mut lost: Vec<(MessageId, u64)> = Vec::new();
        let mut first = 0;
        loop {
            let page = queue.redisson().members(&queue.conn, Place::Scheduled, first).await?;
            if page.members.is_empty() {
                break;
            }
            first += page.members.len();
            let mut unlisted = Vec::new();
            for (score, element) in page.members {
                survey.count(&element, to);
                let hash = xxh3_64(&element);
                if let Some(entries) = foreign.get_mut(&hash) {
                    *entries -= 1;
                    if *entries == 0 {
                        foreign.remove(&hash);
                    }
                }
                if listed.contains(&hash) {
                    continue;
                }
                let due = score.is_some_and(|score| score.ceil_ms() <= page.now_ms);
                if let (Ok(parsed), true) = (layout::parse(&element), due) {
                    lost.push((parsed.id, xxh3_64(&parsed.payload)));
                }
                unlisted.extend(repack(None, element, to));
            }
            act(unlisted).await?;
        }
        survey.transferred = copies(queue, lost).await?;
        survey.strays = foreign.values().sum();
        Ok(survey)
    }

    fn count(&mut self, element: &Bytes, to: Layout) {
        match layout::parse(element).map(|parsed| parsed.layout) {
            Ok(Layout::New) => self.new += 1,
            Ok(Layout::Old) => self.old += 1,
            Err(_) => {}
        }
        match repacked(element, to) {
            Ok(is) => self.foreign += usize::from(is != element),
            Err(Kept::Junk) => self.junk += 1,
            Err(_) => self.ambiguous += 1,
        }
    }
}

/// The element as it is to be, if it is not so already.
fn repack(place: Option<usize>, was: Bytes, to: Layout) -> Option<Repack> {
    let is = repacked(&was, to).ok().filter(|is| is != &was)?;
    Some(Repack { place, was, is })
}

/// Walks through Redisson's list, and returns the hashes of its entries afterwards, and those of the entries in the
/// other layout, with how many they are.
async fn list(
    queue: &Queue,
    to: Layout,
    act: &mut impl AsyncFnMut(Vec<Repack>) -> Result<(), StoreError>,
) -> Result<(HashSet<u64>, HashMap<u64, usize>), StoreError> {
    let mut hashes = HashSet::new();
    let mut foreign = HashMap::new();
    let mut first = 0;
    loop {
        let page = queue.redisson().listed(&queue.conn, first).await?;
        if page.members.is_empty() {
            return Ok((hashes, foreign));
        }
        let mut batch = Vec::new();
        let count = page.members.len();
        for (place, (_, element)) in (first..).zip(page.members) {
            let hash = xxh3_64(&element);
            hashes.insert(hash);
            if let Some(repack) = repack(Some(place), element, to) {
                hashes.insert(xxh3_64(&repack.is));
                *foreign.entry(hash).or_default() += 1;
                batch.push(repack);
            }
        }
        act(batch).await?;
        first += count;
    }
}

/// Counts the copies of each payload on the ready list.
async fn copies(queue: &Queue, lost: Vec<(MessageId, u64)>) -> Result<Vec<Transferred>, StoreError> {
    let mut counts: HashMap<u64, usize> = lost.iter().map(|(_, payload)| (*payload, 0)).collect();
    let mut first = 0;
    while !counts.is_empty() {
        let page = queue.redisson().members(&queue.conn, Place::Ready, first).await?;
        if page.members.is_empty() {
            break;
        }
        first += page.members.len();
        for (_, payload) in page.members {
            if let Some(count) = counts.get_mut(&xxh3_64(&payload)) {
                *count += 1;
            }
        }
    }
    let transferred = |(id, payload)| Transferred { id, ready_copies: counts.get(&payload).copied().unwrap_or(0) };
    Ok(lost.into_iter().map(transferred).collect())
}
