//! Moves what is held back, place by place. Everything it knows is read anew, so that it can be run again at any time.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use serde_json::Value;

use super::super::Failed;
use super::super::session::{attempted, may_have_run};
use super::plan::{kept_json, kept_text};
use super::{RestoreArgs, View};
use crate::clock::Instant;
use crate::message::Origin;
use crate::source::redisson::layout::Layout;
use crate::source::redisson::{Back, Entry, Held, Kept, Moved, Order, Place, Restored, put_back, restore_end};

/// Bytes of payloads for the ready list that are sorted in memory at a time; one more is taken whatever its size.
const SORTED_BYTES: usize = 64 << 20;

/// What was done.
#[derive(Default)]
pub(super) struct Done {
    pub(super) scheduled: usize,
    pub(super) ready: usize,
    kept: BTreeMap<Kept, usize>,
}

impl Done {
    pub(super) fn kept_text(&self) -> Option<String> {
        kept_text(&self.kept)
    }

    pub(super) fn kept_json(&self) -> Value {
        kept_json(&self.kept)
    }

    fn keep(&mut self, why: Kept) {
        *self.kept.entry(why).or_default() += 1;
    }
}

pub(super) async fn run(view: &View<'_>, args: &RestoreArgs, layout: Layout, search: bool) -> Result<Done, Failed> {
    let mut done = Done::default();
    let mover = Mover { view, search };
    // Elements in the order in which they stand.
    for place in [Place::Retry, Place::InFlight] {
        mover.elements(place, layout, &mut done).await?;
    }
    if args.dead {
        mover.letters(layout, &mut done).await?;
    }
    // Payloads from the last to the first, because each goes in front of those before.
    loop {
        let latest = mover.latest(args.dead).await?;
        if latest.is_empty() {
            return Ok(done);
        }
        let moved = mover.all(&latest).await?;
        done.ready += moved.iter().filter(|moved| **moved == Moved::Yes).count();
    }
}

struct Mover<'a> {
    view: &'a View<'a>,
    /// Whether L may hold entries of what is put back.
    search: bool,
}

impl Mover<'_> {
    async fn elements(&self, place: Place, layout: Layout, done: &mut Done) -> Result<(), Failed> {
        // What stays is stepped over: payloads of the ready list, which come later, and what cannot be put back.
        let mut first = 0;
        loop {
            let page = self.page(place, first).await?;
            if page.is_empty() {
                return Ok(());
            }
            let mut items = Vec::new();
            for member in page {
                match Entry::decode(member) {
                    None => {
                        done.keep(Kept::Unknown);
                        first += 1;
                    }
                    Some(entry) if entry.header.origin == Origin::Ready => first += 1,
                    Some(entry) => match put_back(&entry, layout) {
                        Ok(back) => items.push((held(place, entry.member), back)),
                        Err(why) => {
                            done.keep(why);
                            first += 1;
                        }
                    },
                }
            }
            first += self.count(&items, done).await?;
        }
    }

    async fn letters(&self, layout: Layout, done: &mut Done) -> Result<(), Failed> {
        let what = format!("read the dead letters of `{}`", self.view.id);
        let (redisson, conn) = (&self.view.queue.redisson, &self.view.session.conn);
        let mut letters = redisson.dead_letters(conn, Order::Oldest).await.map_err(attempted(&what))?;
        loop {
            let page = letters.next(conn, usize::MAX).await.map_err(attempted(&what))?;
            if page.is_empty() {
                return Ok(());
            }
            let mut items = Vec::new();
            for letter in page {
                match letter.reborn().ok().and_then(Entry::decode) {
                    None => done.keep(Kept::Unknown),
                    Some(entry) if entry.header.origin == Origin::Ready => {}
                    Some(entry) => match put_back(&entry, layout) {
                        Ok(back) => items.push((Held::Dead(letter.stream_id), back)),
                        Err(why) => done.keep(why),
                    },
                }
            }
            self.count(&items, done).await?;
        }
    }

    /// The latest payloads that came from the ready list, last first, as many as are sorted at a time.
    async fn latest(&self, dead: bool) -> Result<Vec<(Held, Back)>, Failed> {
        let mut latest = Latest::default();
        for place in [Place::Retry, Place::InFlight] {
            let mut first = 0;
            loop {
                let page = self.page(place, first).await?;
                if page.is_empty() {
                    break;
                }
                first += page.len();
                for entry in page.into_iter().filter_map(Entry::decode) {
                    let held = held(place, entry.member.clone());
                    latest.add(&entry, held);
                }
            }
        }
        if dead {
            let what = format!("read the dead letters of `{}`", self.view.id);
            let (redisson, conn) = (&self.view.queue.redisson, &self.view.session.conn);
            let mut letters = redisson.dead_letters(conn, Order::Oldest).await.map_err(attempted(&what))?;
            loop {
                let page = letters.next(conn, usize::MAX).await.map_err(attempted(&what))?;
                if page.is_empty() {
                    break;
                }
                for letter in page {
                    if let Some(entry) = letter.reborn().ok().and_then(Entry::decode) {
                        latest.add(&entry, Held::Dead(letter.stream_id));
                    }
                }
            }
        }
        Ok(latest.items.into_iter().rev().map(|item| (item.held, Back::Ready { payload: item.payload })).collect())
    }

    /// Moves elements, and answers how many of them stayed.
    async fn count(&self, items: &[(Held, Back)], done: &mut Done) -> Result<usize, Failed> {
        let moved = self.all(items).await?;
        done.scheduled += moved.iter().filter(|moved| **moved == Moved::Yes).count();
        let twins = moved.iter().filter(|moved| **moved == Moved::Twin).count();
        (0..twins).for_each(|_| done.keep(Kept::Twin));
        Ok(twins)
    }

    /// Moves all of them, in batches.
    async fn all(&self, mut items: &[(Held, Back)]) -> Result<Vec<Moved>, Failed> {
        let what = format!("put elements of `{}` back", self.view.id);
        let (redisson, conn) = (&self.view.queue.redisson, &self.view.session.conn);
        let mut all = Vec::with_capacity(items.len());
        while !items.is_empty() {
            let batch = &items[..restore_end(items)];
            let sent = Instant::now();
            let restored = match redisson.restore(conn, batch, self.search).await {
                // What the first sending moved is answered as gone: the count is too low, nothing else.
                Err(error) if may_have_run(&error) => redisson.restore(conn, batch, self.search).await,
                other => other,
            };
            if self.search {
                // Each script searches a list that may be long: others get as much of Redis's time.
                tokio::time::sleep(sent.elapsed()).await;
            }
            match restored.map_err(attempted(&what))? {
                Restored::Done(moved) => {
                    items = &items[moved.len().min(items.len())..];
                    all.extend(moved);
                }
                Restored::AtWork(work) => {
                    return Err(Failed::runtime(format!(
                        "{what}: {}; what was put back until then stays there: run the command again",
                        self.view.explain(work)
                    )));
                }
                Restored::Ghosts(count) => {
                    return Err(Failed::runtime(format!(
                        "{what}: {count} new ghosts: a daemon has claimed meanwhile; stop it and run the command again"
                    )));
                }
            }
        }
        Ok(all)
    }

    async fn page(&self, place: Place, first: usize) -> Result<Vec<Bytes>, Failed> {
        let what = format!("read what is held of `{}`", self.view.id);
        let page = self.view.queue.redisson.members(&self.view.session.conn, place, first).await;
        Ok(page.map_err(attempted(&what))?.members.into_iter().map(|(_, member)| member).collect())
    }
}

fn held(place: Place, member: Bytes) -> Held {
    if place == Place::InFlight { Held::InFlight(member) } else { Held::Retry(member) }
}

/// A payload of the ready list, in the order of its first claim; what was claimed in one millisecond, in the order of the
/// last claims.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Item {
    first_claim_ms: i64,
    owner: [u8; 8],
    claim: u64,
    index: u32,
    /// Makes it unique.
    id: [u8; 8],
    payload: Bytes,
    held: Held,
}

/// The latest of many, bounded by bytes.
#[derive(Default)]
struct Latest {
    items: BTreeSet<Item>,
    bytes: usize,
}

impl Latest {
    fn add(&mut self, entry: &Entry, held: Held) {
        let header = &entry.header;
        if header.origin != Origin::Ready {
            return;
        }
        self.bytes += weight(&entry.element);
        self.items.insert(Item {
            first_claim_ms: header.time_ms,
            owner: header.owner,
            claim: header.key.claim,
            index: header.key.index,
            id: header.given_id().0,
            payload: entry.element.clone(),
            held,
        });
        while self.bytes > SORTED_BYTES && self.items.len() > 1 {
            if let Some(item) = self.items.pop_first() {
                self.bytes -= weight(&item.payload);
            }
        }
    }
}

/// Bytes that a payload is counted as; the header and the place in the set are in it.
fn weight(payload: &Bytes) -> usize {
    payload.len() + 256
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::MessageId;
    use crate::source::redisson::Header;

    #[test]
    fn of_many_payloads_the_latest_are_kept_in_their_order() {
        let mut latest = Latest::default();
        for (time, size) in [(3, 30 << 20), (1, 30 << 20), (2, 30 << 20), (4, 1)] {
            let id = MessageId([time as u8; 8]);
            let mut member = Header::redriven(Origin::Ready, id, time, [0; 8], vec![]).encode();
            member.extend(std::iter::repeat_n(0, size));
            let entry = Entry::decode(member.into()).unwrap();
            latest.add(&entry, Held::Retry(entry.member.clone()));
        }
        assert_eq!(latest.items.iter().map(|item| item.first_claim_ms).collect::<Vec<_>>(), [2, 3, 4]);
        assert!(latest.bytes < SORTED_BYTES);
    }
}
