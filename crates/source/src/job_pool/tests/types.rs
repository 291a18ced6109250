//! Keys that hold something else than the pool expects: nothing is claimed, settled or lost, and the other jobs are served.

use std::collections::BTreeMap;

use super::*;
use delaybridge_ledger::StoreError;
use delaybridge_ledger::claims::{ClaimReply, SettleCommand, SettleOp};
use delaybridge_ledger::store::Claims;
use delaybridge_testing::store::{name, request};

/// Every key with its contents.
async fn dump(rig: &mut PoolRig) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query_async(&mut rig.redis.admin).await.expect("keys");
    let mut dumped = BTreeMap::new();
    for key in keys {
        let bytes: Vec<u8> = redis::cmd("DUMP").arg(&key).query_async(&mut rig.redis.admin).await.expect("a dump");
        dumped.insert(key, bytes);
    }
    dumped
}

fn is_wrong_type(error: &StoreError) -> bool {
    matches!(error, StoreError::Refused { code: "WRONGKEY" | "WRONGTYPE", .. })
}

#[tokio::test]
async fn a_claim_meets_a_key_of_another_type_and_changes_nothing() {
    let ledger_keys = |rig: &PoolRig| [rig.redis.keys.leases.clone(), rig.redis.keys.retry.clone()];
    for place in 0..5 {
        let mut preset = plain();
        preset.buckets.push("{pool}:bucket2".to_owned());
        let mut rig = PoolRig::new(preset).await;
        let due = rig.now_ms() - 5;
        let job = rig.element(MessageId(*b"job-0001"), b"one");
        rig.offer(&job, due).await;
        let [leases, retry] = ledger_keys(&rig);
        let first = rig.source.buckets[0].clone();
        let second = rig.source.buckets[1].clone();
        let ready = rig.source.ready[0].clone();
        let key = [first, second, ready, leases, retry][place].clone();
        rig.redis.run(redis::pipe().del(&key[..]).set(&key[..], "of another type")).await;
        let before = dump(&mut rig).await;
        let error = rig.redis(A).claim(&request(A, 1)).await.expect_err("a key of another type");
        assert!(is_wrong_type(&error), "{key:?}: {error}");
        assert_eq!(dump(&mut rig).await, before, "{key:?}");
    }
}

#[tokio::test]
async fn a_hash_of_jobs_that_is_none_leaves_the_claim_to_be_looked_for() {
    let mut rig = PoolRig::new(plain()).await;
    let job = rig.element(MessageId(*b"job-0001"), b"one");
    let due = rig.now_ms() - 5;
    rig.offer(&job, due).await;
    rig.redis.run(redis::pipe().del("{pool}:jobs").set("{pool}:jobs", "no hash")).await;
    let error = rig.redis(A).claim(&request(A, 1)).await.expect_err("no hash of jobs");
    assert!(matches!(error, StoreError::Unknown { .. }), "{error}");
    // The element is in the claim, where it is found by the claim's name when the hash is repaired.
    rig.redis.run(redis::pipe().del("{pool}:jobs").hset("{pool}:jobs", &job[..], "one")).await;
    let contents = rig.redis(A).contents(name(A, 1)).await.expect("it can be read");
    assert_eq!(contents.elements.len(), 1);
    assert_eq!(contents.elements[0].body_bytes().map(|body| &body[..]), Some(&b"one"[..]));
}

#[tokio::test]
async fn a_verdict_meets_a_key_of_another_type_and_changes_nothing() {
    for place in 0..3 {
        let mut rig = PoolRig::new(plain()).await;
        let job = rig.element(MessageId(*b"job-0001"), b"one");
        let due = rig.now_ms() - 5;
        rig.offer(&job, due).await;
        let store = rig.redis(A);
        let ClaimReply::Claimed(claimed) = store.claim(&request(A, 1)).await.expect("a claim") else {
            panic!("it did not run")
        };
        let element = &claimed.elements[0];
        let bucket = rig.source.buckets[0].clone();
        let retry = rig.redis.keys.retry.clone();
        let dead = rig.redis.keys.dead.clone();
        let key = [bucket, retry, dead][place].clone();
        rig.redis.run(redis::pipe().del(&key[..]).hset(&key[..], "of another", "type")).await;
        let before = dump(&mut rig).await;
        let verdict = SettleCommand {
            claim: name(A, 1),
            part: element.part(),
            member: element.member.clone(),
            step: SettleOp::Confirm,
            body: element.body_bytes().cloned(),
        };
        let error = store.settle(std::slice::from_ref(&verdict), None, None).await.expect_err("a key of another type");
        assert!(is_wrong_type(&error), "{key:?}: {error}");
        assert_eq!(dump(&mut rig).await, before, "{key:?}");
        // Repaired, the verdict is written, and the job goes with it.
        rig.redis.run(redis::pipe().del(&key[..])).await;
        store.settle(&[verdict], None, None).await.expect("it is repaired");
        assert_eq!(rig.body(&job).await, None);
    }
}
