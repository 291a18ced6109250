//! The cost of the scripts for Redisson's queues only.

use std::time::Duration;

use bytes::Bytes;
use delaybridge_core::message::{MessageId, Origin};
use delaybridge_ledger::claims::Header;
use delaybridge_ledger::{Acted, Located, Place, Removal, Start, UpkeepRequest, UpkeepState};
use delaybridge_source::redisson::{Back, Held, Overdue, Repack, Restored, migrate_end, rescue_end, restore_end};

use super::*;

const REMOVE: &str = "crates/ledger/src/scripts/remove.lua";
const MIGRATE: &str = "crates/source/src/redisson/scripts/migrate.lua";
const OFFER: &str = "crates/offers/lua/offer.lua";
const CHANGE: &str = "crates/offers/lua/change.lua";
const RESCUE: &str = "crates/source/src/redisson/scripts/rescue.lua";
const RESTORE: &str = "crates/source/src/redisson/scripts/restore.lua";
const SWEEP: &str = "crates/source/src/redisson/scripts/sweep.lua";

/// The length of a list that is too long to be searched.
const LONG: usize = 300_000;

#[tokio::test]
async fn an_offer_beside_a_large_head() {
    within_the_limit(OFFER, "behind a head of 10 MiB", async |rig: &mut Rig| {
        rig.offer(1, 10 * MIB, 1_000).await;
        reset_counts(rig).await;
        let element = rig.element(SMALL);
        rig.queue.offer(&rig.conn, element.into(), Duration::from_secs(60)).await.unwrap();
        0
    })
    .await;
}

/// Thousands of elements may be due in one millisecond, and each may be large: few of them are read.
#[tokio::test]
async fn one_offer_is_cancelled_among_many_of_one_time() {
    for (what, count, size) in [("among 100,000", 100_000, SMALL), ("among 100 of 1 MiB", 100, MIB)] {
        within_the_limit(CHANGE, what, async |rig: &mut Rig| {
            let zset = rig.queue.keys.delayed.clone();
            let list = rig.queue.keys.list.clone();
            let due = rig.now_ms + 60_000;
            let mut pipe = redis::pipe();
            for n in 0..count as u64 {
                let mut element = [&[8][..], &n.to_be_bytes(), &(size as u64).to_le_bytes()].concat();
                element.resize(17 + size, 7);
                pipe.cmd("ZADD").arg(&zset[..]).arg(due).arg(element).ignore();
                if pipe.len() == 1_000 || n + 1 == count as u64 {
                    pipe.exec_async(&mut rig.redis).await.unwrap();
                    pipe.clear();
                }
            }
            let sha: String = redis::cmd("SCRIPT")
                .arg("LOAD")
                .arg(include_str!("../../../crates/offers/lua/change.lua"))
                .query_async(&mut rig.redis)
                .await
                .unwrap();
            reset_counts(rig).await;
            let id = (count as u64 / 2).to_be_bytes();
            let mut cancel = redis::cmd("EVALSHA");
            cancel.arg(sha).arg(2).arg(&zset[..]).arg(&list[..]).arg("cancel").arg(due).arg(&id[..]);
            let removed: i64 = cancel.query_async(&mut rig.redis).await.unwrap();
            assert_eq!(removed, 1);
            0
        })
        .await;
    }
}

/// Offers elements, each in the sorted set and in the middle of a long list.
async fn in_the_middle(rig: &mut Rig, count: usize, size: usize) -> Vec<Bytes> {
    let zset = rig.queue.keys.delayed.clone();
    let list = rig.queue.keys.list.clone();
    rig.long_list(LONG / 2).await;
    let mut elements = Vec::new();
    for n in 0..count {
        let element = Bytes::from(rig.element(size));
        rig.run(redis::cmd("ZADD").arg(&zset[..]).arg(rig.now_ms - 600_000 + n as i64).arg(&element[..])).await;
        rig.run(redis::cmd("RPUSH").arg(&list[..]).arg(&element[..])).await;
        elements.push(element);
    }
    rig.long_list(LONG / 2).await;
    elements
}

#[tokio::test]
async fn one_element_out_of_the_middle_of_a_long_list() {
    within_the_limit(REMOVE, "in the middle of 300,000 entries", async |rig: &mut Rig| {
        let element = in_the_middle(rig, 1, SMALL).await.remove(0);
        reset_counts(rig).await;
        let key = rig.queue.keys.delayed.clone();
        let found = Located { place: Place::Scheduled, key, member: element, score: None, claim: None };
        let acted = rig.queue.remove(&rig.conn, &found, &Removal::ForGood).await.unwrap();
        assert_eq!(acted, Acted::Done);
        0
    })
    .await;
}

#[tokio::test]
async fn a_transfer_out_of_the_middle_of_a_long_list() {
    for (count, size) in [(500, SMALL), (500, 2 << 10), (1, 10 * MIB)] {
        within_the_limit(RESCUE, &format!("{count} of {size} bytes of 300,000"), async |rig: &mut Rig| {
            let elements = in_the_middle(rig, count, size).await;
            let overdue = |element: &Bytes| Overdue { payload: element.slice(8..), element: element.clone() };
            let mut batch: Vec<_> = elements.iter().map(overdue).collect();
            batch.truncate(rescue_end(&batch));
            reset_counts(rig).await;
            let moved = rig.queue.rescue(&rig.conn, Duration::from_secs(1), &batch).await.unwrap();
            assert_eq!(moved, batch.len());
            moved * size
        })
        .await;
    }
}

#[tokio::test]
async fn a_conversion_in_the_middle_of_a_long_list() {
    for (count, size) in [(500, SMALL), (1, 10 * MIB)] {
        within_the_limit(MIGRATE, &format!("{count} of {size} bytes of 300,000"), async |rig: &mut Rig| {
            let elements = in_the_middle(rig, count, size).await;
            let other = |element: &Bytes| [b"12345678", &element[8..]].concat().into();
            let repack = |element: &Bytes| Repack { place: None, is: other(element), was: element.clone() };
            let mut batch: Vec<_> = elements.iter().map(repack).collect();
            batch.truncate(migrate_end(&batch));
            reset_counts(rig).await;
            // One element is moved, whatever its search costs.
            let done = rig.queue.migrate(&rig.conn, &batch).await.unwrap().len();
            assert!(done >= 1);
            2 * done * size + SEARCHED
        })
        .await;
    }
}

/// The bytes granted for the search of one element in a list of [`LONG`] entries: it walks the whole list, and nothing
/// else finds the element.
const SEARCHED: usize = 1_200_000;

#[tokio::test]
async fn a_return_to_a_long_list() {
    for (count, size) in [(500, 2 << 10), (1, 10 * MIB)] {
        within_the_limit(RESTORE, &format!("{count} of {size} bytes to 300,000"), async |rig: &mut Rig| {
            rig.long_list(LONG).await;
            let retry = rig.queue.keys.retry.clone();
            let mut items = Vec::new();
            for n in 0..count {
                let element = Bytes::from(rig.element(size));
                let header = Header::redriven(Origin::Delayed, MessageId([7; 8]), 5_000, vec![]);
                let entry = Bytes::from([header.encode(), element.to_vec()].concat());
                let due_ms = rig.now_ms + n as i64;
                rig.run(redis::cmd("ZADD").arg(&retry[..]).arg(due_ms).arg(&entry[..])).await;
                items.push((Held::Retry(entry), Back::Scheduled { element, due_ms }));
            }
            items.truncate(restore_end(&items));
            reset_counts(rig).await;
            match rig.queue.restore(&rig.conn, &items, true).await.unwrap() {
                Restored::Done(moved) => moved.len() * size + 2 * SEARCHED,
                other => panic!("{other:?}"),
            }
        })
        .await;
    }
}

const NO_STEP: UpkeepRequest =
    UpkeepRequest { step: None, max_age: Duration::ZERO, bandwidth: 1 << 40, start: Start::Census, largest: 0 };

#[tokio::test]
async fn a_slice_of_the_sweep_with_large_entries() {
    for (what, small, large) in [
        ("63 small entries before 64 of 1 MiB", 63, (64, MIB)),
        ("1,000 small entries before 64 of 1 MiB", 1_000, (64, MIB)),
        ("2 small entries before one of 10 MiB", 2, (1, 10 * MIB)),
    ] {
        within_the_limit(SWEEP, what, async |rig: &mut Rig| {
            rig.offer(small, SMALL, 900_000).await;
            rig.offer(large.0, large.1, 900_000).await;
            let begun = rig.queue.sweep(&rig.conn, &NO_STEP).await.unwrap();
            reset_counts(rig).await;
            let request = UpkeepRequest { step: Some(begun.step), ..NO_STEP };
            let upkept = rig.queue.sweep(&rig.conn, &request).await.unwrap();
            let walked = usize::try_from(begun.left - upkept.left).unwrap();
            assert!(walked > 0);
            let bytes = walked.min(small) * SMALL + walked.saturating_sub(small) * large.1;
            assert!(bytes <= MIB + large.1, "{walked} entries of {bytes} bytes");
            bytes
        })
        .await;
    }
}

#[tokio::test]
async fn a_million_ghosts_at_the_end_of_a_turn() {
    let mut rig = Rig::start().await;
    rig.offer(1, SMALL, 900_000).await;
    let ghosts = rig.queue.keys.ghosts.clone();
    for first in (0..1_000_000_u64).step_by(10_000) {
        let mut add = redis::cmd("SADD");
        add.arg(&ghosts[..]);
        for n in first..first + 10_000 {
            add.arg(format!("{n:016}"));
        }
        rig.run(&mut add).await;
    }
    let mut step = None;
    loop {
        reset_counts(&mut rig).await;
        let request =
            UpkeepRequest { step, max_age: Duration::ZERO, bandwidth: 1 << 40, start: Start::Urgent, largest: 0 };
        let upkept = rig.queue.sweep(&rig.conn, &request).await.unwrap();
        if step.is_some() {
            let (took, _) = rig.longest().await;
            println!("step of the sweep with 1,000,000 ghosts: {took:.2} ms of {SCRIPT_MS}");
            assert!(took <= 10.0 * SCRIPT_MS, "{took} ms; freed at once, the sets take 1,500 ms");
        }
        if upkept.state == UpkeepState::Done {
            break;
        }
        step = Some(upkept.step);
    }
}
