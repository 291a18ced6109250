//! Claims with a lost reply: their elements are in Redis under our lease, and have to be found (R5).
//!
//! The same for entries of ours that turn up again because they were dropped here: their leases were over when their turn
//! came, and no other claim wanted them.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Instant;
use crate::link::LinkError;
use crate::pipeline::claim::{Claim, Isolation};
use crate::pipeline::limits::budget::Room;
use crate::pipeline::limits::reserved::Reserved;
use crate::pipeline::queue::Queue;
use crate::source::ledger::{
    BATCH_BYTES, BATCH_ENTRIES, ClaimRequest, ClaimedFrom, Cursor, Entry, MAX_EXPIRIES, RecoverRequest, Recovered,
};
use crate::source::{SourceError, millis};
use crate::telemetry::labels::ClaimLabel;

/// How far the estimate of Redis's clock may be off, in ms.
const SLACK: i64 = 1_000;

/// A claim that is looked for.
pub struct Lost {
    number: u64,
    not_after_ms: i64,
    cursor: Cursor,
    until_ms: i64,
    /// What the claim was made with. None for entries that turned up again: they get it when nothing else is in flight,
    /// because one of them may have to be alone, and hold nothing until then.
    means: Option<(Reserved, Isolation)>,
    /// The elements of the claim are not counted yet.
    uncounted: bool,
}

/// What came of looking for a lost claim.
pub enum Looked {
    /// All of it is found.
    Found,
    /// Look again.
    Again,
    /// Redis refuses.
    Refused(SourceError),
}

impl Lost {
    /// A claim with a lost reply, sent at this Redis time, with its reservations.
    pub fn reply(request: &ClaimRequest, sent_ms: i64, room: Reserved, isolation: Isolation) -> Self {
        let lease_ms = millis(request.lease);
        Lost {
            number: request.number,
            not_after_ms: request.not_after_ms,
            cursor: Cursor { from: sent_ms.saturating_add(lease_ms).saturating_sub(SLACK).to_string(), skip: 0 },
            until_ms: request.not_after_ms.saturating_add(lease_ms).saturating_add(SLACK),
            means: Some((room, isolation)),
            uncounted: true,
        }
    }

    /// Entries of this claim of ours that are not here, seen at this Redis time; they have just got a new lease.
    pub fn stray(number: u64, seen_ms: i64, lease: Duration) -> Self {
        Lost {
            number,
            not_after_ms: seen_ms.saturating_sub(1),
            cursor: Cursor { from: "-inf".to_owned(), skip: 0 },
            until_ms: seen_ms.saturating_add(millis(lease)).saturating_add(SLACK),
            means: None,
            uncounted: false,
        }
    }

    /// Whether it holds what others may wait for, and so goes before those that do not.
    pub fn holds(&self) -> bool {
        self.means.is_some()
    }

    /// Looks once, at one slice of what is in flight, and takes up what it finds.
    pub async fn look(&mut self, queue: &Arc<Queue>) -> Looked {
        let process = &queue.process;
        if self.means.is_none() {
            // Order: the end goes first; a place in a line may be left at any time.
            self.means = tokio::select! {
                biased;
                () = process.abandon.cancelled() => return Looked::Again,
                means = means(queue) => Some(means),
            };
        }
        let request = RecoverRequest {
            number: self.number,
            not_after_ms: self.not_after_ms,
            until_ms: self.until_ms,
            lease: queue.spec.lease,
            cursor: self.cursor.clone(),
        };
        let looking = queue.leases.reply_pending();
        let sent = Instant::now();
        match queue.store.recover(&request).await {
            Ok(Recovered::Wait { now_ms }) => {
                drop(looking);
                process.clock.observe(now_ms);
                let wait = Duration::from_millis(self.not_after_ms.saturating_sub(now_ms).unsigned_abs() + 1);
                // Order does not matter: either way the claim is looked for again, or the process ends.
                tokio::select! {
                    () = process.abandon.cancelled() => {}
                    () = tokio::time::sleep(wait) => {}
                }
                Looked::Again
            }
            Ok(Recovered::Slice { now_ms, entries, next }) => {
                process.clock.observe(now_ms);
                process.events.metrics().script("recover").took(sent.elapsed());
                self.take_up(queue, entries, sent.after(queue.spec.lease));
                match next {
                    Some(cursor) => {
                        self.cursor = cursor;
                        Looked::Again
                    }
                    None => Looked::Found,
                }
            }
            Err(SourceError::Link(LinkError::NotSent { .. })) => Looked::Again,
            Err(SourceError::Link(LinkError::Unknown { .. })) => {
                // It may have run: then the entries have a new lease, and are after the range searched so far.
                let lease_ms = millis(queue.spec.lease);
                self.until_ms = process.clock.now_ms().saturating_add(lease_ms).saturating_add(SLACK);
                Looked::Again
            }
            Err(problem) => Looked::Refused(problem),
        }
    }

    /// Takes up what was found, under a lease that ends at `deadline`.
    fn take_up(&mut self, queue: &Arc<Queue>, entries: Vec<Entry>, deadline: Instant) {
        let Some((room, isolation)) = &mut self.means else { return };
        let (mut claims, mut expired) = (Vec::with_capacity(entries.len()), 0);
        for entry in entries {
            let room = room.split(entry.member.len() as u64);
            // From where does not matter any more, only whether it may be delivered.
            let from = match entry.header.expiries >= MAX_EXPIRIES {
                true => ClaimedFrom::Exhausted,
                false => ClaimedFrom::Delayed,
            };
            // Every verdict sets the expiries back, so only a claim of expired leases leaves any. An entry that is here
            // already was counted then: its new lease has moved it behind the slice, into a later one.
            let was_expired = entry.header.expiries > 0;
            if let Some(claim) = Claim::accept(queue, from, entry, deadline, room, isolation.clone()) {
                expired += u64::from(was_expired);
                claims.push(claim);
            }
        }
        let metrics = queue.events.metrics();
        metrics.recovered(claims.len() as u64);
        if self.uncounted && expired > 0 {
            // The owner of the expired lease may have delivered it, also if the reply with that fact was lost.
            metrics.claimed(ClaimLabel::Expired, expired);
            metrics.possible_duplicates(expired);
        }
        match queue.process.stopping.is_cancelled() {
            true => drop(claims), // Released: nothing new is delivered after SIGTERM.
            false => queue.dispatch.push(queue, claims),
        }
    }
}

/// Waits until nothing else is in flight; then there is room as well.
async fn means(queue: &Queue) -> (Reserved, Isolation) {
    let alone = queue.process.isolation.clone().write_owned().await;
    let want = Room { count: BATCH_ENTRIES as u64, bytes: BATCH_BYTES as u64 };
    let room = Reserved::of(&queue.budget, &queue.process.budget, want).await;
    (room, Isolation::Alone(Arc::new(alone)))
}
