//! The claim in memory: what `claim.lua` and the source's half of it do.

use bytes::Bytes;

use super::queue::Queue;
use crate::message::{MessageId, Origin};
use crate::source::ledger::{
    BATCH_BYTES, BATCH_ENTRIES, ClaimKey, ClaimReply, ClaimRequest, Claimed, ClaimedFrom, Entry, Header, MAX_EXPIRIES,
};
use crate::source::{Leftovers, millis};

/// Expiries from which on an entry is claimed alone.
const SUSPECT: u16 = 3;
/// Places that elements are claimed from.
const PLACES: u64 = 4;

/// A claim while it is filled.
struct Take {
    owner: [u8; 8],
    number: u64,
    now_ms: i64,
    /// Last due time of scheduled elements that are taken.
    horizon_ms: i64,
    deadline: i64,
    /// Bytes that are left.
    bytes: usize,
    taken: Vec<(ClaimedFrom, Entry)>,
    own: Vec<ClaimKey>,
    /// Entries met that have to be claimed alone.
    suspects: u64,
    /// Something was left because of its size.
    more: bool,
}

impl Take {
    fn count(&self) -> usize {
        self.taken.len() + self.own.len()
    }

    /// Whether an element of this size may be taken: one always may.
    fn fits(&mut self, size: usize) -> bool {
        let fits = self.count() == 0 || size <= self.bytes;
        self.more |= !fits;
        fits
    }

    /// The entry that an element becomes under this header.
    fn entry(&self, mut header: Header, element: &Bytes) -> Option<Entry> {
        header.generation = header.generation.wrapping_add(1);
        header.owner = self.owner;
        let index = u32::try_from(self.taken.len() + 1).unwrap_or(u32::MAX);
        header.key = ClaimKey { claim: self.number, index };
        let mut member = header.encode();
        member.extend_from_slice(element);
        Entry::decode(member.into())
    }

    fn take(&mut self, from: ClaimedFrom, entry: Entry, size: usize) {
        self.bytes = self.bytes.saturating_sub(size);
        self.taken.push((from, entry));
    }
}

impl Queue {
    pub(super) fn claim(&mut self, owner: [u8; 8], request: &ClaimRequest, now_ms: i64) -> ClaimReply {
        if now_ms > request.not_after_ms {
            return ClaimReply::Late { now_ms };
        }
        let ahead_ms = millis(request.ahead);
        let mut take = Take {
            owner,
            number: request.number,
            now_ms,
            horizon_ms: now_ms.saturating_add(ahead_ms),
            deadline: now_ms.saturating_add(millis(request.lease)),
            bytes: request.bytes.min(BATCH_BYTES),
            taken: Vec::new(),
            own: Vec::new(),
            suspects: 0,
            more: false,
        };
        if request.alone {
            self.take_expired(&mut take, true, 1);
        } else {
            self.take_many(&mut take, request);
        }
        // What is due by `till` already can be claimed at once.
        let next = |head: Option<&(i64, Bytes)>, till| head.map(|(at, _)| if *at <= till { now_ms } else { *at });
        let due = next(self.scheduled.first(), take.horizon_ms).map(|due_ms| due_ms.saturating_sub(ahead_ms));
        ClaimReply::Claimed(Claimed {
            now_ms,
            next_ms: due.into_iter().chain(next(self.retry.first(), now_ms)).min(),
            entries: take.taken,
            own: take.own,
            hints: request.hints.clone(),
            leftovers: Leftovers::default(),
            suspects: take.suspects,
            unknown: 0,
            more: take.more,
        })
    }

    /// A quarter for each place, so that none starves; what one leaves, the others fill.
    fn take_many(&mut self, take: &mut Take, request: &ClaimRequest) {
        let most = request.most.min(BATCH_ENTRIES);
        for share in [most.div_ceil(4), most] {
            for turn in 1..=PLACES {
                let quota = share.min(most.saturating_sub(take.count()));
                match (turn + request.rotation % PLACES) % PLACES {
                    0 => self.take_expired(take, false, quota),
                    1 => self.take_retry(take, quota),
                    2 => self.take_ready(take, quota),
                    _ => self.take_scheduled(take, quota),
                }
            }
        }
    }

    /// Takes what let its lease run out.
    fn take_expired(&mut self, take: &mut Take, alone: bool, quota: usize) {
        let mut suspects = 0;
        let end = take.count() + quota;
        let over: Vec<Bytes> = self.in_flight.until(take.now_ms).map(|(_, member)| member.clone()).collect();
        for member in over {
            if take.count() >= end {
                break;
            }
            let Some(entry) = Entry::decode(member.clone()) else { continue };
            if entry.header.owner == take.owner {
                self.in_flight.add(take.deadline, member);
                take.own.push(entry.header.key);
                continue;
            }
            let mut header = entry.header.clone();
            header.expiries = header.expiries.saturating_add(1);
            let exhausted = header.expiries >= MAX_EXPIRIES;
            let suspect = header.expiries >= SUSPECT && !exhausted;
            if suspect != alone {
                suspects += u64::from(suspect);
                continue;
            }
            if !take.fits(member.len()) {
                break;
            }
            let from = if exhausted { ClaimedFrom::Exhausted } else { ClaimedFrom::Expired };
            let Some(claimed) = take.entry(header, &entry.element) else { continue };
            self.in_flight.remove(&member);
            self.in_flight.add(take.deadline, claimed.member.clone());
            take.take(from, claimed, member.len());
        }
        // A claim of many comes by twice, and counts them once.
        take.suspects = take.suspects.max(suspects);
    }

    fn take_retry(&mut self, take: &mut Take, quota: usize) {
        for _ in 0..quota {
            let Some((_, member)) = self.retry.first().filter(|(at, _)| *at <= take.now_ms).cloned() else { return };
            if !take.fits(member.len()) {
                return;
            }
            let entry = Entry::decode(member.clone()).map(|entry| take.entry(entry.header, &entry.element));
            let Some(claimed) = entry.flatten() else { return };
            self.retry.remove(&member);
            self.in_flight.add(take.deadline, claimed.member.clone());
            take.take(ClaimedFrom::Retry, claimed, member.len());
        }
    }

    fn take_ready(&mut self, take: &mut Take, quota: usize) {
        for _ in 0..quota {
            let Some(payload) = self.ready.front().cloned() else { return };
            if !take.fits(payload.len()) {
                return;
            }
            // Like random ones, so that no test takes one for the id of an element of its own.
            let id = MessageId(xxhash_rust::xxh3::xxh3_64(&self.given.to_le_bytes()).to_be_bytes());
            let header = Header::redriven(Origin::Ready, id, take.now_ms, take.owner, Vec::new());
            let Some(claimed) = take.entry(header, &payload) else { return };
            self.given += 1;
            self.ready.pop_front();
            self.in_flight.add(take.deadline, claimed.member.clone());
            take.take(ClaimedFrom::Ready, claimed, payload.len());
        }
    }

    fn take_scheduled(&mut self, take: &mut Take, quota: usize) {
        for _ in 0..quota {
            let first = self.scheduled.first().filter(|(due_ms, _)| *due_ms <= take.horizon_ms);
            let Some((due_ms, element)) = first.cloned() else { return };
            if !take.fits(element.len()) {
                return;
            }
            let header = Header::redriven(Origin::Delayed, MessageId([0; 8]), due_ms, take.owner, Vec::new());
            let Some(claimed) = take.entry(header, &element) else { return };
            self.scheduled.remove(&element);
            self.in_flight.add(take.deadline, claimed.member.clone());
            take.take(ClaimedFrom::Delayed, claimed, element.len());
        }
    }
}
