//! Steps that claim and recover, and what each of them may take (R2, R4, R9).

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use delaybridge::message::{MessageId, Origin};
use delaybridge::source::ledger::{
    ClaimKey, ClaimReply, ClaimRequest, Claimed, ClaimedFrom, Cursor, Entry, Header, RecoverRequest, Recovered,
};
use delaybridge::source::redisson::open_entry;

use super::snapshot::{Snapshot, short};
use super::world::{Daemon, LEASE, LEASE_MS, Lost, Sent, World};

/// Whether this is an entry of the version under test.
pub fn known(member: &Bytes) -> bool {
    member.starts_with(&[0xdb, 1])
}

/// Whether the next expiry makes or leaves it one that must be claimed alone.
fn is_suspect(member: &Bytes) -> bool {
    Header::decode(member).is_some_and(|(header, _)| (2..9).contains(&header.expiries))
}

impl World<'_> {
    /// A request as a daemon would make it now, with limits by chance.
    pub fn claim_request(&mut self, daemon: usize, alone: bool) -> ClaimRequest {
        let rng = &mut self.rng;
        let most = rng.choice([1, 2, 3, 5, 8, 20, 500]).unwrap();
        let bytes = rng.choice([1, 100, 400, 2_000, 30_000, 1 << 20, 1 << 20]).unwrap();
        let d = &mut self.daemons[daemon];
        d.next_claim += 1;
        ClaimRequest {
            number: d.next_claim - 1,
            not_after_ms: self.now_us / 1000 + self.rng.i64(0..3_000),
            lease: LEASE,
            ahead: std::time::Duration::ZERO,
            most,
            bytes,
            alone,
            rotation: d.next_claim,
            hints: d.hints.clone(),
        }
    }

    /// Sends a claim and checks what it did. `heard`: the daemon gets the reply.
    pub async fn claim(&mut self, daemon: usize, request: ClaimRequest, heard: bool) {
        let now = self.now();
        let d = &mut self.daemons[daemon];
        d.sent.push(Sent::Claim(request.clone()));
        let what = format!(
            "claim {} of {daemon}, most {} bytes {} alone {} heard {heard}",
            request.number, request.most, request.bytes, request.alone
        );
        let reply = d.source.claim(&self.rig.conn, &request).await.unwrap_or_else(|e| panic!("{what}: {e}"));
        let claimed = match reply {
            ClaimReply::Late { now_ms } => {
                assert_eq!(now_ms, now);
                assert!(now > request.not_after_ms, "{what}: late at {now}, not after {}", request.not_after_ms);
                self.note(format!("{what}: late"));
                return self.unchanged("a late claim").await;
            }
            ClaimReply::Claimed(claimed) => claimed,
        };
        assert!(now <= request.not_after_ms, "{what}: ran at {now}, not after {}", request.not_after_ms);
        let names: Vec<_> = claimed.entries.iter().map(|(from, e)| (*from, short(&e.element))).collect();
        self.note(format!("{what}: {names:?}, own {:?}", claimed.own));
        self.check_claim(&what, daemon, &request, &claimed).await;
        let d = &mut self.daemons[daemon];
        if heard {
            self.hear(daemon, claimed);
        } else {
            d.lost.push(Lost {
                number: request.number,
                not_after_ms: request.not_after_ms,
                from: (now + LEASE_MS - 1_000).to_string(),
                until_ms: request.not_after_ms + LEASE_MS + 1_000,
            });
        }
    }

    /// The daemon learns what it took, and which of its entries it does not know.
    fn hear(&mut self, daemon: usize, claimed: Claimed) {
        let d = &mut self.daemons[daemon];
        d.hints = claimed.hints;
        d.held.extend(claimed.entries.into_iter().map(|(_, entry)| entry));
        for key in claimed.own {
            let looked_for = d.lost.iter().any(|l| l.number == key.claim && l.from == "-inf");
            if !looked_for && !d.held.iter().any(|e| e.header.key == key) {
                d.lost.push(Lost {
                    number: key.claim,
                    not_after_ms: claimed.now_ms - 1,
                    from: "-inf".to_owned(),
                    until_ms: claimed.now_ms + LEASE_MS + 1_000,
                });
            }
        }
    }

    async fn check_claim(&mut self, what: &str, daemon: usize, request: &ClaimRequest, claimed: &Claimed) {
        let now = self.now();
        let d = &self.daemons[daemon];
        let mut expected = self.seen.clone();
        let mut taken = Vec::new();
        let mut places = HashSet::new();
        let mut ready = self.seen.ready.iter();
        for (from, entry) in &claimed.entries {
            let name = short(&entry.member);
            assert!(places.insert(entry.header.key.index), "{what}: the place of {name} is given twice");
            assert_eq!(
                (entry.header.owner, entry.header.key.claim),
                (d.source.owner, request.number),
                "{what}: {name}"
            );
            match from {
                ClaimedFrom::Delayed => {
                    let score = expected.z.remove(&entry.element).unwrap_or_else(|| panic!("{what}: {name} not in Z"));
                    assert!(score <= now as f64, "{what}: {name} is due at {score} (R9)");
                    assert_eq!(entry.header, first_header(Origin::Delayed, 0, score.ceil() as i64, entry), "{what}");
                    taken.push(entry.element.clone());
                }
                ClaimedFrom::Ready => {
                    assert_eq!(ready.next(), Some(&entry.element), "{what}: the ready list from its head");
                    let id = u64::from_be_bytes(open_entry(entry).0.0);
                    assert_eq!(entry.header, first_header(Origin::Ready, id, now, entry), "{what}");
                    assert!(self.given_ids.insert(id), "{what}: the id {id:016x} was given before");
                }
                ClaimedFrom::Retry => {
                    let was = claimed_before(&self.seen.retry, &expected.retry, entry, 0)
                        .unwrap_or_else(|| panic!("{what}: {name} is no entry of retry, claimed once more"));
                    let at = expected.retry.remove(&was).unwrap();
                    assert!(at <= now, "{what}: {name} waits until {at}");
                }
                ClaimedFrom::Expired | ClaimedFrom::Exhausted => {
                    let was = claimed_before(&self.seen.in_flight, &expected.in_flight, entry, 1)
                        .unwrap_or_else(|| panic!("{what}: {name} is no entry in flight, taken over"));
                    let until = expected.in_flight.remove(&was).unwrap();
                    assert!(until <= now, "{what}: {name} is under a lease until {until}");
                    assert!(was[16..24] != d.source.owner, "{what}: took {name} from itself");
                    let expiries = entry.header.expiries;
                    assert_eq!(*from == ClaimedFrom::Exhausted, expiries >= 10, "{what}: {expiries} expiries");
                    assert!(expiries >= 10 || (expiries >= 3) == request.alone, "{what}: {expiries} expiries");
                }
            }
            let before = expected.in_flight.insert(entry.member.clone(), now + LEASE_MS);
            assert!(before.is_none(), "{what}: {name} was in flight under this very name");
        }
        expected.ready.drain(..self.seen.ready.len() - ready.len());
        let after = self.look().await;
        self.expect_own(what, daemon, &claimed.own, &mut expected, &after);
        for (member, at) in self.seen.retry.iter().filter(|(m, at)| !known(m) && **at <= now) {
            // A newer daemon's entry: postponed by a minute if a claim met it.
            let moved = after.retry.get(member).copied().filter(|moved| *moved == now + 60_000);
            expected.retry.insert(member.clone(), moved.unwrap_or(*at));
        }
        let owner = self.daemons[daemon].source.owner;
        let suspects: Vec<_> = self.seen.in_flight.keys().filter(|m| is_suspect(m) && m[16..24] != owner).collect();
        let in_the_way = suspects.len() + self.seen.in_flight.keys().filter(|m| !known(m)).count();
        for member in suspects.into_iter().filter(|_| in_the_way >= 100) {
            // So many that they are put behind everything else that has expired.
            if expected.in_flight.get(member).is_some_and(|until| *until <= now) {
                let until = after.in_flight.get(member).copied().filter(|until| *until == now);
                expected.in_flight.entry(member.clone()).and_modify(|was| *was = until.unwrap_or(*was));
            }
        }
        let newer = self.seen.in_flight.keys().chain(self.seen.retry.keys()).filter(|m| !known(m)).count();
        assert!(claimed.unknown as usize <= newer, "{what}: met {} newer entries of {newer}", claimed.unknown);
        assert!(claimed.suspects as usize <= in_the_way, "{what}: met {} of {in_the_way}", claimed.suspects);
        let d = &self.daemons[daemon];
        let exact = d.exact();
        check_limits(what, request, claimed);
        // A postponed entry of a newer daemon takes a place as well.
        let places = claimed.entries.len() + claimed.own.len() + claimed.unknown as usize;
        let room = places < request.most && request.bytes >= 1 << 20;
        if room && !request.alone && in_the_way < 100 {
            check_nothing_left(what, &after, d, now);
        }
        let heads = after.z.values().map(|s| s.ceil() as i64).chain(after.retry.values().copied());
        // Of what is due already only that is told.
        let next = heads.min().map(|head| head.max(now));
        assert_eq!(claimed.next_ms, next, "{what}: what falls due next");
        assert_eq!(claimed.leftovers.of, after.l.len() as u64, "{what}: entries in L");
        assert_eq!(claimed.leftovers.count, (after.ghosts.len() + after.turn.len()) as u64, "{what}: ghosts");
        self.settled_as(what, expected, &taken, exact).await;
    }

    /// Expired entries of the caller got a new lease, and nothing else of the caller did.
    fn expect_own(&self, what: &str, daemon: usize, own: &[ClaimKey], expected: &mut Snapshot, after: &Snapshot) {
        let owner = self.daemons[daemon].source.owner;
        let mut renewed: Vec<ClaimKey> = Vec::new();
        for (member, until) in &self.seen.in_flight {
            let extended = after.in_flight.get(member) == Some(&(self.now() + LEASE_MS));
            if *until <= self.now() && known(member) && member[16..24] == owner && extended {
                renewed.push(Entry::decode(member.clone()).unwrap().header.key);
                expected.in_flight.insert(member.clone(), self.now() + LEASE_MS);
            }
        }
        let sorted = |mut keys: Vec<ClaimKey>| {
            keys.sort_by_key(|k| (k.claim, k.index));
            keys
        };
        assert_eq!(sorted(renewed), sorted(own.to_vec()), "{what}: entries of its own");
    }

    /// Looks for a lost claim, and takes up what is found.
    pub async fn recover(&mut self, daemon: usize, place: usize) {
        let now = self.now();
        let lost = self.daemons[daemon].lost[place].clone();
        let request = RecoverRequest {
            number: lost.number,
            not_after_ms: lost.not_after_ms,
            until_ms: lost.until_ms,
            lease: LEASE,
            cursor: Cursor { from: lost.from.clone(), skip: 0 },
        };
        let d = &self.daemons[daemon];
        let owner = d.source.owner;
        let what = format!("recover {lost:?} of {daemon}");
        let (entries, next) = match d.source.recover(&self.rig.conn, &request).await.unwrap() {
            Recovered::Wait { now_ms } => {
                assert!(now_ms == now && now <= lost.not_after_ms, "{what}: waits at {now_ms}");
                self.note(format!("{what}: wait"));
                return self.unchanged("an recover that waits").await;
            }
            Recovered::Slice { entries, next, .. } => (entries, next),
        };
        assert!(now > lost.not_after_ms, "{what}: ran at {now}");
        assert_eq!(next, None, "{what}: so little fits into one slice");
        self.note(format!("{what}: {} entries", entries.len()));
        let from = lost.from.parse().unwrap_or(i64::MIN);
        let mut expected = self.seen.clone();
        let mut found = HashSet::new();
        for (member, until) in &mut expected.in_flight {
            let header = Header::decode(member).map(|(header, _)| header);
            if header.is_some_and(|h| h.owner == owner && h.key.claim == lost.number)
                && (from..=lost.until_ms).contains(until)
            {
                *until = now + LEASE_MS;
                found.insert(member.clone());
            }
        }
        assert_eq!(entries.iter().map(|e| e.member.clone()).collect::<HashSet<_>>(), found, "{what}");
        let d = &mut self.daemons[daemon];
        if self.rng.u8(..6) == 0 {
            // This reply is lost as well: what it found has moved to the end of a new lease.
            let until_ms = lost.until_ms.max(now + LEASE_MS);
            d.lost[place] = Lost { until_ms, ..lost };
            return self.settled_as(&what, expected, &[], false).await;
        }
        d.lost.remove(place);
        for entry in entries {
            if !d.held.iter().any(|e| e.member == entry.member) {
                d.held.push(entry);
            }
        }
        self.settled_as(&what, expected, &[], false).await;
    }
}

/// The header of an element at its first claim.
fn first_header(origin: Origin, id: u64, time_ms: i64, entry: &Entry) -> Header {
    let id = MessageId(id.to_be_bytes());
    let mut header = Header::redriven(origin, id, time_ms, entry.header.owner, Vec::new());
    (header.generation, header.key) = (1, entry.header.key);
    header
}

/// The member that the entry was before it was claimed again: one generation less, everything else kept.
fn claimed_before(
    before: &BTreeMap<Bytes, i64>,
    left: &BTreeMap<Bytes, i64>,
    entry: &Entry,
    expired: u16,
) -> Option<Bytes> {
    before.keys().filter(|m| left.contains_key(*m) && m.len() == entry.member.len()).find_map(|m| {
        let (mut header, _) = Header::decode(m)?;
        let was = Entry::decode(m.clone())?;
        header.generation += 1;
        header.expiries += expired;
        (header.owner, header.key) = (entry.header.owner, entry.header.key);
        (was.under(&header) == entry.member).then(|| m.clone())
    })
}

fn check_limits(what: &str, request: &ClaimRequest, claimed: &Claimed) {
    let count = claimed.entries.len() + claimed.own.len();
    assert!(count <= request.most, "{what}: {count} entries, at most {} (R4)", request.most);
    let bytes: usize = claimed.entries.iter().map(|(_, e)| e.element.len()).sum();
    assert!(
        claimed.entries.len() <= 1 || bytes <= request.bytes,
        "{what}: {bytes} bytes, at most {} (R4)",
        request.bytes
    );
    assert!(!request.alone || count <= 1, "{what}: {count} entries, alone");
}

/// A claim that had room for more has left nothing that it could have taken.
fn check_nothing_left(what: &str, after: &Snapshot, d: &Daemon, now: i64) {
    let late = |m: &Bytes| format!("{what}: had room, and left {}", short(m));
    after.z.iter().for_each(|(m, score)| assert!(*score > now as f64, "{}", late(m)));
    after.retry.iter().for_each(|(m, at)| assert!(*at > now, "{}", late(m)));
    assert!(after.ready.is_empty() || !d.ready, "{what}: had room, and left the ready list");
    for (member, _) in after.in_flight.iter().filter(|(m, until)| known(m) && **until <= now) {
        assert!(is_suspect(member), "{}", late(member));
    }
}
