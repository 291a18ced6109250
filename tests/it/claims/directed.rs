//! Corner cases that random histories reach too seldom: a full Redis, large elements, a lease that is too short.

use std::time::Duration;

use bytes::Bytes;
use delaybridge_ledger::claims::{
    Buried, ClaimName, ClaimReply, ClaimRequest, Confirmed, SettleCommand, SettleOp, TakeOverReply, TakeOverRequest,
    Whole,
};
use delaybridge_ledger::store::Claims;

use super::rig::Rig;
use super::world::{LEASE, LEASE_MS, World};
use harness::Layout;

/// A packed element with its number as the id.
pub fn element(number: u64) -> Bytes {
    Layout::New.pack(number.to_le_bytes(), b"payload").into()
}

impl World<'_> {
    /// A request for as much as a script may take, now.
    fn request(&mut self, daemon: usize) -> ClaimRequest {
        let not_after_ms = self.now();
        ClaimRequest { most: 500, bytes: 1 << 20, ahead: Duration::ZERO, not_after_ms, ..self.claim_request(daemon) }
    }

    /// Claims at most `most` elements; returns the name of the claim.
    pub async fn claims(&mut self, most: usize) -> ClaimName {
        let request = ClaimRequest { most, ..self.request(0) };
        let name = request.name;
        self.claim(0, request, true).await;
        name
    }

    /// Offers these elements, due now or in a minute, in this order.
    pub async fn offers(&mut self, elements: &[(Bytes, bool)]) {
        let now = self.now();
        let due = |due: bool| (if due { now } else { now + 60_000 }) as f64;
        let elements: Vec<_> = elements.iter().map(|(e, is_due)| (due(*is_due), e.clone())).collect();
        self.offer_all(&elements).await;
    }
}

#[tokio::test]
async fn a_full_redis_can_be_drained_by_every_call() {
    let mut rig = Rig::with_all_rights().await;
    let mut world = World::directed(&mut rig, None).await;
    world.spend_budget().await;
    let all: Vec<_> = (0..300).map(|n| (element(n * 7_919 % 300), true)).collect();
    world.offers(&all).await;
    for _ in 0..20 {
        world.push_ready().await;
    }
    world.full = true;
    world.limit_memory(true).await;
    let full = redis::cmd("SET").arg("more").arg("text").exec_async(&mut world.rig.redis).await.unwrap_err();
    assert_eq!(full.code(), Some("OOM"));
    // Every verdict as the first of its call.
    let first = world.claims(60).await;
    for element in world.daemons[0].held[&first].values().cloned().collect::<Vec<_>>() {
        let verdict = world.verdict(0, first, &element);
        let batch = world.batch(vec![verdict]);
        world.settle(0, &batch).await;
    }
    assert!(!world.seen.dead.is_empty() && !world.seen.pushed.is_empty() && !world.seen.retry.is_empty());
    world.advance(5_000_000).await;
    for _ in 0..2 {
        let name = world.claims(40).await;
        assert_eq!(world.extend(0, world.now(), &[name]).await, Some(vec![true]));
        let holding = world.seen.holding(&World::text(name));
        let whole = Whole { name, bare: holding.bare.len(), entries: holding.entries.len() };
        assert_eq!(world.confirm(0, &[whole]).await, [Confirmed::Done]);
        assert!(!world.bury(0, world.now(), vec![name]).await);
        assert!(world.bury(0, world.now() - 1, vec![name]).await);
    }
    // In whole and in part, by others.
    for most in [3, 500] {
        let old = world.claims(50).await;
        world.advance((LEASE_MS + 1) * 1_000).await;
        world.kill(0);
        let daemon = world.alive[0];
        let request = TakeOverRequest { most, bytes: 1 << 20, ..world.take_over_request(daemon, old) };
        world.take_over(daemon, request, true).await;
        assert!(!world.daemons[daemon].held.is_empty());
        world.alive = vec![0];
    }
    world.come_to_rest().await;
}

#[tokio::test]
async fn elements_of_any_size_are_claimed() {
    let mut rig = Rig::with_all_rights().await;
    let mut world = World::directed(&mut rig, None).await;
    let large = Bytes::from(Layout::New.pack([1; 8], &vec![7; 20 << 20]));
    let mut all = vec![(Bytes::new(), true), (large, true)];
    all.extend((0..100).map(|n| (element(n), true)));
    world.offers(&all).await;
    let mut taken = Vec::new();
    while taken.iter().sum::<usize>() < all.len() {
        let name = world.claims(500).await;
        taken.push(world.daemons[0].held[&name].len());
    }
    assert!(taken.len() <= 3, "{taken:?}");
    assert!(world.seen.l.is_empty());
}

/// A patience longer than the lease is a mistake of the caller. A repeated call may then run again with the name of a
/// claim that another process has taken over and settled; its elements are under a lease, and found by its name.
#[tokio::test]
async fn a_claim_with_a_lease_that_is_too_short_loses_nothing() {
    let mut rig = Rig::with_all_rights().await;
    let mut world = World::directed(&mut rig, None).await;
    world.offers(&[(element(1), true)]).await;
    let request = ClaimRequest { not_after_ms: world.now() + 10 * LEASE_MS, ..world.request(0) };
    let store = &world.daemons[0].store;
    assert!(matches!(Claims::claim(store, &request).await.unwrap(), ClaimReply::Claimed(_)));
    world.advance((LEASE_MS + 1) * 1_000).await;
    // Another process takes over and confirms.
    let store = &world.daemons[0].store;
    let new = request.name.taken_over_by([9; 8], 1);
    let take_over = TakeOverRequest {
        old: request.name,
        new,
        not_after_ms: world.now(),
        lease: LEASE,
        most: 500,
        bytes: 1 << 20,
        largest: 0,
    };
    assert!(matches!(store.take_over(&take_over).await.unwrap(), TakeOverReply::Taken { .. }));
    let whole = Whole { name: new, bare: 1, entries: 0 };
    assert_eq!(store.confirm(&[whole]).await.unwrap(), [Confirmed::Done]);
    world.seen = world.look().await;
    world.offers(&[(element(2), true)]).await;
    // The repeated call arrives.
    let store = &world.daemons[0].store;
    assert!(matches!(Claims::claim(store, &request).await.unwrap(), ClaimReply::Claimed(_)));
    let after = world.look().await;
    let name = World::text(request.name);
    assert!(after.leases.contains_key(&name) && after.holding(&name).bare.contains_key(&element(2)));
    // A verdict on a taken-over element finds nothing, and no call removes the lease of the present elements.
    let verdict = |n| SettleCommand {
        claim: request.name,
        part: delaybridge_ledger::claims::Part::Bare,
        member: element(n),
        step: SettleOp::Confirm,
        body: None,
    };
    let store = &world.daemons[0].store;
    let answers = store.settle(&[verdict(1)], None, None).await.unwrap().answers;
    assert_eq!(answers, [delaybridge_ledger::Answer::NotMine]);
    let kept = store.bury(world.now() - 1, &[request.name]).await.unwrap();
    assert!(matches!(kept, Buried::Done { kept, .. } if kept == [true]));
    assert_eq!(after.difference(&world.look().await), None);
}
