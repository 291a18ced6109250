//! The cost of the scripts of `fsck` that read lists or many fields; each of the others reads or moves one given
//! member.

use bytes::Bytes;
use delaybridge_ledger::fsck::script;

use super::*;

const FIELDS: &str = "crates/ledger/src/fsck/scripts/fields.lua";
const ORPHAN: &str = "crates/source/src/redisson/scripts/fsck/orphan.lua";
const UNLISTED: &str = "crates/source/src/redisson/scripts/fsck/unlisted.lua";
const UNSCHEDULE: &str = "crates/source/src/redisson/scripts/fsck/unschedule.lua";
/// The length of a list up to which these scripts search it.
const SEARCHED: usize = 130_000;

/// Runs a script twice: a dry run that loads it, and a counted one.
async fn repair(rig: &mut Rig, path: &str, keys: &[Bytes], args: &[Bytes]) -> redis::Value {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = |path: &str| std::fs::read_to_string(root.join(path)).expect("a script");
    let body = text(path).replace("--#include remove.lua", &text("crates/source/src/redisson/scripts/remove.lua"));
    let script = script("fsck", &body);
    let with = |word: &'static [u8]| -> Vec<Bytes> {
        std::iter::once(Bytes::from_static(word)).chain(args.iter().cloned()).collect()
    };
    rig.conn.script(&script, keys, &with(b"0")).await.unwrap();
    reset_counts(rig).await;
    rig.conn.script(&script, keys, &with(b"1")).await.unwrap()
}

#[tokio::test]
async fn a_long_list_is_searched_for_one_entry() {
    within_the_limit(ORPHAN, "the orphan is in the middle of a list", async |rig: &mut Rig| {
        rig.long_list(SEARCHED / 2).await;
        let orphan = rig.element(SMALL);
        let list = rig.queue.keys.list.clone();
        rig.run(redis::cmd("RPUSH").arg(&list[..]).arg(&orphan)).await;
        rig.long_list(SEARCHED / 2 - 1_000).await;
        let k = &rig.queue.keys;
        let keys = [&k.delayed, &k.list, &k.ghosts, &k.ghosts_turn, &k.sweep].map(Bytes::clone);
        let args =
            [orphan.into(), Bytes::from_static(b"orphan"), SEARCHED.to_string().into(), Bytes::from_static(b"0")];
        assert_eq!(repair(rig, ORPHAN, &keys, &args).await, redis::Value::Int(1));
        0
    })
    .await;
    within_the_limit(UNLISTED, "a scheduled element that the list does not have", async |rig: &mut Rig| {
        rig.long_list(SEARCHED - 1_000).await;
        let element = rig.element(SMALL);
        let zset = rig.queue.keys.delayed.clone();
        rig.run(redis::cmd("ZADD").arg(&zset[..]).arg(1).arg(&element)).await;
        let keys = [&rig.queue.keys.delayed, &rig.queue.keys.list].map(Bytes::clone);
        let args = [element.into(), SEARCHED.to_string().into()];
        assert_eq!(repair(rig, UNLISTED, &keys, &args).await, redis::Value::Int(1));
        0
    })
    .await;
    within_the_limit(UNSCHEDULE, "a second copy in the middle of a list of a million", async |rig: &mut Rig| {
        rig.long_list(500_000).await;
        rig.offer(1, SMALL, 0).await;
        rig.long_list(500_000).await;
        let copy = rig.next.to_be_bytes();
        let retry = rig.queue.keys.retry.clone();
        let mut element = copy.to_vec();
        element.resize(SMALL, 7);
        rig.run(redis::cmd("ZADD").arg(&retry[..]).arg(1).arg("the copy that stays")).await;
        let k = &rig.queue.keys;
        let keys = [&k.delayed, &k.retry, &k.list, &k.ghosts, &k.sweep].map(Bytes::clone);
        let args = [element.into(), Bytes::from_static(b"auto"), Bytes::from_static(b"the copy that stays")];
        assert_eq!(repair(rig, UNSCHEDULE, &keys, &args).await, redis::Value::Int(1));
        0
    })
    .await;
}

#[tokio::test]
async fn the_fields_of_a_hash_with_large_values() {
    within_the_limit(FIELDS, "100 values of 1 MiB", async |rig: &mut Rig| {
        for n in 0..100 {
            let value = rig.element(MIB);
            rig.run(redis::cmd("HSET").arg("bodies").arg(n).arg(value)).await;
        }
        // The first argument is a cursor here.
        repair(rig, FIELDS, &[Bytes::from_static(b"bodies")], &[]).await;
        2 * MIB
    })
    .await;
}
