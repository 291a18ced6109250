//! A queue in order: an element goes to its sinks when the one before it, in the queue or with the same key, has its verdict.
//!
//! The elements of a key that are in hand are a *line*, in the order of their claims. One task delivers a line, one element
//! after the other. A failed element is tried again in its place, under its lease, with its attempts written into the claim; so
//! nothing overtakes it. What has to go back to Redis takes everything in hand with it (*spill*): it comes back in due order, and
//! the claimer waits until all of it is written, so that no later element is claimed in between.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use foldhash::HashMap;
use futures_util::future::{BoxFuture, FutureExt, join_all};
use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64;

use crate::clock::Instant;
use crate::config::Ordered;
use crate::pipeline::claim::{Claim, ClaimBatch, ClaimedElement};
use crate::pipeline::deliver::conclude;
use crate::pipeline::deliver::outbound::{self, ElementView};
use crate::pipeline::deliver::relay::{self, NoDelivery};
use crate::pipeline::queue::Queue;
use crate::pipeline::settle::verdict::{ReleaseCause, Verdict};
use crate::plant::{Lie, planted};
use crate::sink::Destination;

/// How often the confirmed elements of a claim are written while others of it wait: what a crash delivers twice.
const FLUSH: Duration = Duration::from_millis(20);
const FLUSH_AT_REST: Duration = Duration::from_millis(500);
/// How soon a line sees that it may begin.
const GATHER: Duration = Duration::from_millis(5);
/// How soon an element that waits for its next attempt sees that it has to go back.
const LOOK: Duration = Duration::from_millis(100);

/// The lines of one queue. Bounded by what is in flight.
#[derive(Debug, Default)]
pub struct KeyQueues {
    /// What waits, by key: an entry for each key that has an element at its sinks.
    lines: Mutex<HashMap<u64, VecDeque<ClaimedElement>>>,
    /// Everything in hand goes back.
    returning_all: AtomicBool,
    /// What comes goes back; what waits here already is delivered first.
    returning_new: AtomicBool,
    /// Nothing begins: claims are taken over, and what is due first may be in the last of them.
    gathering: AtomicBool,
}

impl KeyQueues {
    /// Whether nothing is in hand.
    pub fn is_empty(&self) -> bool {
        self.lines.lock().is_empty()
    }

    /// Whether everything in hand goes back, and nothing may be claimed.
    pub fn returns_all(&self) -> bool {
        self.returning_all.load(Ordering::Acquire)
    }

    /// Whether what comes from a claim goes back, and nothing may be claimed until what waits is delivered.
    pub fn returns_new(&self) -> bool {
        self.returning_new.load(Ordering::Acquire)
    }

    /// Everything has gone back.
    pub fn returned_all(&self) {
        self.returning_all.store(false, Ordering::ReleaseCause);
        self.returning_new.store(false, Ordering::ReleaseCause);
    }

    /// From now on what comes goes back.
    fn return_new(&self) {
        self.returning_new.store(true, Ordering::ReleaseCause);
    }

    /// From now on everything in hand goes back.
    pub fn return_all(&self) {
        self.returning_all.store(true, Ordering::ReleaseCause);
        let waiting: Vec<_> = self.lines.lock().values_mut().flat_map(std::mem::take).collect();
        // Dropped, they are released.
        drop(waiting);
    }

    /// Whether what comes waits until everything is there.
    pub fn is_gathering(&self) -> bool {
        self.gathering.load(Ordering::Acquire)
    }

    /// From now on what comes waits until everything is there, or waits no more.
    pub fn gather(&self, gathering: bool) {
        self.gathering.store(gathering, Ordering::ReleaseCause);
    }

    /// Whether something that waits is due later than this.
    pub fn hold_later_than(&self, due_ms: Option<i64>) -> bool {
        let lines = self.lines.lock();
        due_ms.is_some() && lines.values().flatten().any(|held| held.due_ms() > due_ms)
    }

    /// Adds an element behind the others with its key that are not due later; whether it is the first.
    fn push(&self, key: u64, held: ClaimedElement) -> bool {
        match self.lines.lock().entry(key) {
            Entry::Occupied(mut line) => {
                let line = line.get_mut();
                let place = line.partition_point(|before| before.due_ms() <= held.due_ms());
                line.insert(place, held);
                false
            }
            Entry::Vacant(place) => {
                place.insert(VecDeque::from([held]));
                true
            }
        }
    }

    /// The next element of a line; a line without one ends.
    fn next(&self, key: u64) -> Option<ClaimedElement> {
        let mut lines = self.lines.lock();
        let next = lines.get_mut(&key).and_then(VecDeque::pop_front);
        if next.is_none() {
            lines.remove(&key);
        }
        next
    }
}

/// Puts the elements of a batch into their lines, in due order, and answers what delivers those that were the first there.
pub fn begin(batch: &mut ClaimBatch) -> Option<BoxFuture<'static, ()>> {
    let claim = batch.claim().clone();
    let queue = claim.queue.clone();
    let mut elements: Vec<ClaimedElement> = batch.collect();
    // What was taken over has entries before bare elements.
    elements.sort_by_key(|held| held.due_ms());
    let mut first = Vec::new();
    for mut held in elements {
        if !held.parts().has_room() {
            // Its key is in its body, which was not read. What comes behind it must not be delivered before.
            queue.lines.return_new();
        }
        if queue.lines.returns_all() || queue.lines.returns_new() {
            // Something before it goes back.
            continue;
        }
        // It waits without the guard, which an element that must be alone would wait for.
        held.parts().leave_shared();
        let key = key_of(&mut held);
        if queue.lines.push(key, held) {
            first.push(key);
        }
    }
    let work = first.into_iter().map(move |key| deliver(queue.clone(), key));
    let work: Vec<_> = work.collect();
    Some(async move { tokio::join!(join_all(work), write(claim)) }.map(drop).boxed())
}

/// Which line an element belongs to. One that cannot be read or routed has its own: it is decided without a sink.
fn key_of(held: &mut ClaimedElement) -> u64 {
    let parts = held.parts();
    let queue = parts.queue().clone();
    let Some(Ordered::Key(template)) = queue.spec.order.as_deref() else { return 0 };
    let own = u64::from_be_bytes(parts.id.id.0);
    let subject = ElementView::of(parts);
    let Some(payload) = outbound::peeked(&subject) else { return own };
    match template {
        Some(template) => outbound::text(&subject, &payload, template).map_or(own, |key| xxh3_64(key.as_bytes())),
        None => {
            let message = outbound::message(&subject, &payload, 0, queue.home().now_ms(), Instant::now());
            match message.map(|message| message.destination) {
                Ok(Destination::Kafka(record)) => record.key.map_or(own, |key| xxh3_64(&key)),
                _ => own,
            }
        }
    }
}

/// Writes the confirmations of a claim until it has ended.
async fn write(claim: Arc<Claim>) {
    let (mut wait, mut open) = (FLUSH, claim.open());
    while open > 0 && !claim.is_lost() && !claim.queue.give_up.is_cancelled() {
        tokio::time::sleep(wait).await;
        claim.queue.settler.flush(&claim);
        let left = claim.open();
        wait = if left < open { FLUSH } else { (wait * 2).min(FLUSH_AT_REST) };
        open = left;
    }
}

/// Delivers a line to its end.
async fn deliver(queue: Arc<Queue>, key: u64) {
    let line = KeyQueue { queue, key };
    while line.queue.lines.is_gathering() && !line.queue.lines.returns_all() && !line.queue.stopping.is_cancelled() {
        tokio::time::sleep(GATHER).await;
    }
    while let Some(held) = line.queue.lines.next(key) {
        one(&line.queue, held).await;
        line.queue.watch.moves();
    }
}

/// What a panic or the end of the process leaves in a line goes back.
struct KeyQueue {
    queue: Arc<Queue>,
    key: u64,
}

impl Drop for KeyQueue {
    fn drop(&mut self) {
        let mut left = 0;
        while let Some(held) = self.queue.lines.next(self.key) {
            drop(held);
            left += 1;
        }
        if left > 0 {
            self.queue.lines.return_all();
        }
    }
}

/// Brings one element to its verdict.
async fn one(queue: &Arc<Queue>, mut held: ClaimedElement) {
    loop {
        if queue.lines.returns_all() || queue.stopping.is_cancelled() {
            return drop(held);
        }
        held.parts().join_shared().await;
        let verdict = match relay::round(&mut held).await {
            // Not sent, because too little of the lease is left. It goes back, as all that is behind it: left to a lease that
            // still runs, it would be overtaken by the next claim. Where another owner has it, Redis refuses the verdict.
            Err(NoDelivery::Stale) => {
                queue.events.stale_drops(1);
                drop(held);
                return queue.lines.return_all();
            }
            Err(NoDelivery::Decided(verdict)) => {
                let goes_back = matches!(verdict, Verdict::Release { .. });
                conclude::without_sinks(held, verdict);
                if goes_back {
                    queue.lines.return_all();
                }
                return;
            }
            Ok(found) => conclude::decide(&mut held, found),
        };
        let wait = match verdict {
            Verdict::Retry { .. } | Verdict::Release { .. } if planted(Lie::OvertakenRetry) => {
                return held.settle(verdict);
            }
            Verdict::Retry { after, counted, class, code } => {
                let header = &mut held.parts().header;
                header.attempts = header.attempts.saturating_add(counted.into());
                header.set_failure(class, code);
                if !note(&mut held).await {
                    drop(held);
                    return queue.lines.return_all();
                }
                after
            }
            // Another element may be for a destination that works, and must not be the next.
            Verdict::Release { why: ReleaseCause::Destination { after } } => after,
            Verdict::Release { .. } => {
                held.settle(verdict);
                return queue.lines.return_all();
            }
            verdict => return held.settle(verdict),
        };
        held.parts().leave_shared();
        rest(queue, wait).await;
        // While something holds the queue up, it is not ours to try: a probe finds out.
        if !queue.is_open() && !queue.stopping.is_cancelled() {
            held.settle(Verdict::Release { why: ReleaseCause::OnHold });
            return queue.lines.return_all();
        }
    }
}

/// Writes the attempts of an element into its claim, so that they are known after a crash; `false` if it is not ours any more.
async fn note(held: &mut ClaimedElement) -> bool {
    let parts = held.parts();
    let (queue, claim) = (parts.queue().clone(), parts.claim.clone());
    if !queue.settler.progress(&claim, parts.place, &parts.element, parts.header.clone()).await {
        return false;
    }
    if let Some(element) = claim.element(parts.place) {
        parts.element = element;
    }
    true
}

/// Waits for the next attempt, or until everything goes back.
async fn rest(queue: &Queue, wait: Duration) {
    let until = Instant::now().after(wait);
    while !queue.lines.returns_all() {
        let left = until.since(Instant::now());
        if left.is_zero() {
            return;
        }
        // Order: a stop goes first; a sleep may be left at any time.
        tokio::select! {
            biased;
            () = queue.stopping.cancelled() => return,
            () = tokio::time::sleep(left.min(LOOK)) => {}
        }
    }
}
