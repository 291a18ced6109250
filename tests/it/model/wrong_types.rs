//! A key of a wrong type: the script reports it and changes nothing, for every position of the key.

use std::time::Duration;

use bytes::Bytes;
use delaybridge::link::Side;
use delaybridge::message::{MessageId, Origin};
use delaybridge::source::ledger::{Answer, ClaimRequest, Cursor, Header, Hints, Move, RecoverRequest};
use delaybridge::source::redisson::ListCleanup;
use delaybridge::source::redisson::{Keys, Redisson};
use delaybridge::source::{SourceError, Start, UpkeepRequest};

use super::rig::{Rig, source};
use super::world::LEASE;

const NOW_MS: i64 = 1_800_000_000_000;
const ELEMENT: &[u8] = b"\x08RANDOM8B\x05\0\0\0\0\0\0\0hello";

/// An entry in flight, of this test's daemon.
fn entry() -> (Bytes, Header) {
    let header = Header::redriven(Origin::Delayed, MessageId([0; 8]), NOW_MS, [1; 8], Vec::new());
    ([&header.encode()[..], ELEMENT].concat().into(), header)
}

/// A queue with something under every key, and something to do for every script.
async fn fill(rig: &mut Rig, keys: &Keys) {
    rig.run(&mut redis::cmd("FLUSHALL")).await;
    rig.set_clock(NOW_MS * 1000).await;
    let ghost: &[u8] = &[7; 40];
    redis::pipe()
        .zadd(&keys.delayed[..], ELEMENT, NOW_MS - 1)
        .rpush(&keys.list[..], &[ghost, ELEMENT])
        .rpush(&keys.ready[..], "payload")
        .zadd(&keys.in_flight[..], &entry().0[..], NOW_MS + 1)
        .zadd(&keys.retry[..], [&entry().0[..], b"again"].concat(), NOW_MS - 1)
        .sadd(&keys.ghosts[..], &ghost[..16])
        .sadd(&keys.ghosts_turn[..], "another")
        .hset(&keys.sweep[..], "oldest", 1)
        .cmd("XADD")
        .arg(&keys.dead[..])
        .arg("1-1")
        .arg("element")
        .arg(ELEMENT)
        .rpush("pushed", "before")
        .exec_async(&mut rig.redis)
        .await
        .unwrap();
}

/// Every key of the server with its contents, as Redis dumps them.
async fn dump(rig: &mut Rig) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query_async(&mut rig.redis).await.unwrap();
    keys.sort();
    let mut all = Vec::new();
    for key in keys {
        let bytes = redis::cmd("DUMP").arg(&key).query_async(&mut rig.redis).await.unwrap();
        all.push((key, bytes));
    }
    all
}

async fn send(rig: &Rig, source: &Redisson, script: &str) -> Result<(), SourceError> {
    let conn = &rig.conn;
    let (member, header) = entry();
    let claim = ClaimRequest {
        number: 1,
        not_after_ms: NOW_MS + 1,
        lease: LEASE,
        ahead: Duration::ZERO,
        most: 500,
        bytes: 1 << 20,
        alone: false,
        rotation: 1,
        hints: Hints::default(),
    };
    let recover = RecoverRequest {
        number: 0,
        not_after_ms: NOW_MS - 1,
        until_ms: i64::MAX,
        lease: LEASE,
        cursor: Cursor { from: "-inf".to_owned(), skip: 0 },
    };
    let sweep =
        UpkeepRequest { step: None, max_age: Duration::ZERO, bandwidth: 1 << 20, start: Start::Urgent, largest: 0 };
    match script {
        "claim" => source.claim(conn, &claim).await.map(drop),
        "claim alone" => source.claim(conn, &ClaimRequest { alone: true, ..claim }).await.map(drop),
        "recover" => source.recover(conn, &recover).await.map(drop),
        "settle" => {
            let retry = Move::Retry { header, delay_ms: 1 };
            source.settle(conn, &[(member, retry)], None, None).await.map(drop)
        }
        "extend" => source.extend(conn, LEASE, &[member]).await.map(drop),
        "sweep" => source.sweep(conn, &sweep).await.map(drop),
        "sweep a slice" => source.sweep(conn, &UpkeepRequest { step: Some(1), ..sweep }).await.map(drop),
        "offer" => source.offer(conn, Bytes::from_static(b"new"), Duration::ZERO).await.map(drop),
        "cancel" => source.cancel(conn, Bytes::from_static(ELEMENT), false).await.map(drop),
        "cancel in retry" => source.cancel(conn, member, true).await.map(drop),
        "redrive" => source.redrive(conn, "1-1", member).await.map(drop),
        "forward" => source.forwarded(conn, LEASE, &["1-1".to_owned()]).await.map(drop),
        "stats" => source.stats(conn, &mut Hints::default()).await.map(drop),
        other => panic!("no script {other}"),
    }
}

#[tokio::test]
async fn a_key_of_a_wrong_type_is_reported_and_nothing_is_changed() {
    let mut rig = Rig::start().await;
    let source = source("orders", 1, ListCleanup::Auto);
    let Keys { delayed: z, list: l, ready, ghosts, ghosts_turn: turn, sweep, .. } = &source.keys;
    let delaybridge::source::ledger::Keys { in_flight, retry, dead, state, .. } = &*source.keys;
    let table: [(&str, &[&Bytes]); 13] = [
        ("claim", &[z, l, ready, in_flight, retry, dead, ghosts, turn, sweep]),
        ("claim alone", &[z, l, ready, in_flight, retry, dead, ghosts, turn, sweep]),
        ("recover", &[in_flight]),
        ("settle", &[in_flight, retry, dead]),
        ("extend", &[in_flight]),
        ("sweep", &[z, l, ghosts, turn, sweep]),
        ("sweep a slice", &[z, l, ghosts, turn, sweep]),
        ("offer", &[z, l]),
        ("cancel", &[z, l]),
        ("cancel in retry", &[retry]),
        ("redrive", &[dead, retry]),
        ("forward", &[dead, state]),
        ("stats", &[z, l, ready, in_flight, retry, ghosts, turn, sweep, dead]),
    ];
    for (script, keys) in table {
        for key in keys {
            fill(&mut rig, &source.keys).await;
            if script == "sweep a slice" {
                send(&rig, &source, "sweep").await.unwrap();
            }
            rig.run(redis::cmd("DEL").arg(&key[..])).await;
            rig.run(redis::cmd("SET").arg(&key[..]).arg("a text")).await;
            let before = dump(&mut rig).await;
            let answer = send(&rig, &source, script).await;
            let name = String::from_utf8_lossy(key);
            match answer {
                Err(SourceError::Link(error)) => {
                    assert_eq!(error.code(), Some("WRONGKEY"), "{script} with {name}: {error}");
                    assert!(error.to_string().contains(&*name), "{script} with {name}: {error}");
                }
                other => panic!("{script} with a text in {name} answered {other:?}"),
            }
            assert!(dump(&mut rig).await == before, "{script} with a text in {name} changed something");
        }
        fill(&mut rig, &source.keys).await;
        send(&rig, &source, script).await.unwrap_or_else(|e| panic!("{script} with all types right: {e}"));
    }
}

#[tokio::test]
async fn a_push_to_what_is_no_list_is_refused_and_its_neighbours_are_settled() {
    let mut rig = Rig::start().await;
    let source = source("orders", 1, ListCleanup::Auto);
    fill(&mut rig, &source.keys).await;
    let (member, header) = entry();
    let list = Bytes::from_static(b"no list");
    rig.run(redis::cmd("SET").arg(&list[..]).arg("a text")).await;
    let before = dump(&mut rig).await;
    let push = Move::Push { side: Side::Right, body: Bytes::from_static(b"hello") };
    let answers = source.settle(&rig.conn, &[(member.clone(), push.clone())], Some(&list), None).await.unwrap().answers;
    assert_eq!(answers, [Answer::WrongType]);
    assert!(dump(&mut rig).await == before);
    let batch = [(member.clone(), push), (member, Move::Release { header, at_ms: 5 })];
    let answers = source.settle(&rig.conn, &batch, Some(&list), None).await.unwrap().answers;
    assert_eq!(answers, [Answer::WrongType, Answer::Done]);
}
