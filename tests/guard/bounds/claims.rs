//! The cost of the scripts of claims.

use bytes::Bytes;
use delaybridge_core::message::{MessageId, Origin};
use delaybridge_ledger::claims::{
    Buried, ClaimName, Extended, Header, Part, SettleCommand, SettleOp, TakeOverReply, TakeOverRequest,
};

use super::*;

const CLAIM: &str = "crates/ledger/src/claims/scripts/claim.lua";
const TAKE_OVER: &str = "crates/ledger/src/claims/scripts/take_over.lua";
const EXTEND: &str = "crates/ledger/src/claims/scripts/extend.lua";
const SETTLE: &str = "crates/ledger/src/claims/scripts/settle.lua";
const BURY: &str = "crates/ledger/src/claims/scripts/bury.lua";

#[tokio::test]
async fn large_elements_behind_small_ones() {
    for (what, small, large, after_ms) in [
        ("63 small elements before 64 of 1 MiB", 63, (64, MIB), -1_000),
        ("the same, not due", 63, (64, MIB), 900_000),
        // The number that is read at once if the elements are small.
        ("5 small elements before 3 of 10 MiB", 5, (3, 10 * MIB), -1_000),
        ("the same, not due", 5, (3, 10 * MIB), 900_000),
        ("the same, due in a moment", 5, (3, 10 * MIB), 500),
        ("1 small element before one of 10 MiB", 1, (1, 10 * MIB), -1_000),
        ("the same, not due", 1, (1, 10 * MIB), 900_000),
        ("2 small elements before one of 10 MiB", 2, (1, 10 * MIB), 900_000),
        ("a claim that finds nothing, before one of 10 MiB", 0, (1, 10 * MIB), 900_000),
    ] {
        within_the_limit(CLAIM, what, async |rig: &mut Rig| {
            rig.offer(small, SMALL, -10_000).await;
            rig.offer(large.0, large.1, after_ms).await;
            reset_counts(rig).await;
            let (count, bytes) = rig.claim().await;
            assert_eq!(count, small);
            bytes
        })
        .await;
    }
}

#[tokio::test]
async fn large_entries_before_small_ones_of_the_retry_set() {
    for (what, small, large_in_ms) in [
        ("a retry that is due before one of 10 MiB", 1, 900_000),
        ("no retry that is due, and one of 10 MiB", 0, 900_000),
    ] {
        within_the_limit(CLAIM, what, async |rig: &mut Rig| {
            let retry = rig.queue.keys.retry.clone();
            for (size, after_ms) in std::iter::repeat_n((SMALL, -1_000), small).chain([(10 * MIB, large_in_ms)]) {
                let element = rig.element(size);
                let entry =
                    [Header::redriven(Origin::Delayed, MessageId([7; 8]), 5_000, vec![]).encode(), element].concat();
                let at = rig.now_ms + after_ms;
                rig.run(redis::cmd("ZADD").arg(&retry[..]).arg(at).arg(entry)).await;
            }
            // A claim that finds nothing is a read.
            rig.offer(1, SMALL, -1_000).await;
            reset_counts(rig).await;
            let (count, bytes) = rig.claim().await;
            assert_eq!(count, small + 1);
            bytes
        })
        .await;
    }
}

#[tokio::test]
async fn large_payloads_behind_small_ones_of_the_ready_list() {
    for (what, small, size) in [
        ("63 small payloads before those of 1 MiB", 63, MIB),
        ("2,000 small payloads, and those of 10 MiB", 2_000, 10 * MIB),
    ] {
        within_the_limit(CLAIM, what, async |rig: &mut Rig| {
            for n in 0..small + 3 {
                let payload = rig.element(if n < small { SMALL } else { size });
                rig.run(redis::cmd("RPUSH").arg("orders").arg(payload)).await;
            }
            reset_counts(rig).await;
            let (count, bytes) = rig.claim().await;
            assert_eq!(count, small.min(500));
            bytes
        })
        .await;
    }
}

#[tokio::test]
async fn large_entries_at_the_ends_of_the_list() {
    within_the_limit(CLAIM, "10 MiB at both ends of the list", async |rig: &mut Rig| {
        rig.offer(1, 10 * MIB, 900_000).await;
        rig.offer(100, SMALL, -10_000).await;
        // Also due, so that the head of the sorted set need not be read.
        rig.offer(500, SMALL, -5_000).await;
        rig.offer(1, 10 * MIB, 900_000).await;
        reset_counts(rig).await;
        let (count, bytes) = rig.claim().await;
        assert_eq!(count, 500);
        bytes
    })
    .await;
}

/// A ghost and large entries at both ends: the ends are read while a ghost exists.
#[tokio::test]
async fn large_entries_at_the_ends_of_the_list_beside_a_ghost() {
    within_the_limit(CLAIM, "10 MiB at both ends of the list, and a ghost", async |rig: &mut Rig| {
        rig.offer(1, 10 * MIB, 900_000).await;
        rig.offer(100, SMALL, -10_000).await;
        rig.offer(500, SMALL, -5_000).await;
        rig.offer(1, 10 * MIB, 900_000).await;
        let ghosts = rig.queue.keys.ghosts.clone();
        rig.run(redis::cmd("SADD").arg(&ghosts[..]).arg("012345678")).await;
        reset_counts(rig).await;
        let (count, bytes) = rig.claim().await;
        assert_eq!(count, 500);
        bytes
    })
    .await;
}

#[tokio::test]
async fn a_takeover_of_large_elements() {
    within_the_limit(TAKE_OVER, "300 expired elements of 64 KiB", async |rig: &mut Rig| {
        let old = ClaimName::new([2; 8], rig.next);
        let [d, _] = rig.queue.keys.of_claim(old);
        for n in 0..300 {
            let element = rig.element(64 << 10);
            rig.run(redis::cmd("ZADD").arg(&d[..]).arg(n).arg(element)).await;
        }
        let leases = rig.queue.keys.leases.clone();
        rig.run(redis::cmd("ZADD").arg(&leases[..]).arg(1).arg(old.to_string())).await;
        reset_counts(rig).await;
        let new = old.taken_over_by([1; 8], rig.next);
        let not_after_ms = i64::MAX;
        let lease = LEASE;
        let request = TakeOverRequest { old, new, not_after_ms, lease, most: 500, bytes: MIB, largest: 0 };
        match rig.queue.claims().take_over(&rig.conn, &request).await.unwrap() {
            TakeOverReply::Taken { elements, left, .. } => {
                assert!(elements.len() >= 10 && left > 0, "{} taken, {left} left", elements.len());
                elements.iter().map(|element| element.member.len()).sum()
            }
            other => panic!("{other:?}"),
        }
    })
    .await;
}

/// Gives a claim its lease and elements of this size; returns them.
async fn claimed(rig: &mut Rig, name: ClaimName, count: usize, size: usize) -> Vec<Bytes> {
    let [d, _] = rig.queue.keys.of_claim(name);
    let leases = rig.queue.keys.leases.clone();
    rig.run(redis::cmd("ZADD").arg(&leases[..]).arg(i64::MAX).arg(name.to_string())).await;
    let mut elements = Vec::new();
    for n in 0..count {
        let element = Bytes::from(rig.element(size));
        rig.run(redis::cmd("ZADD").arg(&d[..]).arg(n).arg(&element[..])).await;
        elements.push(element);
    }
    elements
}

#[tokio::test]
async fn many_leases_and_many_names() {
    let names =
        |rig: &Rig, count: u64| -> Vec<_> { (0..count).map(|n| ClaimName::new([1; 8], rig.next + n)).collect() };
    within_the_limit(EXTEND, "1,000 leases", async |rig: &mut Rig| {
        let names = names(rig, 1_000);
        let leases = rig.queue.keys.leases.clone();
        rig.next += 1_000;
        let mut add = redis::cmd("ZADD");
        add.arg(&leases[..]);
        for name in &names {
            add.arg(i64::MAX).arg(name.to_string());
        }
        rig.run(&mut add).await;
        reset_counts(rig).await;
        let extended = rig.queue.claims().extend(&rig.conn, LEASE, i64::MAX, &names).await.unwrap();
        assert!(matches!(extended, Extended::Done { held, .. } if held.iter().all(|held| *held)));
        0
    })
    .await;
    within_the_limit(BURY, "1,000 names", async |rig: &mut Rig| {
        let names = names(rig, 1_000);
        reset_counts(rig).await;
        let buried = rig.queue.claims().bury(&rig.conn, 0, &names).await.unwrap();
        assert!(matches!(buried, Buried::Done { kept, .. } if kept.len() == 1_000));
        0
    })
    .await;
}

/// A batch of the settler has at most 1 MiB, or one larger element alone.
#[tokio::test]
async fn verdicts_on_large_elements() {
    let header = || Header::redriven(Origin::Delayed, MessageId([7; 8]), 5_000, vec![]);
    for (count, size) in [(500, 2 << 10), (1, 10 * MIB)] {
        for what in ["confirmed", "retried", "dead"] {
            let step = |element: &Bytes| match what {
                "confirmed" => SettleOp::Confirm,
                "retried" => SettleOp::Retry { header: header(), delay_ms: 60_000 },
                _ => SettleOp::Dead { fields: vec![("element", element.clone()), ("payload", element.slice(8..))] },
            };
            let title = format!("{count} of {size} bytes {what}");
            within_the_limit(SETTLE, &title, async |rig: &mut Rig| {
                let claim = ClaimName::new([1; 8], rig.next);
                let elements = claimed(rig, claim, count, size).await;
                let verdict = |element: Bytes| SettleCommand {
                    claim,
                    part: Part::Bare,
                    step: step(&element),
                    member: element,
                    body: None,
                };
                let batch: Vec<_> = elements.into_iter().map(verdict).collect();
                reset_counts(rig).await;
                let settled = rig.queue.claims().settle(&rig.conn, &batch, None, Some(1_000)).await.unwrap();
                assert_eq!(settled.answers.len(), count);
                // A dead letter contains the payload twice.
                count * size * if what == "dead" { 2 } else { 1 }
            })
            .await;
        }
    }
}
