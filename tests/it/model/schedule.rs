//! One seed: steps in random order, then everything comes to rest and is looked over.

use super::claims::known;
use super::rig::Rig;
use super::snapshot::{Snapshot, identity, short};
use super::world::{LEASE_MS, Lost, Sent, Trace, World};

/// Runs one seed.
pub async fn run(rig: &mut Rig, seed: u64, trace: Trace, loud: bool) {
    let mut world = World::new(rig, seed, trace, loud).await;
    for _ in 0..world.rng.usize(150..=400) {
        world.step().await;
    }
    world.come_to_rest().await;
}

impl World<'_> {
    async fn step(&mut self) {
        let daemon = self.rng.usize(..self.daemons.len());
        match self.rng.u8(..100) {
            0..16 => {
                for _ in 0..self.rng.usize(1..5) {
                    self.offer_as_producer().await;
                }
            }
            16..18 => self.offer_new(daemon).await,
            18..21 => self.push_ready().await,
            21..32 => self.pass_time().await,
            32..47 => {
                let alone = self.rng.u8(..6) == 0;
                let request = self.claim_request(daemon, alone);
                let heard = self.rng.u8(..5) > 0;
                self.claim(daemon, request, heard).await;
            }
            47..49 => self.give_up_a_claim(daemon),
            49..51 => self.run_late(daemon).await,
            51..55 if !self.daemons[daemon].lost.is_empty() => {
                let place = self.rng.usize(..self.daemons[daemon].lost.len());
                self.recover(daemon, place).await;
            }
            55..68 => self.settle_some(daemon).await,
            68..71 => self.extend_some(daemon).await,
            71..81 => self.send_again(daemon).await,
            81..90 => self.sweep_some(daemon).await,
            90..93 => self.redisson().await,
            93 => self.cancel_some(daemon).await,
            94..96 => self.redrive_some(daemon).await,
            96..98 => match self.rng.u8(..8) {
                0..3 => self.delete_z().await,
                3 => self.delete_l().await,
                4 => self.wear_out().await,
                _ => self.newer_entry().await,
            },
            98 => self.entry_of_the_dead().await,
            _ => {}
        }
    }

    /// A moment, or so long that leases expire. Now and then not even a microsecond.
    async fn pass_time(&mut self) {
        let us = match self.rng.u8(..10) {
            0 => 1,
            1..8 => self.rng.i64(0..2_000_000),
            _ => self.rng.i64(0..2 * LEASE_MS * 1000),
        };
        self.advance(us).await;
    }

    /// The claim is in a socket buffer; the daemon counts it as lost.
    fn give_up_a_claim(&mut self, daemon: usize) {
        let request = self.claim_request(daemon, false);
        self.note(format!("claim {} of {daemon} is on its way, and given up", request.number));
        let now = self.now();
        let d = &mut self.daemons[daemon];
        d.lost.push(Lost {
            number: request.number,
            not_after_ms: request.not_after_ms,
            from: (now + LEASE_MS - 1_000).to_string(),
            until_ms: request.not_after_ms + LEASE_MS + 1_000,
        });
        d.in_transit.push(request);
    }

    /// One that was on its way arrives.
    async fn run_late(&mut self, daemon: usize) {
        let waiting = self.daemons[daemon].in_transit.len();
        if waiting > 0 {
            let place = self.rng.usize(..waiting);
            let request = self.daemons[daemon].in_transit.swap_remove(place);
            self.claim(daemon, request, false).await;
        }
    }

    /// Anything that was ever sent is sent again, by the same daemon, now.
    async fn send_again(&mut self, daemon: usize) {
        let sent = self.daemons[daemon].sent.clone();
        // Half of the time the very last one, with nothing in between.
        let last = self.rng.bool();
        let Some(mut again) = (if last { sent.last().cloned() } else { self.rng.choice(sent.clone()) }) else { return };
        if matches!(again, Sent::Claim(_)) {
            // Most of what is sent are claims, and most of those are too late.
            again = self.rng.choice(sent).unwrap_or(again);
        }
        self.note(format!("{daemon} sends again:"));
        match again {
            Sent::Claim(request) => self.claim(daemon, request, false).await,
            Sent::Settle(batch) => self.settle(daemon, &batch, true).await,
            Sent::Extend(members) => self.extend(daemon, &members).await,
            Sent::Sweep(request) => {
                self.sweep(daemon, request, true).await;
            }
            Sent::Offer { element, delay } => self.offer(daemon, element, delay).await,
            Sent::Cancel { member, in_retry } => self.cancel(daemon, member, in_retry, true).await,
            Sent::Redrive { id, member } => self.redrive(daemon, &id, member, true).await,
        }
    }

    /// One daemon after the other dies with what it took.
    async fn wear_out(&mut self) {
        for _ in 0..self.rng.usize(1..=12) {
            self.advance((LEASE_MS + 1) * 1000).await;
            for daemon in 0..self.daemons.len() {
                let alone = self.rng.bool();
                let mut request = self.claim_request(daemon, alone);
                (request.most, request.bytes) = (500, 1 << 20);
                self.claim(daemon, request, false).await;
            }
        }
    }

    /// Time passes, everything is claimed and confirmed, and the sweep runs to its end.
    async fn come_to_rest(&mut self) {
        self.note("everything comes to rest".to_owned());
        for round in 0.. {
            assert!(round < 1_000, "the queue does not run empty");
            self.advance((3 * LEASE_MS) * 1000).await;
            let daemon = round % self.daemons.len();
            let mut request = self.claim_request(daemon, round % 3 == 2);
            (request.most, request.bytes) = (500, 1 << 20);
            self.daemons[daemon].held.clear();
            self.claim(daemon, request, true).await;
            // Its own entries that it had forgotten are found as well.
            while !self.daemons[daemon].lost.is_empty() {
                self.recover(daemon, 0).await;
            }
            let held = std::mem::take(&mut self.daemons[daemon].held);
            let batch: Vec<_> =
                held.into_iter().map(|e| (e.member, delaybridge::source::ledger::Move::Confirm)).collect();
            self.settle(daemon, &batch, false).await;
            if self.at_rest() {
                break;
            }
        }
        // The first joins the current turn, the second covers what was recorded during it.
        self.full_turn(0).await;
        self.full_turn(0).await;
        let Snapshot { l, ghosts, turn, .. } = &self.seen;
        assert!(ghosts.is_empty() && turn.is_empty(), "ghosts are recorded after the last turn: {ghosts:?} {turn:?}");
        for e in l {
            // A copy too many has the identity of its twins, and may go in the place of one.
            let doubled = self.doubled.iter().any(|d| identity(d) == identity(e));
            assert!(doubled || self.orphans.contains(e), "{} was claimed, and is still in L", short(e));
        }
        for orphan in &self.orphans {
            assert!(l.contains(orphan), "the orphan {} is gone ({:?})", short(orphan), identity(orphan));
        }
    }

    fn at_rest(&self) -> bool {
        let ready = self.seen.ready.is_empty() || !self.daemons.iter().any(|d| d.ready);
        let ours = |m: &bytes::Bytes| known(m);
        ready && self.seen.z.is_empty() && !self.seen.in_flight.keys().chain(self.seen.retry.keys()).any(ours)
    }
}
