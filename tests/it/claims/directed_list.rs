//! Corner cases of the list that random histories reach too seldom, each with the bug that it exposes.

use std::time::Duration;

use bytes::Bytes;
use delaybridge_ledger::claims::Patch;
use delaybridge_ledger::{Start, UpkeepRequest, UpkeepState};
use delaybridge_link::Clock;
use delaybridge_source::redisson::Scripts;

use super::directed::element;
use super::rig::Rig;
use super::runner;
use super::world::World;

/// The failure of the scenario with this bug in the scripts; without the bug, it passes.
async fn noticed(patch: Patch<'static>, scenario: impl AsyncFn(&mut World<'_>)) -> String {
    let mut rig = Rig::with_all_rights().await;
    scenario(&mut World::directed(&mut rig, None).await).await;
    let scripts = Box::leak(Box::new(Scripts::patched(Clock::Test, &[patch])));
    let mut world = World::directed(&mut rig, Some(scripts)).await;
    runner::panic_of(scenario(&mut world)).await.expect("the bug is noticed")
}

/// An element with the same first bytes as the others.
fn twin(letter: u8) -> Bytes {
    [&[5; 16][..], &[letter; 20]].concat().into()
}

impl World<'_> {
    /// Makes the element due now, or in a minute.
    async fn is_due(&mut self, element: &Bytes, due: bool) {
        let at = self.now() + if due { 0 } else { 60_000 };
        let key = self.keys.delayed.clone();
        self.rig.run(redis::cmd("ZADD").arg(&key[..]).arg("XX").arg(at).arg(&element[..])).await;
        self.seen = self.look().await;
    }

    /// Offers 120 elements that are not due, with this one at this place, and twin `a` in the middle as a ghost.
    async fn with_ghost_and_twin(&mut self, place: usize) -> Vec<Bytes> {
        self.spend_budget().await;
        let mut all: Vec<_> = (0..120).map(|n| (element(n), false)).collect();
        (all[60].0, all[place].0) = (twin(b'a'), twin(b'b'));
        self.offers(&all).await;
        let all: Vec<Bytes> = all.into_iter().map(|(element, _)| element).collect();
        self.is_due(&all[60], true).await;
        // Together with others in the middle: a claim of one element looks at less.
        self.is_due(&all[61], true).await;
        self.is_due(&all[62], true).await;
        self.claims(500).await;
        assert_eq!(self.seen.ghosts.len(), 3);
        all
    }

    /// Runs slices of one entry each.
    async fn slices(&mut self, count: usize) {
        for _ in 0..count {
            let step = self.daemons[0].step;
            let max_age = Duration::ZERO;
            let start = Start::Urgent;
            let request = UpkeepRequest { step, max_age, bandwidth: 1 << 30, start, largest: 2 << 20 };
            let state = self.sweep(0, request, false).await.state;
            assert!(matches!(state, UpkeepState::Begun | UpkeepState::Step), "{state:?}");
        }
    }
}

#[tokio::test]
async fn a_live_twin_at_an_end_of_the_list_is_distinguished_from_a_ghost() {
    for place in [0, 119] {
        let patch = ("claim", "not call('ZSCORE', Z, entry) and forget(entry)", "forget(entry)");
        let reason = noticed(patch, async |world| {
            let all = world.with_ghost_and_twin(place).await;
            for element in &all[30..33] {
                world.is_due(element, true).await;
            }
            world.claims(500).await;
            world.come_to_rest().await;
        })
        .await;
        assert!(reason.contains("is in Z, and went from L"), "{reason}");
    }
}

#[tokio::test]
async fn an_orphan_at_an_end_of_the_list_stays_there() {
    for place in [0, 119] {
        let patch = ("claim", "and forget(entry) then", "and (forget(entry) or true) then");
        let reason = noticed(patch, async |world| {
            world.spend_budget().await;
            let all: Vec<_> = (0..120).map(|n| (element(n), (50..55).contains(&n))).collect();
            world.offers(&all).await;
            world.claims(500).await;
            let orphan = all[place].0.clone();
            let key = world.keys.delayed.clone();
            world.rig.run(redis::cmd("ZREM").arg(&key[..]).arg(&orphan[..])).await;
            world.orphans.insert(orphan);
            for element in &all[30..33] {
                world.is_due(&element.0, true).await;
            }
            world.claims(500).await;
            world.come_to_rest().await;
        })
        .await;
        assert!(reason.contains("nothing recorded it"), "{reason}");
    }
}

#[tokio::test]
async fn a_ghost_that_is_cut_during_a_turn_does_not_take_the_record_of_its_twin() {
    let patch = (
        "claim",
        "call('SREM', TURN, id) == 1 or call('SREM', GHOSTS, id) == 1",
        "call('SREM', GHOSTS, id) == 1 or call('SREM', TURN, id) == 1",
    );
    let reason = noticed(patch, async |world| {
        let all = world.with_ghost_and_twin(5).await;
        // The turn has passed the live twin, which becomes a ghost behind it, and has nearly reached the first ghost.
        world.slices(1 + 58).await;
        for n in [5, 100, 101] {
            world.is_due(&all[n], true).await;
        }
        world.claims(500).await;
        assert!(world.seen.ghosts.contains(&twin(b'b').slice(..9)) && world.seen.turn.contains(&twin(b'a').slice(..9)));
        world.slices(2).await;
        assert_eq!(world.seen.l[0], twin(b'a'));
        for element in &all[90..93] {
            world.is_due(element, true).await;
        }
        world.claims(500).await;
        assert!(!world.seen.l.contains(&twin(b'a')));
        world.full_turn(0).await;
        world.come_to_rest().await;
    })
    .await;
    assert!(reason.contains("is still in L"), "{reason}");
}
