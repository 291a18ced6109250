//! The claim in memory: due elements move into the sets of the claim.

use bytes::Bytes;

use super::super::claim_sets::{ClaimSets, name, text};
use super::super::queue::Queue;
use super::super::zset::Zset;
use delaybridge_core::message::{MessageId, Origin};
use delaybridge_ledger::claims::{ClaimReply, ClaimRequest, Claimed, Contents, EXPIRED_SHOWN, Element, Header, Writer};
use delaybridge_ledger::{BATCH_BYTES, BATCH_ENTRIES, Leftovers, millis};

/// Places that elements are claimed from.
const PLACES: usize = 3;
/// The time by which an entry of a newer version is moved on.
const MOVED_ON_MS: i64 = 60_000;

/// The room that a claim or a takeover has left.
pub(super) struct Room {
    bytes: usize,
    taken: usize,
    /// Something was left because of its size.
    pub(super) short: bool,
}

impl Room {
    pub(super) fn new(bytes: usize) -> Self {
        Room { bytes: bytes.min(BATCH_BYTES), taken: 0, short: false }
    }

    /// Whether one more element of this size is taken: at least one always is.
    pub(super) fn fits(&mut self, size: usize) -> bool {
        if self.taken > 0 && size > self.bytes {
            self.short = true;
            return false;
        }
        self.taken += 1;
        self.bytes = self.bytes.saturating_sub(size);
        true
    }

    /// The number of the first `most` members that are taken.
    pub(super) fn first_of(&mut self, zset: &Zset, most: usize) -> usize {
        zset.iter().take(most).take_while(|(_, member)| self.fits(member.len())).count()
    }
}

/// Whether the claim script takes this for an entry of this version; it looks no further.
fn is_known(member: &Bytes) -> bool {
    member.len() >= Header::new(0).size() && member.starts_with(&[0xdb, 1])
}

/// The number to take from each place: a third, and what one leaves goes to the others, in the order of the rotation.
fn quotas(due: [usize; PLACES], most: usize, order: [usize; PLACES]) -> [usize; PLACES] {
    let mut quotas = [0; PLACES];
    let mut left = most;
    for share in [most.div_ceil(PLACES), most] {
        for place in order {
            let more = left.min(due[place] - quotas[place]).min(share);
            quotas[place] += more;
            left -= more;
        }
    }
    quotas
}

impl Queue {
    pub(super) fn claim(&mut self, request: &ClaimRequest, now_ms: i64) -> ClaimReply {
        if now_ms > request.not_after_ms {
            return ClaimReply::Late { now_ms };
        }
        if self.has_run(request.name) {
            return ClaimReply::Twice { now_ms };
        }
        if let Err(until_ms) = self.fence.own(request.name, now_ms, now_ms.saturating_add(millis(request.lease))) {
            return ClaimReply::Standby { now_ms, until_ms };
        }
        let shown: Vec<_> = self.leases.until(now_ms).take(EXPIRED_SHOWN).collect();
        let mut expired: Vec<_> = shown.iter().filter_map(|(_, text)| name(text)).collect();
        let unknown_names = (shown.len() - expired.len()) as u64;
        if self.fence.on && expired.is_empty() {
            // Behind those that cannot be read.
            expired = self.expired(now_ms, 1).0;
        }
        let mut most = request.most.min(BATCH_ENTRIES);
        let mut due_retries = self.retry.until(now_ms).count();
        let waits = self.fence.on && !expired.is_empty();
        if waits {
            let before = request.back_before_ms.map_or(0, |before_ms| self.retry.until(before_ms - 1).count());
            due_retries = due_retries.min(before);
            most = most.min(due_retries);
        }
        if waits && most == 0 {
            // What was in flight comes first.
            return ClaimReply::Claimed(Claimed {
                now_ms,
                expired,
                unknown_names,
                hints: request.hints.clone(),
                ..Claimed::default()
            });
        }
        let ahead_ms = millis(request.ahead);
        let horizon_ms = now_ms.saturating_add(ahead_ms);
        let due = [due_retries, self.ready.len(), self.scheduled.until(horizon_ms).count()];
        let first = if self.fence.on { 0 } else { (request.rotation % PLACES as u64) as usize };
        let order = [0, 1, 2].map(|turn| (turn + first) % PLACES);
        let mut quotas = quotas(due, most, order);
        if self.fence.on {
            // What went back goes first, and nothing of the next place before all of it.
            let mut left = most;
            quotas = due.map(|due| {
                let quota = due.min(left);
                left -= quota;
                quota
            });
        }

        let mut keys = ClaimSets::default();
        let mut room = Room::new(request.bytes);
        let mut unknown = 0;
        let mut retried = Zset::default();
        let mut ready = Contents::default();
        for place in order {
            match place {
                0 => unknown += self.take_waiting(quotas[0], &mut room, &mut retried, now_ms),
                1 => ready = self.take_ready(quotas[1], &mut room, request, now_ms),
                _ => {
                    let count = room.first_of(&self.scheduled, quotas[2]);
                    self.scheduled.move_first(count, &mut keys.bare);
                }
            }
        }
        let mut contents = Contents::default();
        retried.iter().for_each(|(at, member)| contents.add_entry(member.clone(), *at));
        let retried_known = contents.elements.len();
        retried.move_first(retried.len(), &mut keys.entries);
        ready.elements.iter().for_each(|element| keys.entries.add(element.score_ms, element.member.clone()));
        contents.elements.append(&mut ready.elements);
        contents.elements.extend(keys.bare.iter().map(|(due_ms, member)| Element::bare(member.clone(), *due_ms)));
        if keys.len() > 0 {
            self.leases.add(now_ms.saturating_add(millis(request.lease)), text(request.name));
            self.claims.insert(request.name, keys);
        }

        // What is due by `till` already can be claimed at once.
        let next = |head: Option<&(i64, Bytes)>, till| head.map(|(at, _)| if *at <= till { now_ms } else { *at });
        let due = next(self.scheduled.first(), horizon_ms).map(|due_ms| due_ms.saturating_sub(ahead_ms));
        ClaimReply::Claimed(Claimed {
            now_ms,
            retried: retried_known,
            elements: contents.elements,
            next_ms: due.into_iter().chain(next(self.retry.first(), now_ms)).min(),
            hints: request.hints.clone(),
            leftovers: Some(Leftovers::default()),
            unreadable: contents.unknown,
            damaged: contents.damaged,
            expired,
            unknown_names,
            unknown: unknown + contents.unknown,
            more: room.short,
        })
    }

    /// Takes what waits for another attempt. What a newer version wrote is moved on, so that it hides nothing, and counted.
    fn take_waiting(&mut self, quota: usize, room: &mut Room, to: &mut Zset, now_ms: i64) -> u64 {
        let mut aside = Vec::new();
        let mut count = 0;
        for (_, member) in self.retry.iter().take(quota) {
            if !is_known(member) {
                aside.push(member.clone());
            } else if room.fits(member.len()) {
                count += 1;
            } else {
                break;
            }
        }
        let newer = aside.len() as u64;
        aside.into_iter().for_each(|member| self.retry.add(now_ms.saturating_add(MOVED_ON_MS), member));
        self.retry.move_first(count, to);
        newer
    }

    /// Takes payloads of the ready list. Equal ones are different elements: each gets an id.
    fn take_ready(&mut self, quota: usize, room: &mut Room, request: &ClaimRequest, now_ms: i64) -> Contents {
        let mut contents = Contents::default();
        for place in 1..=quota {
            let Some(payload) = self.ready.front().filter(|payload| room.fits(payload.len())) else { break };
            // Like random ones, so that no test takes one for the id of an element of its own.
            let id = MessageId(xxhash_rust::xxh3::xxh3_64(&self.given.to_le_bytes()).to_be_bytes());
            let mut header = Header::redriven(Origin::Ready, id, now_ms, Vec::new());
            let place = u32::try_from(place).unwrap_or(u32::MAX);
            header.writer = Writer { owner: request.name.owner, claim: request.name.number, place };
            let mut member = header.encode();
            member.extend_from_slice(payload);
            contents.add_entry(member.into(), now_ms);
            self.given += 1;
            self.ready.pop_front();
        }
        contents
    }
}
