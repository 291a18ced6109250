//! One seed: steps in random order, then everything comes to rest and is checked.

use bytes::Bytes;
use delaybridge_ledger::claims::{ClaimRequest, Header, Part, TakeOverRequest, Whole};
use delaybridge_source::redisson::Scripts;

use super::daemon::Sent;
use super::rig::Rig;
use super::runner::Trace;
use super::snapshot::{Snapshot, identity, short};
use super::world::{LEASE_MS, World};

/// Runs one seed with the library's scripts, or with others.
pub async fn run(rig: &mut Rig, scripts: Option<&'static Scripts>, seed: u64, trace: Trace, loud: bool) {
    let mut world = World::new(rig, scripts, seed, trace, loud).await;
    for _ in 0..world.rng.usize(60..=260) {
        world.step().await;
    }
    world.come_to_rest().await;
}

/// The same with an operator, who makes every fourth step.
pub async fn operated(rig: &mut Rig, scripts: Option<&'static Scripts>, seed: u64, trace: Trace, loud: bool) {
    let mut world = World::new(rig, scripts, seed, trace, loud).await;
    for _ in 0..world.rng.usize(60..=160) {
        match world.rng.u8(..4) {
            0 => world.operate().await,
            _ => world.step().await,
        }
    }
    world.come_to_rest().await;
}

impl World<'_> {
    /// One of the live daemons.
    pub fn any_daemon(&mut self) -> usize {
        *self.rng.choice(&self.alive).expect("some")
    }

    async fn step(&mut self) {
        let daemon = self.any_daemon();
        match self.rng.u8(..100) {
            0..13 => self.offer().await,
            13..15 => self.push_ready().await,
            15..18 => self.redisson().await,
            18..29 => self.pass_time().await,
            29..44 => self.claim_some(daemon).await,
            44..48 => self.arrive_late(daemon).await,
            48..54 => self.adopt(daemon).await,
            54..64 => self.settle_some(daemon).await,
            64..70 => self.confirm_some(daemon).await,
            70..73 => self.bury_some(daemon).await,
            73..75 => self.extend_all(daemon).await,
            75..81 => self.take_over_some(daemon).await,
            81..87 => self.send_again(daemon).await,
            87..92 => self.sweep_some(daemon).await,
            92 => match self.rng.u8(..2) {
                0 => self.damaged_entry().await,
                _ => self.newer_version().await,
            },
            93..95 => match self.rng.u8(..4) {
                0 => {
                    self.delete_some_key().await;
                    // Calls sent before and after meet the hole.
                    for _ in 0..2 {
                        let daemon = self.any_daemon();
                        self.send_again(daemon).await;
                        self.claim_some(daemon).await;
                    }
                }
                1 => self.fail_over().await,
                2 => self.kill(daemon),
                _ => self.count_in_flight(daemon).await,
            },
            95 => self.kill(daemon),
            96..99 => self.hear_from_the_dead().await,
            _ => self.wear_out().await,
        }
    }

    /// Advances the clock by a moment, or until leases expire; sometimes not even by a microsecond.
    async fn pass_time(&mut self) {
        let us = match self.rng.u8(..8) {
            0 => 1,
            1..4 => self.rng.i64(0..300_000),
            4..7 => self.rng.i64(0..2_000_000),
            _ => LEASE_MS * 1_100,
        };
        self.advance(us).await;
    }

    /// Delivers a delayed call.
    async fn arrive_late(&mut self, daemon: usize) {
        let waiting = self.daemons[daemon].in_transit.len();
        if waiting > 0 {
            let place = self.rng.usize(..waiting);
            let sent = self.daemons[daemon].in_transit.swap_remove(place);
            self.note(format!("of {daemon} arrives:"));
            self.send(daemon, sent).await;
        }
    }

    /// Delivers a call of a dead process, or repeats one.
    async fn hear_from_the_dead(&mut self) {
        let dead: Vec<_> = (0..self.daemons.len()).filter(|daemon| !self.alive.contains(daemon)).collect();
        let Some(daemon) = self.rng.choice(dead) else { return };
        if self.rng.bool() {
            self.arrive_late(daemon).await;
        } else {
            self.send_again(daemon).await;
        }
    }

    /// Repeats any earlier call of the same daemon, now.
    async fn send_again(&mut self, daemon: usize) {
        let sent = &self.daemons[daemon].sent;
        // Mostly one of the last, with little in between.
        let first = if self.rng.u8(..5) < 3 { sent.len().saturating_sub(6) } else { 0 };
        let Some(sent) = self.rng.choice(&sent[first..]).cloned() else { return };
        self.note(format!("{daemon} sends again:"));
        self.send(daemon, sent).await;
    }

    async fn send(&mut self, daemon: usize, sent: Sent) {
        match sent {
            Sent::Claim(request) => self.claim(daemon, request, false).await,
            Sent::TakeOver(request) => self.take_over(daemon, request, false).await,
            Sent::Settle(batch) => {
                let _ = self.settle(daemon, &batch).await;
            }
            Sent::Confirm(claims) => {
                let _ = self.confirm(daemon, &claims).await;
            }
            Sent::Extend(not_after, names) => {
                let _ = self.extend(daemon, not_after, &names).await;
            }
            Sent::Bury(not_after, names) => {
                let _ = self.bury(daemon, not_after, names).await;
            }
            Sent::Sweep(request, failovers) => {
                let done = request.step.is_some() && failovers == self.failovers && !self.seen.state.is_empty();
                self.sweep(daemon, request, done).await;
            }
        }
    }

    /// Advances the clock, claims or takes over and confirms everything, and runs the sweep to its end.
    pub async fn come_to_rest(&mut self) {
        self.note("everything comes to rest".to_owned());
        let daemon = self.start_daemon(true);
        self.alive = vec![daemon];
        for round in 0.. {
            assert!(round < 1_000, "the queue does not run empty");
            self.advance((LEASE_MS + 1) * 1000).await;
            let request =
                ClaimRequest { most: 50, bytes: 1 << 20, not_after_ms: self.now(), ..self.claim_request(daemon) };
            self.claim(daemon, request, true).await;
            for old in self.expired(100).0 {
                let request = TakeOverRequest {
                    not_after_ms: self.now(),
                    most: if old.expiries >= 2 { 1 } else { 500 },
                    bytes: 1 << 20,
                    ..self.take_over_request(daemon, old)
                };
                self.take_over(daemon, request, true).await;
            }
            self.confirm_all(daemon).await;
            if self.at_rest() {
                break;
            }
        }
        // The first joins the current turn, the second covers records made during it.
        for _ in 0..2 {
            self.advance(1_000_000_000).await;
            self.full_turn(daemon).await;
        }
        self.check_rest();
    }

    async fn confirm_all(&mut self, daemon: usize) {
        let damaged: Vec<_> =
            self.daemons[daemon].held.keys().filter(|name| self.holds_damaged(**name)).copied().collect();
        for name in damaged {
            self.confirm_one_by_one(daemon, name).await;
            self.daemons[daemon].held.remove(&name);
        }
        let held = std::mem::take(&mut self.daemons[daemon].held);
        let whole = |name: &_| {
            let holding = self.seen.holding(&Self::text(*name));
            Whole { name: *name, bare: holding.part(Part::Bare).len(), entries: holding.part(Part::Entries).len() }
        };
        let claims: Vec<Whole> = held.keys().map(whole).collect();
        if !claims.is_empty() {
            self.confirm(daemon, &claims).await;
        }
        let names: Vec<_> = held.into_keys().collect();
        self.advance(1_000).await;
        if !names.is_empty() {
            let not_after = self.now() - 1;
            self.bury(daemon, not_after, names).await;
        }
    }

    /// Whether only data is left that no call can find, or that belongs to a newer version.
    fn at_rest(&self) -> bool {
        let Snapshot { z, ready, leases, claims, retry, .. } = &self.seen;
        // The pipeline makes a dead letter of a damaged entry; these calls alone leave it in its claim.
        let damaged = |(part, m): &(Part, Bytes)| *part == Part::Entries && Header::decode(m).is_none();
        let left = |name: &Bytes| {
            let holding = self.seen.holding(name);
            let all_damaged = !holding.is_empty() && holding.members().iter().all(damaged);
            !self.newer.contains(name) && !self.stranded.contains(name) && !all_damaged
        };
        let waits = retry.keys().any(super::claim::known);
        z.is_empty() && ready.is_empty() && !waits && !leases.keys().chain(claims.keys()).any(left)
    }

    fn check_rest(&self) {
        let Snapshot { l, ghosts, turn, .. } = &self.seen;
        assert!(ghosts.is_empty() && turn.is_empty(), "ghosts are recorded after the last turn: {ghosts:?} {turn:?}");
        for e in l {
            // A surplus copy has the identity of its twins, and may be removed instead of one.
            let doubled = self.doubled.iter().any(|d| identity(d) == identity(e));
            assert!(doubled || self.orphans.contains(e), "{} was claimed, and is still in L", short(e));
        }
        for orphan in &self.orphans {
            assert!(l.contains(orphan), "the orphan {} is gone ({:?})", short(orphan), identity(orphan));
        }
    }
}
