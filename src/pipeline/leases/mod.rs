//! What this process holds of one queue: the lease of every entry from its claim until its verdict is written.
//!
//! Knows no Redis. The lease keeper asks it what to extend, claim and recover ask it what is here already.

pub mod keeper;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use foldhash::HashMap;

use crate::clock::Instant;
use crate::source::ledger::ClaimKey;
use parking_lot::{Mutex, MutexGuard};

/// The entries of one queue that this process holds.
#[derive(Debug, Default)]
pub struct Leases(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    entries: HashMap<ClaimKey, Lease>,
    /// Outstanding calls that may return entries settled meanwhile, the oldest first.
    looks: VecDeque<u64>,
    /// Number of the latest of them.
    last_look: u64,
    /// Entries that left during a search, and the latest search at that time.
    left: HashMap<ClaimKey, u64>,
}

#[derive(Debug)]
struct Lease {
    member: Bytes,
    deadline: Instant,
    /// Its verdict is on the way: that it is gone from Redis is no loss.
    settling: bool,
    lost: bool,
}

/// A lease as its callers see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseStatus {
    /// Ours until this point.
    Until(Instant),
    /// Another claim took over, or its deadline is unknown.
    Lost,
}

impl Leases {
    /// Takes up an entry. `false` if it is here already, or left while its reply was on the way.
    pub fn insert(&self, key: ClaimKey, member: Bytes, deadline: Instant) -> bool {
        let mut state = self.lock();
        if state.left.contains_key(&key) || state.entries.contains_key(&key) {
            return false;
        }
        state.entries.insert(key, Lease { member, deadline, settling: false, lost: false });
        true
    }

    /// Whether the entry is here.
    pub fn contains(&self, key: ClaimKey) -> bool {
        self.lock().entries.contains_key(&key)
    }

    /// The entry's verdict is written, or it is dropped. Returns until when it was ours.
    pub fn remove(&self, key: ClaimKey) -> Option<Instant> {
        let mut state = self.lock();
        if !state.looks.is_empty() {
            let during = state.last_look;
            state.left.insert(key, during);
        }
        state.entries.remove(&key).map(|lease| lease.deadline)
    }

    /// The verdict of the entry is on the way.
    pub fn settling(&self, key: ClaimKey) {
        if let Some(lease) = self.lock().entries.get_mut(&key) {
            lease.settling = true;
        }
    }

    /// The entry's header was rewritten under the same lease.
    pub fn rewritten(&self, key: ClaimKey, member: Bytes) {
        if let Some(lease) = self.lock().entries.get_mut(&key) {
            lease.member = member;
            lease.settling = false;
        }
    }

    /// The lease of an entry; lost if it is not here.
    pub fn status(&self, key: ClaimKey) -> LeaseStatus {
        match self.lock().entries.get(&key) {
            Some(lease) if !lease.lost => LeaseStatus::Until(lease.deadline),
            _ => LeaseStatus::Lost,
        }
    }

    /// Entries with less than `left` of their lease left, at most `most` and about `bytes` bytes of them, at least one.
    pub fn due(&self, now: Instant, left: Duration, most: usize, bytes: usize) -> Vec<(ClaimKey, Bytes)> {
        let state = self.lock();
        let (mut due, mut sum) = (Vec::new(), 0);
        for (&key, lease) in &state.entries {
            if lease.lost || lease.deadline.since(now) >= left {
                continue;
            }
            sum += lease.member.len();
            if due.len() >= most || !due.is_empty() && sum > bytes {
                break;
            }
            due.push((key, lease.member.clone()));
        }
        due
    }

    /// A new deadline; never an earlier one.
    pub fn extended(&self, key: ClaimKey, deadline: Instant) {
        if let Some(lease) = self.lock().entries.get_mut(&key) {
            lease.deadline = lease.deadline.max(deadline);
        }
    }

    /// Redis says that this member is not ours any more. Returns whether that is news and a loss: its verdict may be on
    /// the way, or its header was rewritten since it was asked about.
    pub fn lost(&self, key: ClaimKey, member: &Bytes) -> bool {
        match self.lock().entries.get_mut(&key) {
            Some(lease) if !lease.settling && !lease.lost && lease.member == *member => {
                lease.lost = true;
                true
            }
            _ => false,
        }
    }

    /// The entry as it is in Redis now, as far as this process knows; `None` if it is not here.
    pub fn member(&self, key: ClaimKey) -> Option<Bytes> {
        self.lock().entries.get(&key).map(|lease| lease.member.clone())
    }

    /// How many are held.
    pub fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Marks the duration of a claim or a recovery: entries settled in that time are not taken up again
    /// from its reply, in whatever order the replies are handled.
    pub fn reply_pending(&self) -> ReplyPending {
        let mut state = self.lock();
        state.last_look += 1;
        let number = state.last_look;
        state.looks.push_back(number);
        ReplyPending { leases: Leases(self.0.clone()), number }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

/// A claim or a recovery is outstanding while this lives.
pub struct ReplyPending {
    leases: Leases,
    number: u64,
}

impl Drop for ReplyPending {
    fn drop(&mut self) {
        let mut state = self.leases.lock();
        state.looks.retain(|number| *number != self.number);
        // In a backlog there is always a search: entries that left before the oldest search are no longer needed.
        match state.looks.front().copied() {
            Some(oldest) => state.left.retain(|_, during| *during >= oldest),
            None => state.left.clear(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(index: u32) -> ClaimKey {
        ClaimKey { claim: 1, index }
    }

    #[test]
    fn entries_that_left_during_a_search_are_not_taken_up_again() {
        let held = Leases::default();
        let now = Instant::now();
        assert!(held.insert(key(1), Bytes::new(), now));
        assert!(!held.insert(key(1), Bytes::new(), now), "it is here already");
        let looking = held.reply_pending();
        held.remove(key(1));
        assert!(!held.insert(key(1), Bytes::new(), now));
        drop(looking);
        assert!(held.insert(key(1), Bytes::new(), now));
    }

    #[test]
    fn looks_that_overlap_forget_what_left_before_the_oldest() {
        let held = Leases::default();
        let now = Instant::now();
        let (first, second) = (held.reply_pending(), held.reply_pending());
        held.remove(key(1));
        drop(first);
        let third = held.reply_pending();
        held.remove(key(2));
        assert!(!held.insert(key(1), Bytes::new(), now), "the second look began before it left");
        drop(second);
        assert!(held.insert(key(1), Bytes::new(), now), "the third began after");
        assert!(!held.insert(key(2), Bytes::new(), now));
        drop(third);
        assert!(held.insert(key(2), Bytes::new(), now));
        assert!(held.lock().left.is_empty());
    }

    #[test]
    fn only_leases_that_run_low_are_due() {
        let held = Leases::default();
        let now = Instant::now();
        for i in 0..10 {
            held.insert(key(i), Bytes::from_static(&[0; 10]), now.after(Duration::from_secs(u64::from(i))));
        }
        assert_eq!(held.due(now, Duration::from_secs(5), 100, 1000).len(), 5);
        assert_eq!(held.due(now, Duration::from_secs(5), 3, 1000).len(), 3);
        assert_eq!(held.due(now, Duration::from_secs(5), 100, 1).len(), 1, "one, however large");
        held.extended(key(0), now.after(Duration::from_secs(60)));
        assert_eq!(held.due(now, Duration::from_secs(5), 100, 1000).len(), 4);
    }

    #[test]
    fn an_entry_with_an_outstanding_verdict_cannot_be_lost() {
        let held = Leases::default();
        held.insert(key(1), Bytes::new(), Instant::now());
        held.insert(key(2), Bytes::new(), Instant::now());
        held.settling(key(1));
        assert!(!held.lost(key(1), &Bytes::new()));
        assert!(!held.lost(key(2), &Bytes::from_static(b"old")), "rewritten since");
        assert!(held.lost(key(2), &Bytes::new()));
        assert!(!held.lost(key(2), &Bytes::new()), "not news any more");
        assert_eq!(held.status(key(2)), LeaseStatus::Lost);
    }
}
