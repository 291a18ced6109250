//! The store in memory passes the contract, and its faults are those that it was asked for.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;

use super::zset::Zset;
use super::*;
use crate::source::contract::walk::Walk;
use crate::source::contract::{self, A, LIST, Mine, Parts, Places, Rig, contract_tests, id, seeds};
use delaybridge_core::clock::{Followed, follow_tokio};
use delaybridge_core::message::MessageId;
use delaybridge_ledger::claims::{ClaimReply, Move};
use delaybridge_ledger::store::{Claims, Server, Store};
use delaybridge_ledger::{Answer, StoreError};

/// A queue in memory, on paused time.
pub(in crate::source) struct MemoryRig {
    server: MemoryServer,
    queue: MemoryStore,
    saved: Option<Saved>,
    _clock: Followed,
}

impl MemoryRig {
    /// Pauses the time of the running runtime.
    pub(in crate::source) fn new() -> Self {
        tokio::time::pause();
        let clock = follow_tokio();
        let server = MemoryServer::new();
        MemoryRig { queue: server.store("q", [0; 8]), saved: None, server, _clock: clock }
    }
}

impl Rig for MemoryRig {
    fn store(&self, owner: u8) -> Arc<dyn Store> {
        Arc::new(self.server.store("q", [owner; 8]))
    }

    fn store_in_order(&self, owner: u8) -> Arc<dyn Store> {
        self.server.in_order("q");
        self.store(owner)
    }

    fn rescuer(&self) -> Arc<dyn Store> {
        self.store(A)
    }

    fn server(&self) -> Arc<dyn Server> {
        Arc::new(self.server.clone())
    }

    fn element(&self, id: MessageId, payload: &[u8]) -> Bytes {
        element(id, payload)
    }

    fn now_ms(&self) -> i64 {
        self.server.now_ms()
    }

    async fn advance(&mut self, by: Duration) {
        tokio::time::advance(by).await;
    }

    async fn offer(&mut self, element: &Bytes, due_ms: i64) {
        self.queue.with(|queue| queue.scheduled.add(due_ms, element.clone()));
    }

    async fn make_ready(&mut self, payload: &Bytes) {
        self.queue.make_ready(payload.clone());
    }

    async fn save(&mut self) {
        self.saved = Some(self.server.save());
    }

    async fn fall_back(&mut self) {
        let saved = self.saved.clone().unwrap_or_else(|| self.server.save());
        self.server.fail_over(saved);
    }

    async fn spoil_list(&mut self) {
        self.queue.spoil_list(&LIST);
    }

    async fn add_lease(&mut self, name: &str, end_ms: i64) {
        let name = Bytes::copy_from_slice(name.as_bytes());
        self.queue.with(|queue| queue.leases.add(end_ms, name));
    }

    async fn forget_leases(&mut self) {
        self.queue.with(|queue| queue.leases = Zset::default());
    }

    async fn add_waiting(&mut self, member: &Bytes, at_ms: i64) {
        self.queue.with(|queue| queue.retry.add(at_ms, member.clone()));
    }

    async fn places(&mut self) -> Places {
        let pushed = self.queue.list(&LIST);
        let all = |members: &Zset| members.iter().cloned().collect::<Vec<_>>();
        let text = |(end_ms, name): &(i64, Bytes)| (*end_ms, String::from_utf8_lossy(name).into_owned());
        self.queue.with(|queue| {
            let held = queue.claims.iter();
            Places {
                scheduled: all(&queue.scheduled),
                ready: queue.ready.iter().cloned().collect(),
                leases: queue.leases.iter().map(text).collect(),
                claims: held
                    .map(|(name, keys)| (*name, Parts { bare: all(&keys.bare), entries: all(&keys.entries) }))
                    .collect(),
                waiting: all(&queue.retry),
                dead: queue.dead.clone(),
                pushed,
            }
        })
    }
}

mod the_contract {
    use super::*;

    contract_tests!(MemoryRig::new());
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
    let batch = [mine[0].verdict(Move::Confirm)];
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
    assert!(rig.server.read(&store.poll(0, Duration::ZERO)).await.is_err());
    assert!(rig.server.ready().now_or_never().is_none());
    rig.server.set_up(true);
    rig.server.ready().await;
    contract::claim(&rig, &contract::request(A, 2)).await;
}

#[tokio::test]
async fn queues_of_one_server_share_nothing_but_its_time() {
    let rig = MemoryRig::new();
    let (one, two) = (rig.server.store("one", [A; 8]), rig.server.store("two", [A; 8]));
    one.offer(element(id(1), b"payload"), Duration::ZERO);
    assert!(two.is_empty());
    for (store, expected) in [(&two, 0), (&one, 1)] {
        let reply = store.claim(&contract::request(A, 1)).await.expect("the server claims");
        assert!(matches!(&reply, ClaimReply::Claimed(claimed) if claimed.elements.len() == expected), "{reply:?}");
    }
}
