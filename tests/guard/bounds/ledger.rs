//! The cost of the ledger's scripts other than those of claims.

use std::time::Duration;

use bytes::Bytes;
use delaybridge_core::message::{MessageId, Origin};
use delaybridge_ledger::claims::Header;
use delaybridge_ledger::{
    Acted, DeadLetter, Import, Ledger, Located, Order, Place, Removal, Restored, Show, restore_end,
};
use delaybridge_link::Score;

use super::*;

const FORWARD: &str = "crates/ledger/src/scripts/forward.lua";
const IMPORT: &str = "crates/ledger/src/scripts/import.lua";
const PEEK: &str = "crates/ledger/src/scripts/peek.lua";
const REMOVE: &str = "crates/ledger/src/scripts/remove.lua";
const RESCHEDULE: &str = "crates/ledger/src/scripts/reschedule.lua";
const REDRIVE: &str = "crates/ledger/src/scripts/redrive.lua";
const RESTORE: &str = "crates/ledger/src/scripts/restore.lua";
const STATS: &str = "crates/ledger/src/scripts/stats.lua";

/// An entry of the retry set with an element of this size.
fn entry(rig: &mut Rig, size: usize) -> Bytes {
    let header = Header::redriven(Origin::Delayed, MessageId([7; 8]), 5_000, vec![]);
    [header.encode(), rig.element(size)].concat().into()
}

/// Stores dead letters with elements of this size.
async fn dead(rig: &mut Rig, count: usize, size: usize) -> Vec<DeadLetter> {
    let stream = rig.queue.keys.dead.clone();
    for _ in 0..count {
        let element = rig.element(size);
        let mut add = redis::cmd("XADD");
        add.arg(&stream[..]).arg("*").arg("element").arg(&element).arg("payload").arg(&element[8..]);
        rig.run(add.arg("origin").arg("delayed").arg("time_ms").arg(1).arg("confirmed").arg("")).await;
    }
    rig.queue.dead_range(&rig.conn, Order::Oldest, "-", "+", count).await.unwrap()
}

#[tokio::test]
async fn the_gauges_beside_a_large_head() {
    for after_ms in [900_000, -900_000] {
        within_the_limit(STATS, "a head of 10 MiB", async |rig: &mut Rig| {
            rig.offer(1, 10 * MIB, after_ms).await;
            reset_counts(rig).await;
            let stats = rig.queue.stats(&rig.conn).await.unwrap();
            let head_ms = stats.source.head_ms.expect("a head");
            // Correct to a factor of two, and never too large.
            let far = (head_ms - stats.now_ms).abs();
            let real = (rig.now_ms + after_ms - stats.now_ms).abs();
            assert!(far <= real && 2 * far >= real, "{far} of {real}");
            0
        })
        .await;
    }
}

#[tokio::test]
async fn a_page_with_large_members() {
    for (what, first, small, large) in [
        ("63 small members before 64 of 1 MiB", 0, 63, (64, MIB)),
        ("the same from the tenth on", 10, 63, (64, MIB)),
        ("2 small members before one of 10 MiB", 0, 2, (1, 10 * MIB)),
    ] {
        for place in [Place::Scheduled, Place::Ready] {
            within_the_limit(PEEK, &format!("{what}, {place:?}"), async |rig: &mut Rig| {
                if place == Place::Scheduled {
                    rig.offer(small, SMALL, -10_000).await;
                    rig.offer(large.0, large.1, 900_000).await;
                } else {
                    for n in 0..small + large.0 {
                        let payload = rig.element(if n < small { SMALL } else { large.1 });
                        rig.run(redis::cmd("RPUSH").arg("orders").arg(payload)).await;
                    }
                }
                reset_counts(rig).await;
                let page = rig.queue.peek(&rig.conn, place, first, 500, Show::Start(100)).await.unwrap();
                assert!(!page.seen.is_empty());
                page.seen.iter().map(|seen| seen.size).sum()
            })
            .await;
        }
    }
}

#[tokio::test]
async fn single_large_members() {
    for script in [REMOVE, RESCHEDULE] {
        within_the_limit(script, "10 MiB", async |rig: &mut Rig| {
            let entry = entry(rig, 10 * MIB);
            let key = rig.queue.keys.retry.clone();
            rig.run(redis::cmd("ZADD").arg(&key[..]).arg(1).arg(&entry[..])).await;
            let score = Some(Score::of_ms(1));
            let found = Located { place: Place::Retry, key, member: entry, score, claim: None };
            reset_counts(rig).await;
            let acted = match script {
                REMOVE => rig.queue.remove(&rig.conn, &found, &Removal::ForGood).await.unwrap(),
                _ => rig.queue.reschedule(&rig.conn, &found, 2, None).await.unwrap(),
            };
            assert_eq!(acted, Acted::Done);
            10 * MIB
        })
        .await;
    }
    within_the_limit(REDRIVE, "10 MiB", async |rig: &mut Rig| {
        let letter = dead(rig, 1, 10 * MIB).await.remove(0);
        let member = entry(rig, 10 * MIB);
        reset_counts(rig).await;
        assert!(rig.queue.redrive(&rig.conn, &letter, member, None).await.unwrap());
        10 * MIB
    })
    .await;
    within_the_limit(IMPORT, "10 MiB", async |rig: &mut Rig| {
        let fields = [("element".to_owned(), Bytes::from(rig.element(10 * MIB)))];
        reset_counts(rig).await;
        rig.queue.import(&rig.conn, Import { run: 1, line: 1 }, &fields).await.unwrap();
        10 * MIB
    })
    .await;
    within_the_limit(FORWARD, "100 letters of 100 KiB", async |rig: &mut Rig| {
        let letters = dead(rig, 100, 100 << 10).await;
        let ids: Vec<_> = letters.into_iter().map(|letter| letter.stream_id).collect();
        reset_counts(rig).await;
        rig.queue.forwarded(&rig.conn, Duration::from_secs(60), &ids).await.unwrap();
        0
    })
    .await;
}

#[tokio::test]
async fn a_return_to_a_sorted_set() {
    let yaml = "redis: { url: 'redis://h' }\nsinks: { out: { stdout: {} } }\nqueues: { q: { source: { zset: { key: z, score: \
                ms } }, to: [{ sink: out }] } }\n";
    let loaded =
        delaybridge_config::load_str(yaml, "guard.yaml", &|_| None).unwrap_or_else(|errors| panic!("{errors}"));
    let ledger = Ledger::new(loaded.config.queues[0].source.build(), [1; 8]);
    for (count, size) in [(500, 2 << 10), (1, 10 * MIB)] {
        within_the_limit(RESTORE, &format!("{count} of {size} bytes"), async |rig: &mut Rig| {
            let mut items = Vec::new();
            for n in 0..count {
                let entry = entry(rig, size);
                rig.run(redis::cmd("ZADD").arg(&ledger.keys.retry[..]).arg(n).arg(&entry[..])).await;
                items.extend(ledger.waiting(&entry));
            }
            assert_eq!(items.len(), count);
            items.truncate(restore_end(&items));
            reset_counts(rig).await;
            match ledger.restore(&rig.conn, &items).await.unwrap() {
                Restored::Done(moved) => 2 * moved.len() * size,
                other => panic!("{other:?}"),
            }
        })
        .await;
    }
}
