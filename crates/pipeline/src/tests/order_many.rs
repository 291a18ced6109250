//! Queues in order of which many claims were left behind: the order holds over all of them, and the work grows with their number.

use super::order::{first_taken, in_order, world};
use super::*;
use delaybridge_ledger::claims::{ClaimName, ClaimRequest};
use delaybridge_ledger::store::Claims;
use delaybridge_model::Ordered;
use delaybridge_testing::memory::{Op, element};

/// Leaves as many claims behind, of one element each, whose leases end together; three owners have died. The
/// order of their names says nothing about that of their elements.
async fn many_left(world: &World, claims: u64) {
    let dead = world.server.store("q", [7; 8]);
    let first_ms = world.server.now_ms() - 60_000;
    for number in 0..claims {
        let place = number * 617 % claims;
        world.store.offer_at(element(id(place), b"a"), first_ms + place as i64);
        let request = ClaimRequest {
            name: ClaimName { expiries: 2, ..ClaimName::new([7; 8], number) },
            not_after_ms: i64::MAX,
            lease: LEASE,
            ahead: Duration::ZERO,
            most: 1,
            bytes: 1 << 20,
            rotation: 0,
            hints: Default::default(),
            back_before_ms: None,
        };
        dead.claim(&request).await.unwrap();
    }
}

/// The calls of each kind that it takes to deliver everything, in its order.
async fn calls_for(claims: u64) -> [u64; 3] {
    let world = world();
    let sink = sink();
    many_left(&world, claims).await;
    let ops = [Op::Contents, Op::Expired, Op::Bury];
    let before = ops.map(|op| world.server.calls(op));
    let sinks = [("s", sink.clone())];
    let _bridge = world.bridge_with(1, &sinks, in_order(&sinks, Ordered::Queue));
    within(HOUR, "everything to arrive", || first_taken(&sink, |_| true).len() as u64 == claims).await;
    assert_eq!(first_taken(&sink, |_| true), (0..claims).collect::<Vec<_>>());
    let mut calls = ops.map(|op| world.server.calls(op));
    calls.iter_mut().zip(before).for_each(|(calls, before)| *calls -= before);
    calls
}

/// Each of them is alone, so between any two of them there is a look at what comes next.
#[tokio::test(start_paused = true)]
async fn a_look_at_many_claims_that_may_kill_reads_only_those_that_it_has_not_read() {
    for claims in [40, 80, 160] {
        let [contents, expired, bury] = calls_for(claims).await;
        assert!(contents <= 3 * claims, "{claims} claims: {contents} times the contents of one");
        assert!(expired <= 3 * claims && bury <= 3 * claims, "{claims} claims: {expired} looks, {bury} burials");
    }
}

#[tokio::test(start_paused = true)]
async fn more_claims_than_a_page_of_names_has_are_taken_over_in_their_order() {
    let [contents, ..] = calls_for(1_100).await;
    assert!(contents <= 3 * 1_100, "{contents} times the contents of one");
}
