//! Steps that find lost claims: own ones with lost replies by their names, claims of others after their leases.

use std::collections::BTreeSet;

use delaybridge_ledger::claims::{ClaimName, Element, Header, MAX_EXPIRIES, Part, TakeOverReply, TakeOverRequest};
use delaybridge_ledger::store::Claims;

use super::claim::check_element;
use super::daemon::Sent;
use super::list::Treatment;
use super::snapshot::Holding;
use super::world::{LEASE, LEASE_MS, World};

impl World<'_> {
    /// Runs the next step for a claim with a lost reply: extend it, which shows whether it ran, then read it. Others
    /// act in between.
    pub async fn adopt(&mut self, daemon: usize) {
        if let Some(name) = self.daemons[daemon].adopting.take() {
            let elements = self.contents(daemon, name).await;
            // The reply of a read may be lost as well.
            if self.rng.u8(..6) == 0 {
                self.daemons[daemon].adopting = Some(name);
            } else {
                self.daemons[daemon].take(name, elements);
            }
            return;
        }
        if self.daemons[daemon].lost.is_empty() {
            return;
        }
        let name = self.daemons[daemon].lost.remove(0);
        let not_after = self.now();
        let held = self.extend(daemon, not_after, &[name]).await.expect("it is in time");
        let d = &mut self.daemons[daemon];
        if self.now_us / 1000 <= self.not_after[&name] {
            // It may still run.
            d.lost.push(name);
        } else if held[0] {
            d.adopting = Some(name);
        }
    }

    pub async fn contents(&mut self, daemon: usize, name: ClaimName) -> Vec<Element> {
        let what = format!("contents of {name} for {daemon}");
        let contents = self.daemons[daemon].store.contents(name).await.unwrap_or_else(|e| panic!("{what}: {e}"));
        self.note(format!("{what}: {}", contents.elements.len()));
        let holding = self.seen.holding(&Self::text(name));
        check_elements(&what, &contents.elements, contents.unknown, &holding);
        self.unchanged(&what).await;
        contents.elements
    }

    /// Reads all expired claims.
    pub async fn look_for_expired(&mut self, daemon: usize) {
        let most = *self.rng.choice(&[1, 3, 100]).expect("some");
        let now = self.now();
        let (mut wanted, unknown) = self.expired(usize::MAX);
        wanted.truncate(most);
        let what = format!("expired claims, at most {most}, for {daemon}");
        let found = self.daemons[daemon].store.expired(now, most).await.unwrap_or_else(|e| panic!("{what}: {e}"));
        // Unreadable names do not hide the others.
        assert_eq!(found.0, wanted, "{what}");
        assert!(found.1 <= unknown && (wanted.len() == most || found.1 == unknown), "{what}: {} unknown", found.1);
        self.daemons[daemon].expired = found.0;
    }

    /// Takes over some claim of another owner, as the daemon knows it.
    pub async fn take_over_some(&mut self, daemon: usize) {
        if self.rng.u8(..3) == 0 || self.daemons[daemon].expired.is_empty() {
            self.look_for_expired(daemon).await;
        }
        let d = &self.daemons[daemon];
        let own = |name: &ClaimName| d.held.contains_key(name) || d.lost.contains(name) || d.adopting == Some(*name);
        let names: Vec<_> = d.expired.iter().filter(|name| !own(name)).copied().collect();
        let Some(old) = self.rng.choice(names) else { return };
        let request = self.take_over_request(daemon, old);
        match self.rng.u8(..20) {
            0..3 => {
                self.note(format!("takeover {old} -> {} of {daemon} is on its way, and given up", request.new));
                let d = &mut self.daemons[daemon];
                d.lost.push(request.new);
                d.in_transit.push(Sent::TakeOver(request));
            }
            n => self.take_over(daemon, request, n > 6).await,
        }
    }

    pub fn take_over_request(&mut self, daemon: usize, old: ClaimName) -> TakeOverRequest {
        let d = &mut self.daemons[daemon];
        let number = d.new_name().number;
        let new = old.taken_over_by(d.owner, number);
        let largest = d.hints.largest();
        let not_after_ms = self.now() + *self.rng.choice(&[0, 300, 3_000]).expect("some");
        self.not_after.insert(new, not_after_ms);
        TakeOverRequest {
            old,
            new,
            not_after_ms,
            lease: LEASE,
            most: if new.is_suspect() { 1 } else { *self.rng.choice(&[1, 3, 500]).expect("some") },
            bytes: *self.rng.choice(&[50, 3_000, 1 << 20]).expect("some"),
            largest,
        }
    }

    /// Sends a takeover, and checks its effect. Worn-out elements are settled as dead at once.
    pub async fn take_over(&mut self, daemon: usize, request: TakeOverRequest, heard: bool) {
        let (now, TakeOverRequest { old, new, most, bytes, .. }) = (self.now(), request.clone());
        let what = format!("takeover {old} -> {new} of {daemon}, most {most} bytes {bytes} heard {heard}");
        let d = &mut self.daemons[daemon];
        let reply = d.store.take_over(&request).await.unwrap_or_else(|e| panic!("{what}: {e}"));
        d.sent.push(Sent::TakeOver(request.clone()));
        let old_text = Self::text(old);
        let new_text = Self::text(new);
        let lease = self.seen.leases.get(&old_text).copied();
        match reply {
            TakeOverReply::Late { now_ms } => {
                self.note(format!("{what}: late"));
                assert!(now_ms == now && now > request.not_after_ms, "{what}: late");
                self.unchanged(&what).await;
            }
            TakeOverReply::Twice { now_ms } => {
                self.note(format!("{what}: twice"));
                let there = self.seen.leases.contains_key(&new_text) || self.seen.claims.contains_key(&new_text);
                assert!(now_ms == now && there, "{what}: twice");
                self.unchanged(&what).await;
            }
            TakeOverReply::Nothing { now_ms } => {
                self.note(format!("{what}: nothing"));
                assert!(now_ms == now && now <= request.not_after_ms, "{what}: ran late");
                let empty = self.seen.holding(&old_text).is_empty();
                match lease {
                    Some(end) if end <= now => {
                        assert!(empty, "{what}: there was something to take");
                        let mut expected = self.seen.clone();
                        expected.leases.remove(&old_text);
                        self.settled_as(&what, expected, &[], Treatment::None).await;
                    }
                    _ => self.unchanged(&what).await,
                }
            }
            TakeOverReply::Taken { now_ms, elements, left, unknown, .. } => {
                self.note(format!("{what}: {} elements, {left} left", elements.len()));
                assert!(now_ms == now && now <= request.not_after_ms, "{what}: ran late");
                assert!(lease.is_some_and(|end| end <= now), "{what}: the lease ran until {lease:?} (R3)");
                self.check_taken(&what, &request, (&elements, unknown), left).await;
                let d = &mut self.daemons[daemon];
                if heard {
                    d.take(new, elements);
                    if new.expiries >= MAX_EXPIRIES {
                        self.bury_alive(daemon, new).await;
                    }
                } else if !d.lost.contains(&new) {
                    d.lost.push(new);
                }
            }
        }
    }

    /// Checks that everything, or the first part of it, moved to the new name.
    async fn check_taken(
        &mut self,
        what: &str,
        request: &TakeOverRequest,
        (elements, unknown): (&[Element], u64),
        left: u64,
    ) {
        let old = Self::text(request.old);
        let new = Self::text(request.new);
        assert!(self.ran.insert(request.new), "{what}: it ran twice");
        let before = self.seen.holding(&old);
        let count = elements.len() + unknown as usize;
        assert!(count > 0 && count <= request.most, "{what}: {count} elements, at most {} (R4)", request.most);
        let mut rest = before.clone();
        let mut taken = Holding::default();
        for (part, member) in before.in_order().into_iter().take(count) {
            let score = rest.part_mut(part).remove(&member).expect("it is one of them");
            taken.part_mut(part).insert(member, score);
        }
        check_elements(what, elements, unknown, &taken);
        let bytes: usize = taken.members().iter().map(|(_, m)| m.len()).sum();
        assert!(count == 1 || bytes <= request.bytes, "{what}: {bytes} bytes, at most {} (R4)", request.bytes);
        assert_eq!(left as usize, rest.len(), "{what}: left");
        let room = request.bytes >= 1 << 20 && count < request.most;
        assert!(!room || left == 0, "{what}: had room, and left {left}");
        let mut expected = self.seen.clone();
        expected.leases.insert(new.clone(), self.now() + LEASE_MS);
        if left == 0 {
            expected.leases.remove(&old);
        }
        expected.claims.insert(old, rest);
        expected.claims.insert(new, taken);
        self.settled_as(what, expected, &[], Treatment::None).await;
    }

    /// Makes one daemon after the other die with its takeover.
    pub async fn wear_out(&mut self) {
        for _ in 0..self.rng.usize(1..=13) {
            self.advance((LEASE_MS + 1) * 1000).await;
            let daemon = self.any_daemon();
            let mut over = self.expired(usize::MAX).0;
            over.retain(|name| self.seen.claims.contains_key(&Self::text(*name)));
            let Some(old) = over.into_iter().max_by_key(|name| name.expiries) else { return };
            let request = self.take_over_request(daemon, old);
            self.take_over(daemon, request, true).await;
            self.kill(daemon);
        }
    }
}

/// Checks that the reply is the content of the claim, entries first.
fn check_elements(what: &str, elements: &[Element], unknown: u64, holding: &Holding) {
    let replied: BTreeSet<_> = elements.iter().map(|e| (e.part(), e.member.clone())).collect();
    let readable = |(part, m): &(Part, bytes::Bytes)| *part == Part::Bare || Header::decode(m).is_some();
    let held: BTreeSet<_> = holding.members().into_iter().filter(readable).collect();
    assert!(replied.len() == elements.len() && replied == held, "{what}: the reply is not what the claim holds");
    assert_eq!(unknown as usize, holding.len() - held.len(), "{what}: unknown entries");
    assert!(elements.is_sorted_by_key(|e| e.part() == Part::Bare), "{what}: entries first");
    elements.iter().for_each(|element| check_element(what, element, holding));
}
