//! Moves what is held back, place by place. Everything is read from Redis again, so that it can be repeated at any time.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde::Serialize;

use super::sweep::until_no_ghost_is_left;
use super::{ConfirmedElement, KeptCount, RestorePlan, Stay, entry, explain};
use crate::error::{Attempted, Error, may_have_run};
use crate::progress::{Progress, ProgressWatch, ended};
use crate::release;
use crate::session::Queue;
use delaybridge_core::clock::Instant;
use delaybridge_core::message::Origin;
use delaybridge_ledger::Place;
use delaybridge_ledger::claims::Element;
use delaybridge_source::redisson::{Back, Held, Kept, Moved, Restored as Reply, put_back, restore_end};

/// Bytes of payloads for the ready list that are sorted in memory at a time; one more is taken whatever its size.
const SORTED_BYTES: usize = 64 << 20;

/// The outcome of a restore.
#[derive(Debug, Clone, Serialize)]
pub struct RestoreOutcome {
    /// The queue.
    pub queue: String,
    /// Always true.
    pub applied: bool,
    /// The layout that everything was restored in.
    pub layout: &'static str,
    /// Elements that are scheduled again.
    pub scheduled: usize,
    /// Payloads that are on the ready list again.
    pub ready: usize,
    /// Entries of Redisson's list that are in no sorted set, and were left alone.
    pub orphans: u64,
    /// Elements that had to stay.
    pub kept: Vec<KeptCount>,
    /// Elements that some sinks had confirmed.
    pub confirmed: Vec<ConfirmedElement>,
    /// Elements that may have arrived at a sink, because the last delivery had no answer.
    pub doubtful: usize,
}

/// Restores what was planned, and what has come since.
///
/// # Errors
///
/// When a daemon is at work, when it is ended, and when Redis cannot be asked. It can be run again: nothing is restored twice.
pub async fn apply(queue: &Queue, plan: &RestorePlan, watch: &mut dyn ProgressWatch) -> Result<RestoreOutcome, Error> {
    if let Some(reason) = &plan.at_work {
        return Err(Error::conflict(format!("restore `{}`: {reason}; nothing was changed", queue.id())));
    }
    let orphans = until_no_ghost_is_left(queue).await?;
    let mut mover = Mover { queue, plan, watch, search: orphans > 0, moved: 0, scheduled: 0, kept: Stay::default() };
    // Elements in the order of their places.
    release::release(queue).await?;
    mover.elements().await?;
    if plan.options.dead {
        mover.letters().await?;
    }
    let ready = mover.payloads().await?;
    Ok(RestoreOutcome {
        queue: queue.id().to_owned(),
        applied: true,
        layout: plan.layout,
        scheduled: mover.scheduled,
        ready,
        orphans,
        kept: mover.kept.counts(),
        confirmed: plan.confirmed.clone(),
        doubtful: plan.doubtful,
    })
}

struct Mover<'a> {
    queue: &'a Queue,
    plan: &'a RestorePlan,
    watch: &'a mut dyn ProgressWatch,
    /// Elements that were moved or passed over.
    moved: u64,
    /// Whether L may hold entries of what is restored.
    search: bool,
    scheduled: usize,
    kept: Stay,
}

impl Mover<'_> {
    async fn elements(&mut self) -> Result<(), Error> {
        let queue = self.queue;
        let what = format!("read the held elements of `{}`", self.queue.id());
        // What stays is stepped over: payloads of the ready list, which come later, and what cannot be restored.
        let mut first = 0;
        loop {
            let page = queue.redisson().members(&queue.conn, Place::Retry, first).await.attempt(&what)?.members;
            if page.is_empty() {
                return Ok(());
            }
            let read = page.len();
            let items: Vec<_> = page
                .into_iter()
                .filter_map(|(_, member)| {
                    let held = Held::Retry(member.clone());
                    Some((held, self.element(entry(member))?))
                })
                .collect();
            first += read - items.len() + self.schedule(&items).await?;
        }
    }

    async fn letters(&mut self) -> Result<(), Error> {
        let queue = self.queue;
        let what = format!("read the dead letters of `{}`", self.queue.id());
        let mut pages = queue.letter_pages(&what).await?;
        while let Some(page) = pages.next().await? {
            let mut items = Vec::new();
            for letter in page {
                if let Some(back) = self.element(letter.reborn().ok().and_then(entry)) {
                    items.push((Held::Dead(letter.stream_id), back));
                }
            }
            self.schedule(&items).await?;
        }
        Ok(())
    }

    /// Returns the destination of an element; `None` for one that stays, and for payloads of the ready list, which come
    /// later.
    fn element(&mut self, entry: Option<Element>) -> Option<Back> {
        let back = match entry {
            None => Err(Kept::Unknown),
            Some(entry) if entry.origin() == Origin::Ready => return None,
            Some(entry) => put_back(&entry, self.plan.to),
        };
        back.map_err(|why| self.kept.add(why)).ok()
    }

    /// Payloads from the last to the first, because each goes in front of those before.
    async fn payloads(&mut self) -> Result<usize, Error> {
        let mut ready = 0;
        loop {
            let latest = self.latest().await?;
            if latest.is_empty() {
                return Ok(ready);
            }
            let moved = self.all(&latest).await?;
            ready += moved.iter().filter(|moved| **moved == Moved::Yes).count();
        }
    }

    /// Returns the latest payloads that came from the ready list, last first, as many as are sorted at a time.
    async fn latest(&self) -> Result<Vec<(Held, Back)>, Error> {
        let what = format!("read the held elements of `{}`", self.queue.id());
        let mut latest = Latest::default();
        let each_member = self.queue.each_member(Place::Retry, &what, |member| {
            if let Some(entry) = entry(member) {
                latest.add(&entry, Held::Retry(entry.member.clone()));
            }
        });
        each_member.await?;
        if self.plan.options.dead {
            let mut pages = self.queue.letter_pages(&what).await?;
            while let Some(page) = pages.next().await? {
                for letter in page {
                    if let Some(entry) = letter.reborn().ok().and_then(entry) {
                        latest.add(&entry, Held::Dead(letter.stream_id));
                    }
                }
            }
        }
        Ok(latest.items.into_iter().rev().map(|item| (item.held, Back::Ready { payload: item.payload })).collect())
    }

    /// Schedules elements, and answers how many of them stayed.
    async fn schedule(&mut self, items: &[(Held, Back)]) -> Result<usize, Error> {
        let moved = self.all(items).await?;
        self.scheduled += moved.iter().filter(|moved| **moved == Moved::Yes).count();
        let twins = moved.iter().filter(|moved| **moved == Moved::Twin).count();
        (0..twins).for_each(|_| self.kept.add(Kept::Twin));
        Ok(twins)
    }

    /// Moves all of them, in batches.
    async fn all(&mut self, mut items: &[(Held, Back)]) -> Result<Vec<Moved>, Error> {
        let what = format!("restore elements of `{}`", self.queue.id());
        let redisson = self.queue.redisson();
        let conn = &self.queue.conn;
        let mut all = Vec::with_capacity(items.len());
        while !items.is_empty() {
            let of = (self.plan.scheduled + self.plan.ready) as u64;
            self.watch.at(Progress { done: self.moved, of: Some(of), acted: self.moved });
            if self.watch.is_stopped() {
                return Err(ended(&what, self.moved));
            }
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
            match restored.attempt(&what)? {
                Reply::Done(moved) => {
                    items = &items[moved.len().min(items.len())..];
                    self.moved += moved.len() as u64;
                    all.extend(moved);
                }
                Reply::AtWork(work) => {
                    return Err(Error::conflict(format!(
                        "{what}: {}; what was restored until then stays there: run the command again",
                        explain(self.queue, work)
                    )));
                }
                Reply::Ghosts(count) => {
                    return Err(Error::conflict(format!(
                        "{what}: {count} new ghosts: a daemon has claimed meanwhile; stop it and run the command again"
                    )));
                }
            }
        }
        Ok(all)
    }
}

/// A payload of the ready list, in the order of its first claim; what was claimed in one millisecond, in the order of the
/// last claims.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct RestoreItem {
    first_claim_ms: i64,
    owner: [u8; 8],
    claim: u64,
    index: u32,
    id: [u8; 8],
    payload: Bytes,
    held: Held,
}

/// The latest of many, bounded by bytes.
#[derive(Default)]
struct Latest {
    items: BTreeSet<RestoreItem>,
    bytes: usize,
}

impl Latest {
    fn add(&mut self, entry: &Element, held: Held) {
        let header = entry.header();
        if header.origin != Origin::Ready {
            return;
        }
        self.bytes += weight(&entry.bytes());
        self.items.insert(RestoreItem {
            first_claim_ms: header.time_ms,
            owner: header.writer.owner,
            claim: header.writer.claim,
            index: header.writer.place,
            id: header.given_id().0,
            payload: entry.bytes(),
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
    use delaybridge_core::message::MessageId;
    use delaybridge_ledger::claims::Header;

    #[test]
    fn of_many_payloads_the_latest_are_kept_in_their_order() {
        let mut latest = Latest::default();
        for (time, size) in [(3, 30 << 20), (1, 30 << 20), (2, 30 << 20), (4, 1)] {
            let id = MessageId([time as u8; 8]);
            let mut member = Header::redriven(Origin::Ready, id, time, vec![]).encode();
            member.extend(std::iter::repeat_n(0, size));
            let entry = entry(member.into()).unwrap();
            latest.add(&entry, Held::Retry(entry.member.clone()));
        }
        assert_eq!(latest.items.iter().map(|item| item.first_claim_ms).collect::<Vec<_>>(), [2, 3, 4]);
        assert!(latest.bytes < SORTED_BYTES);
    }
}
