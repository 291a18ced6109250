//! Steps that claim, and the rules for the content of each claim (R2, R4, R9).

use std::collections::BTreeSet;

use bytes::Bytes;
use delaybridge_core::message::Origin;
use delaybridge_ledger::claims::{
    ClaimName, ClaimReply, ClaimRequest, Claimed, EXPIRED_SHOWN, Element, Header, Part, Writer,
};
use delaybridge_link::Score;

use super::daemon::{Held, Sent};
use super::list::Treatment;
use super::snapshot::{Holding, Scores, Snapshot, short};
use super::world::{LEASE, LEASE_MS, World};

/// Whether claims move this member of the retry set, because its version is the tested one.
pub fn known(member: &Bytes) -> bool {
    member.starts_with(&[0xdb, 1])
}

fn last(scores: &Scores) -> Option<(f64, &Bytes)> {
    scores.iter().map(|(m, score)| (*score, m)).max_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(b.1)))
}

impl World<'_> {
    /// A request as a daemon would make it now, with random limits.
    pub fn claim_request(&mut self, daemon: usize) -> ClaimRequest {
        let rng = &mut self.rng;
        let most = *rng.choice(&[1, 2, 3, 8, 50, 500]).expect("some");
        let bytes = *rng.choice(&[1, 100, 400, 5_000, 1 << 20, 1 << 20]).expect("some");
        let ahead = if rng.u8(..4) == 0 { 700 } else { 0 };
        let not_after_ms = self.now_us / 1000 + *rng.choice(&[0, 200, 500, 3_000]).expect("some");
        let d = &mut self.daemons[daemon];
        let name = d.new_name();
        self.not_after.insert(name, not_after_ms);
        ClaimRequest {
            name,
            not_after_ms,
            lease: LEASE,
            ahead: std::time::Duration::from_millis(ahead),
            most,
            bytes,
            rotation: name.number,
            hints: d.hints.clone(),
            back_before_ms: None,
        }
    }

    /// Claims: now with the reply, now without it, or some time later.
    pub async fn claim_some(&mut self, daemon: usize) {
        let request = self.claim_request(daemon);
        match self.rng.u8(..20) {
            0..3 => {
                self.note(format!("claim {} of {daemon} is on its way, and given up", request.name));
                let d = &mut self.daemons[daemon];
                d.lost.push(request.name);
                d.in_transit.push(Sent::Claim(request));
            }
            n => self.claim(daemon, request, n > 6).await,
        }
    }

    /// Sends a claim and checks its effect. `heard`: the daemon receives the reply.
    pub async fn claim(&mut self, daemon: usize, request: ClaimRequest, heard: bool) {
        let now = self.now();
        let ClaimRequest { name, most, bytes, ahead, .. } = request;
        let d = &mut self.daemons[daemon];
        let what = format!("claim {name} of {daemon}, most {most} bytes {bytes} ahead {ahead:?} heard {heard}");
        let reply = delaybridge_ledger::store::Claims::claim(&d.store, &request).await;
        let reply = reply.unwrap_or_else(|e| panic!("{what}: {e}"));
        d.sent.push(Sent::Claim(request.clone()));
        match reply {
            ClaimReply::Late { now_ms } => {
                self.note(format!("{what}: late"));
                assert_eq!(now_ms, now);
                assert!(now > request.not_after_ms, "{what}: late at {now}, not after {}", request.not_after_ms);
                self.unchanged(&what).await;
            }
            ClaimReply::Twice { now_ms } => {
                self.note(format!("{what}: twice"));
                assert_eq!(now_ms, now);
                let text = Self::text(name);
                let there = self.seen.leases.contains_key(&text) || self.seen.claims.contains_key(&text);
                assert!(there, "{what}: it has no lease");
                self.unchanged(&what).await;
            }
            ClaimReply::Standby { .. } => panic!("{what}: the queue is not in order"),
            ClaimReply::Claimed(claimed) => {
                assert!(now <= request.not_after_ms, "{what}: ran at {now}, not after {}", request.not_after_ms);
                let taken: Vec<_> = claimed.elements.iter().map(|e| (e.part(), short(&e.bytes()))).collect();
                self.note(format!("{what}: {taken:?}, expired {}", claimed.expired.len()));
                self.check_claim(&what, daemon, &request, &claimed).await;
                let d = &mut self.daemons[daemon];
                if heard {
                    d.hints = claimed.hints;
                    d.expired = claimed.expired;
                    d.take(name, claimed.elements);
                } else if !d.lost.contains(&name) {
                    d.lost.push(name);
                }
            }
        }
    }

    async fn check_claim(&mut self, what: &str, daemon: usize, request: &ClaimRequest, claimed: &Claimed) {
        let now = self.now();
        assert_eq!(claimed.now_ms, now, "{what}");
        let name = Self::text(request.name);
        let after = self.after_claim(what).await;
        if self.seen.claims.contains_key(&name) {
            // Its lease was deleted, and there is nothing to claim.
            assert!(claimed.elements.is_empty(), "{what}: the claim was there before");
            return self.unchanged(what).await;
        }
        let holding = after.holding(&name);
        let mut expected = self.seen.clone();
        if !holding.is_empty() {
            assert!(self.ran.insert(request.name), "{what}: it ran twice");
            expected.leases.insert(name.clone(), now + LEASE_MS);
        }
        expected.claims.insert(name.clone(), holding.clone());
        self.check_bare(what, request, &holding, &after, &mut expected);
        let retried = self.check_retried(what, &holding, &after, &mut expected);
        let fresh = self.check_fresh(what, request, &holding, &retried, &mut expected);
        check_reply(what, claimed, &holding, &retried);
        self.check_limits(what, request, &holding, &fresh);
        self.check_next(what, daemon, request, claimed, &after);
        self.check_expired(what, claimed);
        let d = &self.daemons[daemon];
        assert!(d.delayed || holding.bare.is_empty(), "{what}: took from Z, which it does not consume");
        assert!(d.ready || fresh.is_empty(), "{what}: took from the ready list, which it does not consume");
        let how = Treatment::Claim { exact: d.exact() };
        let taken: Vec<Bytes> = holding.bare.into_keys().collect();
        self.settled_as(what, expected, &taken, how).await;
        // A claim that takes nothing, or little, does not look.
        if let Some(found) = claimed.leftovers {
            let ghosts = self.seen.ghosts.len() + self.seen.turn.len();
            assert_eq!(found.count, ghosts as u64, "{what}: ghosts counted");
        }
    }

    /// Checks bare elements: the first of Z, none before its time, with their scores.
    fn check_bare(
        &self,
        what: &str,
        request: &ClaimRequest,
        holding: &Holding,
        after: &Snapshot,
        expected: &mut Snapshot,
    ) {
        let horizon = self.now() + request.ahead.as_millis() as i64;
        for (element, score) in &holding.bare {
            let name = short(element);
            assert!(*score <= horizon as f64, "{what}: {name} is due at {score} (R9)");
            assert_eq!(expected.z.remove(element), Some(*score), "{what}: {name} as Z had it");
        }
        if let Some(last) = last(&holding.bare) {
            for (element, score) in &after.z {
                assert!((*score, element) > last, "{what}: took a later one, and left {}", short(element));
            }
        }
    }

    /// Checks entries of the retry set: unchanged, none before its time; those of another version are postponed by a
    /// minute.
    fn check_retried(
        &self,
        what: &str,
        holding: &Holding,
        after: &Snapshot,
        expected: &mut Snapshot,
    ) -> BTreeSet<Bytes> {
        let now = self.now();
        let mut retried = BTreeSet::new();
        for (member, score) in &holding.entries {
            let Some(at) = expected.retry.remove(member) else { continue };
            let name = short(member);
            assert!(at == *score && at <= now as f64, "{what}: {name} waited until {at}, now {score}");
            assert!(known(member), "{what}: {name} is of a newer version");
            retried.insert(member.clone());
        }
        for (member, at) in &mut expected.retry {
            let moved = after.retry.get(member).copied() == Some((now + 60_000) as f64);
            if moved && !known(member) && *at <= now as f64 {
                *at = (now + 60_000) as f64;
            }
        }
        retried
    }

    /// Checks payloads of the ready list: from its head, each with a header of this claim and an id of its own.
    fn check_fresh(
        &mut self,
        what: &str,
        request: &ClaimRequest,
        holding: &Holding,
        retried: &BTreeSet<Bytes>,
        expected: &mut Snapshot,
    ) -> Vec<Bytes> {
        let now = self.now();
        let mut fresh = Vec::new();
        for (member, score) in holding.entries.iter().filter(|(member, _)| !retried.contains(*member)) {
            let (header, start) = Header::decode(member).unwrap_or_else(|| panic!("{what}: {}", short(member)));
            let mut wanted = Header::redriven(Origin::Ready, header.given_id(), now, Vec::new());
            let Writer { place, .. } = header.writer;
            wanted.writer = Writer { owner: request.name.owner, claim: request.name.number, place };
            assert_eq!((&header, *score), (&wanted, now as f64), "{what}");
            assert!(self.given_ids.insert(header.given_id().0), "{what}: the id of {} was given before", short(member));
            fresh.push((place, member.slice(start..)));
        }
        fresh.sort_by_key(|(place, _)| *place);
        let payloads: Vec<Bytes> = expected.ready.drain(..fresh.len().min(expected.ready.len())).collect();
        let (places, fresh): (Vec<u32>, Vec<Bytes>) = fresh.into_iter().unzip();
        assert!(fresh == payloads, "{what}: the ready list from its head");
        assert!(places.iter().zip(1..).all(|(place, n)| *place == n), "{what}: the places {places:?}");
        fresh
    }

    fn check_limits(&self, what: &str, request: &ClaimRequest, holding: &Holding, fresh: &[Bytes]) {
        let count = holding.len();
        assert!(count <= request.most, "{what}: {count} elements, at most {} (R4)", request.most);
        let members: usize = holding.members().iter().map(|(_, m)| m.len()).sum();
        // The headers that the claim itself writes do not count.
        let bytes = members - fresh.len() * Header::new(0).size();
        assert!(count <= 1 || bytes <= request.bytes, "{what}: {bytes} bytes, at most {} (R4)", request.bytes);
    }

    /// Checks the statement about the next claim: nothing due was left unmentioned, and the next due time is right.
    fn check_next(&self, what: &str, daemon: usize, request: &ClaimRequest, claimed: &Claimed, after: &Snapshot) {
        let now = self.now();
        let ahead = request.ahead.as_millis() as i64;
        let d = &self.daemons[daemon];
        let heads = after.z.values().filter(|_| d.delayed).map(|s| s.ceil() as i64 - ahead);
        let heads = heads.chain(after.retry.values().map(|s| s.ceil() as i64));
        let due = |next: &i64| *next <= now;
        let hints = &request.hints;
        let large = [hints.large_due.map(|score| score.ceil_ms() - ahead), hints.large_retry.map(Score::ceil_ms)];
        let mut large = large.into_iter().flatten();
        match heads.min() {
            Some(next) if due(&next) => {
                assert!(claimed.next_ms.is_some_and(|next| due(&next)), "{what}: left what is due since {next}");
            }
            // A head that was large is not looked at again while nothing is before it. Only an operator removes such a head early.
            next if !self.orders.is_empty()
                && large.any(|large| claimed.next_ms == Some(large) && next.is_none_or(|next| next > large)) => {}
            next => assert_eq!(claimed.next_ms.filter(|n| !due(n) || after.ready.is_empty()), next, "{what}"),
        }
        let nothing = claimed.elements.is_empty() && claimed.unknown == 0;
        let waiting = |m: &Bytes, at: &f64| known(m) && *at <= now as f64;
        if nothing {
            let z = d.delayed && after.z.values().any(|s| *s <= (now + ahead) as f64);
            let retry = after.retry.iter().any(|(m, at)| waiting(m, at));
            assert!(!z && !retry && (!d.ready || after.ready.is_empty()), "{what}: took nothing of what is due");
        }
    }

    /// The claims with expired leases, oldest first: of the first `most`, those with readable names, and the number of
    /// the others.
    pub fn expired(&self, most: usize) -> (Vec<ClaimName>, u64) {
        let now = self.now();
        let mut over: Vec<_> = self.seen.leases.iter().filter(|(_, end)| **end <= now).collect();
        over.sort_by_key(|(name, end)| (**end, *name));
        let names = over.into_iter().take(most).map(|(name, _)| std::str::from_utf8(name).ok()?.parse().ok());
        let (names, unknown): (Vec<Option<ClaimName>>, Vec<_>) = names.partition(Option::is_some);
        (names.into_iter().flatten().collect(), unknown.len() as u64)
    }

    fn check_expired(&self, what: &str, claimed: &Claimed) {
        let (names, unknown) = self.expired(EXPIRED_SHOWN);
        assert_eq!(claimed.expired, names, "{what}: expired claims");
        assert_eq!(claimed.unknown_names, unknown, "{what}: names that cannot be read");
    }
}

/// Checks that the reply is the content of the claim: entries of the retry set first, bare elements in due order.
fn check_reply(what: &str, claimed: &Claimed, holding: &Holding, retried: &BTreeSet<Bytes>) {
    let readable = |(part, m): &(Part, Bytes)| *part == Part::Bare || Header::decode(m).is_some();
    let held: BTreeSet<_> = holding.members().into_iter().filter(readable).collect();
    let replied: Vec<_> = claimed.elements.iter().map(|e| (e.part(), e.member.clone())).collect();
    assert_eq!(replied.len(), held.len(), "{what}: the reply has as many as the claim");
    assert!(replied.iter().cloned().collect::<BTreeSet<_>>() == held, "{what}: the reply is not what the claim holds");
    let first: BTreeSet<Bytes> = replied.iter().take(claimed.retried).map(|(_, m)| m.clone()).collect();
    let readable: BTreeSet<Bytes> = retried.iter().filter(|m| Header::decode(m).is_some()).cloned().collect();
    assert!(first == readable, "{what}: {} from the retry set", claimed.retried);
    for element in &claimed.elements {
        check_element(what, element, holding);
    }
    let bare: Vec<_> = claimed.elements.iter().filter(|e| e.part() == Part::Bare).collect();
    let order: Vec<_> = bare.iter().map(|e| (holding.bare[&e.member], &e.member)).collect();
    assert!(order.is_sorted_by(|a, b| a.0 < b.0 || a.0 == b.0 && a.1 <= b.1), "{what}: bare elements in due order");
}

/// Checks that an element in the reply has the score in the claim's key.
pub fn check_element(what: &str, element: &Element, holding: &Holding) {
    let score = holding.part(element.part()).get(&element.member).copied();
    let score = score.unwrap_or_else(|| panic!("{what}: {} is not in the claim", short(&element.member)));
    assert_eq!(element.score_ms, score.ceil() as i64, "{what}: the time of {}", short(&element.member));
}

impl super::daemon::Daemon {
    /// Records the content of a claim.
    pub fn take(&mut self, name: ClaimName, elements: Vec<Element>) {
        let held: Held = elements.into_iter().map(|e| ((e.part(), e.member.clone()), e)).collect();
        if !held.is_empty() {
            self.held.insert(name, held);
        }
    }
}
