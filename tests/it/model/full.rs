//! A Redis that is full: everything that drains it still runs.

use std::time::Duration;

use bytes::Bytes;
use delaybridge::link::Side;
use delaybridge::source::ledger::{Answer, ClaimRequest, Cursor, Forwarder, Move, RecoverRequest, Recovered};
use delaybridge::source::redisson::ListCleanup;
use delaybridge::source::{Start, UpkeepRequest, UpkeepState};

use super::directed::{NOW_MS, claim, element, offer, request, start};
use super::rig::Rig;
use super::world::{LEASE, LEASE_MS};

/// No room for anything from now on.
async fn fill_up(rig: &mut Rig) {
    rig.run(redis::cmd("CONFIG").arg("SET").arg("maxmemory-policy").arg("noeviction")).await;
    rig.run(redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg("1")).await;
    let refused = redis::cmd("SET").arg("more").arg("text").exec_async(&mut rig.redis).await.unwrap_err();
    assert_eq!(refused.code(), Some("OOM"));
}

/// Sets the clock, for which there has to be room.
async fn set_clock(rig: &mut Rig, now_ms: i64) {
    rig.run(redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg("0")).await;
    rig.set_clock(now_ms * 1000).await;
    fill_up(rig).await;
}

#[tokio::test]
async fn a_full_redis_can_be_claimed_from_settled_extended_recovered_and_swept() {
    let (mut rig, a, b) = start(ListCleanup::Auto).await;
    let all: Vec<_> = (0..200).map(|i| (element(i * 7919 % 200), NOW_MS)).collect();
    offer(&mut rig, &a, &all).await;
    rig.run(redis::cmd("RPUSH").arg(&a.keys.ready[..]).arg("payload")).await;
    rig.run(redis::cmd("HSET").arg(&a.keys.sweep[..]).arg("lrem_at").arg(i64::MAX / 1024).arg("lrem_us").arg(0)).await;
    fill_up(&mut rig).await;

    // Expired, retry, ready and delayed: each kind is taken, by the first write of its script.
    let held = claim(&rig, &a, &ClaimRequest { most: 100, ..request(1) }).await;
    assert_eq!(held.entries.len(), 100);
    assert!(held.leftovers.count > 0, "the rest of this test needs some");
    let entries: Vec<_> = held.entries.into_iter().map(|(_, entry)| entry).collect();
    let list = Bytes::from_static(b"pushed");
    let mut kept = entries[2].header.clone();
    kept.confirm(7);
    let header = entries[0].header.clone();
    let moves = [
        Move::Retry { header: header.clone(), delay_ms: 0 },
        Move::Release { header: entries[1].header.clone(), at_ms: NOW_MS },
        Move::Progress { header: kept },
        Move::Dead { fields: vec![("element", entries[3].element.clone())] },
        Move::Push { side: Side::Right, body: Bytes::from_static(b"payload") },
        Move::Confirm,
    ];
    for (entry, step) in entries.iter().zip(moves) {
        let answer = a.settle(&rig.conn, &[(entry.member.clone(), step)], Some(&list), None).await.unwrap().answers;
        assert_eq!(answer, [Answer::Done]);
    }
    let rest: Vec<Bytes> = entries[6..].iter().map(|e| e.member.clone()).collect();
    assert!(a.extend(&rig.conn, LEASE, &rest).await.unwrap().into_iter().all(|ours| ours));
    let recover = RecoverRequest {
        number: 1,
        not_after_ms: NOW_MS - 1,
        until_ms: NOW_MS + LEASE_MS,
        lease: LEASE * 2,
        cursor: Cursor { from: "-inf".to_owned(), skip: 0 },
    };
    match a.recover(&rig.conn, &recover).await.unwrap() {
        // With the one that has made progress.
        Recovered::Slice { entries, .. } => assert_eq!(entries.len(), 95),
        Recovered::Wait { .. } => panic!("its time is over"),
    }
    set_clock(&mut rig, NOW_MS + 3 * LEASE_MS).await;
    for number in 1..=3 {
        claim(&rig, &b, &request(number)).await;
    }
    let stats = b.stats(&rig.conn, &mut Default::default()).await.unwrap();
    assert_eq!((stats.source.scheduled, stats.retry, stats.source.ready, stats.in_flight), (0, 0, 0, 201 - 3));

    let step = |step| UpkeepRequest {
        step,
        max_age: Duration::from_secs(30),
        bandwidth: 16 << 20,
        start: Start::Urgent,
        largest: 2 << 20, // slices of one entry
    };
    let begun = a.sweep(&rig.conn, &step(None)).await.unwrap();
    let mut next = a.sweep(&rig.conn, &step(Some(begun.step))).await.unwrap();
    assert_eq!((begun.state, next.state), (UpkeepState::Begun, UpkeepState::Step));
    // Another one continues after the lease, and its first write is the beginning.
    set_clock(&mut rig, NOW_MS + 6 * LEASE_MS).await;
    assert_eq!(b.sweep(&rig.conn, &step(None)).await.unwrap().state, UpkeepState::Begun);
    while next.state != UpkeepState::Done {
        next = b.sweep(&rig.conn, &step(Some(next.step))).await.unwrap();
    }
    let stats = b.stats(&rig.conn, &mut Default::default()).await.unwrap();
    assert_eq!((stats.source.leftovers.of, stats.source.leftovers.count, stats.source.orphans), (0, 0, 0));
}

#[tokio::test]
async fn dead_letters_leave_a_full_redis() {
    let (mut rig, a, b) = start(ListCleanup::Auto).await;
    let id: String =
        redis::cmd("XADD").arg(&a.keys.dead[..]).arg("*").arg("a").arg("b").query_async(&mut rig.redis).await.unwrap();
    fill_up(&mut rig).await;
    assert_eq!(a.forwarded(&rig.conn, LEASE, &[]).await.unwrap(), Forwarder::Own);
    // Confirmed is confirmed, with any owner of the lease and any number of calls.
    for _ in 0..2 {
        assert_eq!(b.forwarded(&rig.conn, LEASE, std::slice::from_ref(&id)).await.unwrap(), Forwarder::Another);
        let left: usize = redis::cmd("XLEN").arg(&a.keys.dead[..]).query_async(&mut rig.redis).await.unwrap();
        assert_eq!(left, 0);
    }
    set_clock(&mut rig, NOW_MS + LEASE_MS + 1).await;
    assert_eq!(b.forwarded(&rig.conn, LEASE, &[]).await.unwrap(), Forwarder::TakenOver);
    assert_eq!(b.forwarded(&rig.conn, Duration::ZERO, &[]).await.unwrap(), Forwarder::Own);
    assert_eq!(a.forwarded(&rig.conn, LEASE, &[]).await.unwrap(), Forwarder::Own, "it was released");
}

#[tokio::test]
async fn a_full_redis_joins_the_ghosts_of_a_turn_that_was_left() {
    let (mut rig, a, _) = start(ListCleanup::Auto).await;
    rig.run(redis::cmd("SADD").arg(&a.keys.ghosts[..]).arg("one")).await;
    rig.run(redis::cmd("SADD").arg(&a.keys.ghosts_turn[..]).arg("two")).await;
    fill_up(&mut rig).await;
    let step = UpkeepRequest {
        step: None,
        max_age: Duration::from_secs(30),
        bandwidth: 16 << 20,
        start: Start::Urgent,
        largest: 0,
    };
    assert_eq!(a.sweep(&rig.conn, &step).await.unwrap().state, UpkeepState::Begun);
}

#[tokio::test]
async fn an_offer_to_a_full_redis_is_refused_and_leaves_nothing_half_done() {
    let (mut rig, a, _) = start(ListCleanup::Auto).await;
    fill_up(&mut rig).await;
    assert!(a.offer(&rig.conn, element(1), Duration::ZERO).await.is_err());
    let stats = a.stats(&rig.conn, &mut Default::default()).await.unwrap();
    assert_eq!((stats.source.scheduled, stats.source.leftovers.of), (0, 0));
}
