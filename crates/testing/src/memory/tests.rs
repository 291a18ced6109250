//! The store in memory passes the contract, and its faults are those that it was asked for.

use std::time::Duration;

use futures_util::FutureExt;

use super::*;
use crate::store::walk::Walk;
use crate::store::{self as contract, A, Mine, Rig, id, seeds};
use crate::store_contract_tests;
use delaybridge_ledger::claims::{ClaimReply, SettleOp};
use delaybridge_ledger::store::{Claims, RedisReads};
use delaybridge_ledger::{Answer, StoreError};
use delaybridge_ledger::{LookAt, LookPart};

mod the_contract {
    use super::*;

    store_contract_tests!(MemoryRig::new());
}

/// Walks in a runtime of its own, because its time is paused: how many calls were forgotten.
fn forgets(seed: u64, careless: bool) -> usize {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let mut rig = MemoryRig::new();
        let mut walk = Walk::new(&rig, seed);
        walk.careless = careless;
        walk.run_forgotten(&mut rig, 120).await
    })
}

#[test]
fn a_call_that_is_forgotten_costs_no_element() {
    let forgotten: usize = seeds(100).map(|seed| forgets(seed, false)).sum();
    assert!(forgotten > 0);
}

/// Owners that confirm claims by their names, whatever has left them.
#[test]
fn a_confirmation_that_takes_a_neighbour_along_is_noticed() {
    let noticed = (0..100).find_map(|seed| {
        let reason = std::panic::catch_unwind(|| forgets(seed, true)).err()?;
        Some(reason.downcast_ref::<String>().cloned().unwrap_or_default())
    });
    let noticed = noticed.expect("a history that notices it");
    assert!(noticed.contains("is at []"), "{noticed}");
}

#[tokio::test]
async fn a_fault_hits_one_call_and_says_whether_it_ran() {
    let mut rig = MemoryRig::new();
    let store = rig.store(A);
    let elements = contract::offer(&mut rig, [1, 2]).await;
    let one = |number| contract::request(A, number);
    rig.server.fail(Op::Claim, [Fault::RequestLost, Fault::Refused("OOM"), Fault::ReplyLost]);

    let unknown = |error: &StoreError| matches!(error, StoreError::Unknown { .. });
    assert!(unknown(&store.claim(&one(1)).await.expect_err("it was lost")));
    assert_eq!(rig.places().await.of(&elements[0]), ["scheduled"], "it did not run");
    let refused = store.claim(&one(2)).await.expect_err("it was refused");
    assert!(matches!(refused, StoreError::Refused { code: "OOM", .. }), "{refused}");
    assert!(unknown(&store.claim(&one(3)).await.expect_err("its reply was lost")));
    assert_eq!(rig.places().await.of(&elements[1]), ["claimed"], "it ran");
    assert!(contract::claim(&rig, &one(4)).await.elements.is_empty(), "and the next call is answered");

    let found = store.contents(contract::name(A, 3)).await.expect("the server reads").elements;
    let mine = Mine::all(contract::name(A, 3), found);
    let batch = [mine[0].verdict(SettleOp::Confirm)];
    rig.server.fail(Op::Settle, [Fault::ReplyLost]);
    assert!(unknown(&store.settle(&batch, None, None).await.expect_err("its reply was lost")));
    assert_eq!(contract::settle(&rig, &batch).await, [Answer::NotMine]);
}

#[tokio::test]
async fn a_server_that_is_away_takes_no_call_until_it_is_back() {
    let rig = MemoryRig::new();
    let store = rig.store(A);
    rig.server.set_up(false);
    assert!(!rig.server.is_up());
    let error = store.claim(&contract::request(A, 1)).await.expect_err("it is away");
    assert!(matches!(error, StoreError::NotSent { .. }), "{error}");
    let look = store.look();
    assert!(rig.server.look(&[LookAt { look: &look, part: LookPart::All, now_ms: 0, until_ms: 0 }]).await.is_err());
    assert!(rig.server.ready().now_or_never().is_none());
    rig.server.set_up(true);
    rig.server.ready().await;
    contract::claim(&rig, &contract::request(A, 2)).await;
}

#[tokio::test]
async fn queues_of_one_server_share_nothing_but_its_time() {
    let rig = MemoryRig::new();
    let one = rig.server.store("one", [A; 8]);
    let two = rig.server.store("two", [A; 8]);
    one.offer(element(id(1), b"payload"), Duration::ZERO);
    assert!(two.is_empty());
    for (store, expected) in [(&two, 0), (&one, 1)] {
        let reply = store.claim(&contract::request(A, 1)).await.expect("the server claims");
        assert!(matches!(&reply, ClaimReply::Claimed(claimed) if claimed.elements.len() == expected), "{reply:?}");
    }
}
