//! Steps on whole claims: confirm, extend, and the removal of leases that are not needed any more.

use std::collections::BTreeSet;

use delaybridge_ledger::claims::{Buried, ClaimName, Confirmed, Extended, Header, Part, Whole};
use delaybridge_ledger::store::{Claims, InFlight};

use super::daemon::Sent;
use super::list::Treatment;
use super::world::{LEASE, LEASE_MS, World};

impl World<'_> {
    /// Confirms some claims, by name or element by element.
    pub async fn confirm_some(&mut self, daemon: usize) {
        let d = &self.daemons[daemon];
        let unsure: BTreeSet<ClaimName> =
            d.unsure.iter().flat_map(|batch| batch.verdicts.iter().map(|v| v.claim)).collect();
        let names: Vec<_> = d.held.keys().filter(|name| !unsure.contains(name)).copied().collect();
        let some = self.rng.usize(1..=3);
        let names = self.rng.choose_multiple(names, some);
        if names.is_empty() {
            return;
        }
        let whole = |name: &ClaimName| {
            let bare = d.held[name].keys().filter(|(part, _)| *part == Part::Bare).count();
            Whole { name: *name, bare, entries: d.held[name].len() - bare }
        };
        let claims: Vec<Whole> = names.iter().map(whole).collect();
        // A daemon with a wrong clock takes expired leases for valid ones.
        let by_name = self.rng.u8(..10) < 6 && !names.iter().any(|name| self.holds_damaged(*name));
        if by_name && self.rng.u8(..6) == 0 {
            self.note(format!("confirm {claims:?} of {daemon} is on its way"));
            let d = &mut self.daemons[daemon];
            d.in_transit.push(Sent::Confirm(claims));
            for name in names {
                d.held.remove(&name);
                d.empty.push(name);
            }
            return;
        }
        if by_name {
            self.confirm(daemon, &claims).await;
        }
        for name in names {
            if !by_name {
                self.confirm_one_by_one(daemon, name).await;
            }
            let d = &mut self.daemons[daemon];
            d.held.remove(&name);
            d.empty.push(name);
        }
    }

    /// Whether the claim contains an entry that its owner cannot read, and has reported.
    pub fn holds_damaged(&self, name: ClaimName) -> bool {
        self.seen.holding(&Self::text(name)).entries.keys().any(|member| Header::decode(member).is_none())
    }

    /// Sends a confirmation of whole claims, and checks it.
    pub async fn confirm(&mut self, daemon: usize, claims: &[Whole]) -> Vec<Confirmed> {
        let what = format!("confirm {claims:?} of {daemon}");
        let d = &mut self.daemons[daemon];
        let answers = d.store.confirm(claims).await.unwrap_or_else(|e| panic!("{what}: {e}"));
        d.sent.push(Sent::Confirm(claims.to_vec()));
        self.note(format!("{what}: {answers:?}"));
        assert_eq!(answers.len(), claims.len(), "{what}");
        let mut expected = self.seen.clone();
        let mut wanted = Vec::new();
        for claim in claims {
            let name = Self::text(claim.name);
            let holding = expected.holding(&name);
            // Nothing is compared: all present elements go, and the owner knew all of them.
            wanted.push(if holding.is_empty() { Confirmed::Gone } else { Confirmed::Done });
            if *wanted.last().expect("one") == Confirmed::Done {
                expected.claims.remove(&name);
            }
        }
        let gone = |answers: &[Confirmed]| answers.iter().filter(|a| **a == Confirmed::Gone).count();
        // A single command returns the number of removed keys: a claim in two keys may count twice, and a part that
        // another one took over may count as a missing claim.
        let plain = claims.iter().all(|claim| {
            let holding = self.seen.holding(&Self::text(claim.name));
            let same = (holding.bare.len(), holding.entries.len()) == (claim.bare, claim.entries);
            (claim.bare == 0 || claim.entries == 0) && (same || holding.is_empty())
        });
        assert!(!plain || gone(&answers) == gone(&wanted), "{what}: {answers:?}, not {wanted:?}");
        assert!(gone(&answers) > 0 || gone(&wanted) == 0, "{what}: {answers:?}, not {wanted:?}");
        self.settled_as(&what, expected, &[], Treatment::None).await;
        answers
    }

    /// Extends all claims that the daemon believes it holds.
    pub async fn extend_all(&mut self, daemon: usize) {
        let names: Vec<ClaimName> = self.daemons[daemon].held.keys().copied().collect();
        if names.is_empty() {
            return;
        }
        let not_after = self.now() + *self.rng.choice(&[0, 200, 500, 3_000]).expect("some");
        if self.rng.u8(..10) == 0 {
            return self.daemons[daemon].in_transit.push(Sent::Extend(not_after, names));
        }
        let held = self.extend(daemon, not_after, &names).await.expect("it is in time");
        if self.rng.u8(..8) == 0 {
            return; // the reply is lost
        }
        let d = &mut self.daemons[daemon];
        for (name, held) in names.into_iter().zip(held) {
            if !held {
                d.held.remove(&name);
            }
        }
    }

    /// Sends an extension, and checks that only ends of leases move, and that the answers name the claims that are
    /// lost. None if it came late, and nothing has moved.
    pub async fn extend(&mut self, daemon: usize, not_after: i64, names: &[ClaimName]) -> Option<Vec<bool>> {
        let what = format!("extend {} of {daemon}", names.len());
        let mut expected = self.seen.clone();
        let until = self.now() + LEASE_MS;
        let mut end = |name: &ClaimName| expected.leases.get_mut(&Self::text(*name)).map(|end| *end = until).is_some();
        let wanted: Vec<bool> = names.iter().map(&mut end).collect();
        let d = &mut self.daemons[daemon];
        let extended = d.store.extend(LEASE, not_after, names).await.unwrap_or_else(|e| panic!("{what}: {e}"));
        d.sent.push(Sent::Extend(not_after, names.to_vec()));
        self.note(format!("{what}: {names:?} {extended:?}"));
        let now = self.now();
        match extended {
            Extended::Late { now_ms } => {
                assert!(now_ms == now && now > not_after, "{what}: late");
                self.unchanged(&what).await;
                None
            }
            Extended::Done { now_ms, held } => {
                assert!(now_ms == now && now <= not_after, "{what}: ran late");
                assert_eq!(held, wanted, "{what}");
                self.settled_as(&what, expected, &[], Treatment::None).await;
                Some(wanted)
            }
        }
    }

    /// Removes the leases of claims that the daemon knows, or wrongly believes, to be empty.
    pub async fn bury_some(&mut self, daemon: usize) {
        let d = &self.daemons[daemon];
        if let Some(wrong) = d.held.keys().next().copied().filter(|_| self.rng.u8(..10) == 0) {
            self.bury(daemon, self.not_after[&wrong], vec![wrong]).await;
        }
        let names: BTreeSet<ClaimName> = self.daemons[daemon].empty.iter().copied().collect();
        let Some(not_after) = names.iter().map(|name| self.not_after[name]).max() else { return };
        if self.rng.u8(..10) == 0 {
            let names = names.into_iter().collect();
            return self.daemons[daemon].in_transit.push(Sent::Bury(not_after, names));
        }
        if self.bury(daemon, not_after, names.into_iter().collect()).await && self.rng.u8(..8) > 0 {
            self.daemons[daemon].empty.clear();
        }
    }

    /// Sends the removal; returns whether it had an effect.
    pub async fn bury(&mut self, daemon: usize, not_after: i64, names: Vec<ClaimName>) -> bool {
        let what = format!("bury {names:?} of {daemon} after {not_after}");
        let now = self.now();
        let d = &mut self.daemons[daemon];
        let buried = d.store.bury(not_after, &names).await.unwrap_or_else(|e| panic!("{what}: {e}"));
        d.sent.push(Sent::Bury(not_after, names.clone()));
        self.note(format!("{what}: {buried:?}"));
        match buried {
            Buried::Wait { now_ms } => {
                assert!(now_ms == now && now <= not_after, "{what}: waits");
                self.unchanged(&what).await;
                false
            }
            Buried::Done { now_ms, kept } => {
                assert!(now_ms == now && now > not_after, "{what}: may still run");
                let mut expected = self.seen.clone();
                let there = |name: &ClaimName| self.seen.claims.contains_key(&Self::text(*name));
                assert_eq!(kept, names.iter().map(there).collect::<Vec<_>>(), "{what}");
                for name in names.iter().filter(|name| !there(name)) {
                    expected.leases.remove(&Self::text(*name));
                }
                self.settled_as(&what, expected, &[], Treatment::None).await;
                true
            }
        }
    }

    /// Checks the gauge of elements in flight.
    pub async fn count_in_flight(&mut self, daemon: usize) {
        let what = "the elements in flight";
        let found = self.daemons[daemon].store.in_flight().await.unwrap_or_else(|e| panic!("{what}: {e}"));
        let leased = self.seen.claims.iter().filter(|(name, _)| self.seen.leases.contains_key(*name));
        let count = |newer: bool| -> u64 {
            leased.clone().filter(|(name, _)| newer || !self.newer.contains(*name)).map(|(_, h)| h.len() as u64).sum()
        };
        let InFlight { elements, more } = found;
        assert!(!more && (count(false)..=count(true)).contains(&elements), "{what}: {found:?}, not {}", count(true));
        self.unchanged(what).await;
    }
}
