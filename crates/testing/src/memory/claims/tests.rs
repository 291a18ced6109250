//! Faults of calls on claims, and what a test sees of the claims in memory.

use std::time::Duration;

use bytes::Bytes;

use crate::memory::{Fault, MemoryServer, MemoryStore, Op, element};
use delaybridge_core::clock::follow_tokio;
use delaybridge_core::message::MessageId;
use delaybridge_ledger::claims::{
    ClaimName, ClaimReply, ClaimRequest, Claimed, Confirmed, Element, Part, SettleCommand, SettleOp, TakeOverRequest,
    Whole,
};
use delaybridge_ledger::store::{Claims, RedisReads, Store};
use delaybridge_ledger::{LookAt, LookPart, LookerNote, StoreError};

const OWNER: [u8; 8] = [1; 8];
const LEASE: Duration = Duration::from_secs(10);

fn name(number: u64) -> ClaimName {
    ClaimName::new(OWNER, number)
}

fn request(number: u64) -> ClaimRequest {
    ClaimRequest {
        name: name(number),
        not_after_ms: i64::MAX,
        lease: LEASE,
        ahead: Duration::ZERO,
        most: 500,
        bytes: 1 << 20,
        rotation: 0,
        hints: delaybridge_ledger::Hints::default(),
        back_before_ms: None,
    }
}

async fn claim(store: &MemoryStore, number: u64) -> Claimed {
    match store.claim(&request(number)).await.expect("the server claims") {
        ClaimReply::Claimed(claimed) => claimed,
        reply => panic!("{reply:?}"),
    }
}

fn offer(store: &MemoryStore, n: u64) -> Bytes {
    let element = element(MessageId(n.to_be_bytes()), b"payload");
    store.offer(element.clone(), Duration::ZERO);
    element
}

#[tokio::test(start_paused = true)]
async fn a_test_sees_what_claims_hold_and_what_waits() {
    let _clock = follow_tokio();
    let server = MemoryServer::new();
    let store = server.store("q", OWNER);
    let elements = [offer(&store, 1), offer(&store, 2)];
    claim(&store, 1).await;
    assert!(!store.is_empty());
    let claims = store.claims();
    let end_ms = server.now_ms() + 10_000;
    assert_eq!((claims.len(), claims[0].0, claims[0].1), (1, name(1), end_ms));
    assert_eq!(claims[0].2.iter().map(Element::bytes).collect::<Vec<_>>(), elements);

    let due_ms = server.now_ms() + 5;
    let header = claims[0].2[0].header();
    let step = SettleOp::Release { header: header.clone(), at_ms: due_ms };
    let verdict = SettleCommand { claim: name(1), part: Part::Bare, member: elements[0].clone(), step, body: None };
    store.settle(&[verdict], None, None).await.expect("the server settles");
    let member = claims[0].2[0].under(&header);
    assert_eq!(store.waiting(), [(due_ms, Element::entry(member, due_ms).expect("an entry"))]);
    assert_eq!(store.claims()[0].2.len(), 1);

    let now_ms = server.now_ms();
    let over = async |now_ms| store.expired(now_ms, 10).await.expect("the server reads").0;
    assert!(over(now_ms).await.is_empty());
    store.end_leases();
    assert_eq!(over(now_ms).await, [name(1)]);
    let look = store.look();
    let at = LookAt { look: &look, part: LookPart::All, now_ms, until_ms: now_ms };
    assert_eq!(server.look(&[at]).await.expect("the server reads"), [Some(true)], "the lease that is over");
}

#[tokio::test(start_paused = true)]
async fn each_call_can_be_made_to_fail() {
    let _clock = follow_tokio();
    let server = MemoryServer::new();
    let store = server.store("q", OWNER);
    offer(&store, 1);
    claim(&store, 1).await;
    store.end_leases();
    let before = store.claims();
    let whole = [Whole { name: name(1), bare: 1, entries: 0 }];
    let take_over = TakeOverRequest {
        old: name(1),
        new: name(1).taken_over_by(OWNER, 2),
        not_after_ms: i64::MAX,
        lease: LEASE,
        most: 500,
        bytes: 1 << 20,
        largest: 0,
    };
    let ops = [
        Op::Claim,
        Op::TakeOver,
        Op::Expired,
        Op::Extend,
        Op::Contents,
        Op::Confirm,
        Op::Settle,
        Op::Bury,
        Op::Pauses,
        Op::Stats,
        Op::Look,
        Op::ShareLooks,
        Op::Sizes,
    ];
    for op in ops {
        server.fail(op, [Fault::Refused("OOM")]);
        let error = match op {
            Op::Claim => store.claim(&request(3)).await.map(drop),
            Op::TakeOver => store.take_over(&take_over).await.map(drop),
            Op::Expired => store.expired(i64::MAX, 10).await.map(drop),
            Op::Extend => store.extend(LEASE, i64::MAX, &[name(1)]).await.map(drop),
            Op::Contents => store.contents(name(1)).await.map(drop),
            Op::Confirm => store.confirm(&whole).await.map(drop),
            Op::Settle => store.settle(&[], None, None).await.map(drop),
            Op::Bury => store.bury(0, &[name(1)]).await.map(drop),
            Op::Pauses => store.pauses(&[]).await.map(drop),
            Op::Stats => store.stats().await.map(drop),
            Op::Look => {
                let look = store.look();
                server.look(&[LookAt { look: &look, part: LookPart::All, now_ms: 0, until_ms: 0 }]).await.map(drop)
            }
            Op::ShareLooks => {
                let note = LookerNote { daemon: "d".into(), text: "".into() };
                server.share_looks(&note).await.map(drop)
            }
            Op::Sizes => server.sizes(&[store.counted()]).await.map(drop),
        };
        assert!(matches!(error, Err(StoreError::Refused { code: "OOM", .. })), "{op:?}: {error:?}");
        assert_eq!(store.claims(), before, "{op:?}");
    }
    server.fail(Op::Confirm, [Fault::ReplyLost]);
    assert!(store.confirm(&whole).await.is_err());
    assert_eq!(store.confirm(&whole).await.expect("the server confirms"), [Confirmed::Gone]);
    assert!(store.is_empty(), "its lease stays");
}
