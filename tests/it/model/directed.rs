//! Single promises of the scripts, each in the smallest history that shows it.

use std::time::Duration;

use bytes::Bytes;
use delaybridge::message::{MessageId, Origin};
use delaybridge::source::ledger::{
    Answer, ClaimKey, ClaimReply, ClaimRequest, Claimed, ClaimedFrom, Cursor, Entry, Header, Hints, Move,
    RecoverRequest, Recovered,
};
use delaybridge::source::redisson::ListCleanup;
use delaybridge::source::redisson::{Redisson, open_entry};

use super::rig::{Rig, source};
use super::snapshot::Snapshot;
use super::world::{LEASE, LEASE_MS};
use crate::harness::Layout;

pub const NOW_MS: i64 = 1_800_000_000_000;

/// An empty server at [`NOW_MS`], and two daemons on its queue.
pub async fn start(cleanup: ListCleanup) -> (Rig, Redisson, Redisson) {
    let mut rig = Rig::start().await;
    rig.set_clock(NOW_MS * 1000).await;
    (rig, source("orders", 1, cleanup), source("orders", 2, cleanup))
}

/// A request for as much as a script may take.
pub fn request(number: u64) -> ClaimRequest {
    ClaimRequest {
        number,
        not_after_ms: i64::MAX,
        lease: LEASE,
        ahead: Duration::ZERO,
        most: 500,
        bytes: 1 << 20,
        alone: false,
        rotation: 1,
        hints: Hints::default(),
    }
}

pub async fn claim(rig: &Rig, source: &Redisson, request: &ClaimRequest) -> Claimed {
    match source.claim(&rig.conn, request).await.unwrap() {
        ClaimReply::Claimed(claimed) => claimed,
        ClaimReply::Late { now_ms } => panic!("late at {now_ms}"),
    }
}

/// A packed element with its number as the id.
pub fn element(number: u64) -> Bytes {
    Layout::New.pack(number.to_le_bytes(), b"payload").into()
}

/// Offers elements as Redisson leaves them.
pub async fn offer(rig: &mut Rig, source: &Redisson, elements: &[(Bytes, i64)]) {
    for some in elements.chunks(500) {
        let scored: Vec<(i64, &[u8])> = some.iter().map(|(e, due)| (*due, &e[..])).collect();
        let members: Vec<&[u8]> = some.iter().map(|(e, _)| &e[..]).collect();
        redis::pipe()
            .zadd_multiple(&source.keys.delayed[..], &scored)
            .rpush(&source.keys.list[..], members)
            .exec_async(&mut rig.redis)
            .await
            .unwrap();
    }
}

/// An entry that a daemon which is gone left in flight: its lease is over.
async fn left_behind(rig: &mut Rig, source: &Redisson, number: u64, expiries: u16) -> Bytes {
    let mut header = Header::redriven(Origin::Delayed, MessageId([0; 8]), NOW_MS, [9; 8], Vec::new());
    (header.generation, header.expiries) = (u32::from(expiries) + 1, expiries);
    header.key = ClaimKey { claim: number, index: 1 };
    let member = [&header.encode()[..], &element(number)].concat();
    let at = NOW_MS - 1_000 + number as i64;
    rig.run(redis::cmd("ZADD").arg(&source.keys.in_flight[..]).arg(at).arg(&member[..])).await;
    member.into()
}

#[tokio::test]
async fn a_thousand_equal_payloads_on_the_ready_list_are_a_thousand_entries() {
    let (mut rig, a, _) = start(ListCleanup::Auto).await;
    rig.run(redis::cmd("RPUSH").arg(&a.keys.ready[..]).arg(vec!["same"; 1_000])).await;
    let mut ids = std::collections::HashSet::new();
    for number in 1..=2 {
        // Not a microsecond passes between the two.
        for (_, entry) in claim(&rig, &a, &request(number)).await.entries {
            assert_eq!(&entry.element[..], b"same");
            assert!(ids.insert(open_entry(&entry).0));
        }
    }
    assert_eq!(ids.len(), 1_000);
    let seen = Snapshot::read(&mut rig.redis, &a.keys).await;
    assert_eq!((seen.ready.len(), seen.in_flight.len()), (0, 1_000));
}

#[tokio::test]
async fn an_expired_entry_of_the_caller_gets_a_new_lease_and_is_not_taken() {
    let (mut rig, a, b) = start(ListCleanup::Auto).await;
    offer(&mut rig, &a, &[(element(1), NOW_MS)]).await;
    let entry = claim(&rig, &a, &request(1)).await.entries.pop().unwrap().1;
    rig.set_clock((NOW_MS + LEASE_MS) * 1000).await;
    let claimed = claim(&rig, &a, &request(2)).await;
    assert!(claimed.entries.is_empty());
    assert_eq!(claimed.own, [entry.header.key]);
    let seen = Snapshot::read(&mut rig.redis, &a.keys).await;
    assert_eq!(seen.in_flight.get(&entry.member), Some(&(NOW_MS + 2 * LEASE_MS)));
    assert!(claim(&rig, &b, &request(1)).await.entries.is_empty(), "it is under a lease");
}

#[tokio::test]
async fn three_expiries_make_an_entry_one_that_is_claimed_alone() {
    let (mut rig, a, _) = start(ListCleanup::Auto).await;
    left_behind(&mut rig, &a, 1, 2).await;
    left_behind(&mut rig, &a, 2, 2).await;
    left_behind(&mut rig, &a, 3, 1).await;
    let claimed = claim(&rig, &a, &request(1)).await;
    let taken: Vec<_> = claimed.entries.iter().map(|(from, e)| (*from, e.header.expiries)).collect();
    assert_eq!((taken, claimed.suspects), (vec![(ClaimedFrom::Expired, 2)], 2));
    for number in 2..=3 {
        let claimed = claim(&rig, &a, &ClaimRequest { alone: true, ..request(number) }).await;
        let taken: Vec<_> = claimed.entries.iter().map(|(from, e)| (*from, e.header.expiries)).collect();
        assert_eq!(taken, [(ClaimedFrom::Expired, 3)]);
    }
    assert!(claim(&rig, &a, &ClaimRequest { alone: true, ..request(4) }).await.entries.is_empty());
}

#[tokio::test]
async fn the_tenth_expiry_marks_an_entry_as_worn() {
    let (mut rig, a, _) = start(ListCleanup::Auto).await;
    left_behind(&mut rig, &a, 1, 8).await;
    left_behind(&mut rig, &a, 2, 9).await;
    let claimed = claim(&rig, &a, &request(1)).await;
    let taken: Vec<_> = claimed.entries.iter().map(|(from, e)| (*from, e.header.expiries)).collect();
    assert_eq!((taken, claimed.suspects), (vec![(ClaimedFrom::Exhausted, 10)], 1));
}

#[tokio::test]
async fn three_hundred_suspects_do_not_hide_what_expired_after_them() {
    let (mut rig, a, _) = start(ListCleanup::Auto).await;
    for number in 1..=300 {
        left_behind(&mut rig, &a, number, 5).await;
    }
    left_behind(&mut rig, &a, 301, 0).await;
    let mut taken = Vec::new();
    for number in 1..=4 {
        rig.set_clock((NOW_MS + number as i64) * 1000).await;
        taken.extend(claim(&rig, &a, &request(number)).await.entries.into_iter().map(|(_, e)| e.element));
    }
    assert_eq!(taken, [element(301)]);
    let alone = claim(&rig, &a, &ClaimRequest { alone: true, ..request(5) }).await;
    assert_eq!(alone.entries.len(), 1);
}

#[tokio::test]
async fn a_claim_that_runs_after_its_time_does_nothing() {
    let (mut rig, a, _) = start(ListCleanup::Auto).await;
    offer(&mut rig, &a, &[(element(1), NOW_MS)]).await;
    let before = Snapshot::read(&mut rig.redis, &a.keys).await;
    let late = ClaimRequest { not_after_ms: NOW_MS - 1, ..request(1) };
    assert!(matches!(a.claim(&rig.conn, &late).await.unwrap(), ClaimReply::Late { now_ms: NOW_MS }));
    assert_eq!(before.difference(&Snapshot::read(&mut rig.redis, &a.keys).await), None);
    let last = ClaimRequest { not_after_ms: NOW_MS, ..request(1) };
    assert_eq!(claim(&rig, &a, &last).await.entries.len(), 1);
}

#[tokio::test]
async fn a_claim_that_is_sent_twice_takes_other_entries() {
    let (mut rig, a, _) = start(ListCleanup::Auto).await;
    let all: Vec<_> = (1..=6).map(|n| (element(n), NOW_MS)).collect();
    offer(&mut rig, &a, &all).await;
    let three = ClaimRequest { most: 3, ..request(1) };
    let mut taken = claim(&rig, &a, &three).await.entries;
    taken.extend(claim(&rig, &a, &three).await.entries);
    let members: std::collections::HashSet<_> = taken.into_iter().map(|(_, e)| e.member).collect();
    assert_eq!(members.len(), 6);
}

#[tokio::test]
async fn an_entry_that_cannot_be_read_does_not_cost_its_neighbours_their_reply() {
    let (mut rig, a, _) = start(ListCleanup::Auto).await;
    let mut damaged = left_behind(&mut rig, &a, 1, 0).await.to_vec();
    damaged[14] = b'?';
    rig.run(redis::cmd("ZADD").arg(&a.keys.retry[..]).arg(NOW_MS).arg(&damaged)).await;
    let claimed = claim(&rig, &a, &request(1)).await;
    assert_eq!((claimed.entries.len(), claimed.unknown), (1, 1));
    assert_eq!(Snapshot::read(&mut rig.redis, &a.keys).await.in_flight.len(), 2, "it is still in Redis");
}

#[tokio::test]
async fn a_large_head_that_was_taken_is_not_announced_any_more() {
    let (mut rig, a, b) = start(ListCleanup::Auto).await;
    let large = Bytes::from(Layout::New.pack([1; 8], &vec![7; 100_000]));
    offer(&mut rig, &a, &[(large, NOW_MS + 5), (element(2), NOW_MS + 60_000)]).await;
    let hints = claim(&rig, &a, &request(1)).await.hints;
    rig.set_clock((NOW_MS + 10) * 1000).await;
    assert_eq!(claim(&rig, &b, &request(1)).await.entries.len(), 1);
    let next = claim(&rig, &a, &ClaimRequest { hints: hints.clone(), ..request(2) }).await;
    assert_eq!(next.next_ms, Some(NOW_MS + 60_000));
    let mut hints = hints;
    assert_eq!(a.stats(&rig.conn, &mut hints).await.unwrap().source.head_ms, Some(NOW_MS + 60_000));
}

/// Microseconds that Redis spent in scripts so far.
async fn script_us(rig: &mut Rig) -> u64 {
    let info: String = redis::cmd("INFO").arg("commandstats").query_async(&mut rig.redis).await.unwrap();
    let line = info.lines().find(|line| line.starts_with("cmdstat_evalsha:"));
    let field = |line: &str| line.split("usec=").nth(1)?.split(',').next()?.parse().ok();
    line.map_or(0, |line| field(line).unwrap_or_else(|| panic!("read {line}")))
}

#[tokio::test]
async fn a_large_head_is_read_once_and_not_again_before_it_is_due() {
    let (mut rig, a, _) = start(ListCleanup::Auto).await;
    let large = Bytes::from(Layout::New.pack([1; 8], &vec![7; 40 << 20]));
    offer(&mut rig, &a, &[(large, NOW_MS + 5_000)]).await;
    let before = script_us(&mut rig).await;
    let mut hints = claim(&rig, &a, &request(1)).await.hints;
    let first = script_us(&mut rig).await - before;
    let mut cheapest = u64::MAX;
    for number in 2..12 {
        let before = script_us(&mut rig).await;
        let claimed = claim(&rig, &a, &ClaimRequest { hints, ..request(number) }).await;
        assert_eq!(claimed.next_ms, Some(NOW_MS + 5_000));
        hints = claimed.hints;
        cheapest = cheapest.min(script_us(&mut rig).await - before);
    }
    // The cheapest of ten: Lua clears away what the first one read, and others run on this machine.
    assert!(cheapest * 4 < first, "a claim that knows the head took {cheapest} us, the one that read it {first} us");
}

#[tokio::test]
async fn a_dead_letter_is_redriven_once_and_its_very_like_waits() {
    let (mut rig, a, _) = start(ListCleanup::Auto).await;
    let junk = Bytes::from_static(b"junk");
    for number in 1..=2 {
        offer(&mut rig, &a, &[(junk.clone(), NOW_MS)]).await;
        let entry = claim(&rig, &a, &request(number)).await.entries.pop().unwrap().1;
        let dead = Move::Dead { fields: vec![("element", entry.element.clone())] };
        a.settle(&rig.conn, &[(entry.member, dead)], None, None).await.unwrap();
    }
    let seen = Snapshot::read(&mut rig.redis, &a.keys).await;
    let ids: Vec<_> = seen.dead.into_iter().map(|(id, _)| id).collect();
    let header = Header::redriven(Origin::Delayed, MessageId([0; 8]), NOW_MS, a.owner, Vec::new());
    let member = Bytes::from([&header.encode()[..], &junk].concat());
    for (id, moved) in [(&ids[0], true), (&ids[0], false), (&ids[1], false)] {
        assert_eq!(a.redrive(&rig.conn, id, member.clone()).await.unwrap(), moved);
    }
    let first = claim(&rig, &a, &request(3)).await.entries;
    assert!(a.redrive(&rig.conn, &ids[1], member).await.unwrap());
    let second = claim(&rig, &a, &request(4)).await.entries;
    assert_eq!((first.len(), second.len()), (1, 1));
    assert_ne!(first[0].1.member, second[0].1.member);
}

#[tokio::test]
async fn what_a_former_owner_says_changes_nothing_and_what_comes_late_is_accepted() {
    let (mut rig, a, b) = start(ListCleanup::Auto).await;
    offer(&mut rig, &a, &[(element(1), NOW_MS), (element(2), NOW_MS)]).await;
    let held = claim(&rig, &a, &request(1)).await.entries;
    rig.set_clock((NOW_MS + LEASE_MS + 1) * 1000).await;
    let confirm = |entry: &Entry| [(entry.member.clone(), Move::Confirm)];
    let late = a.settle(&rig.conn, &confirm(&held[0].1), None, None).await.unwrap().answers;
    assert_eq!(late, [Answer::Done]);
    assert_eq!(claim(&rig, &b, &request(1)).await.entries.len(), 1);
    let before = Snapshot::read(&mut rig.redis, &a.keys).await;
    let stale = a.settle(&rig.conn, &confirm(&held[1].1), None, None).await.unwrap().answers;
    assert_eq!(stale, [Answer::NotMine]);
    assert_eq!(a.extend(&rig.conn, Duration::from_secs(60), &[held[1].1.member.clone()]).await.unwrap(), [false]);
    assert_eq!(before.difference(&Snapshot::read(&mut rig.redis, &a.keys).await), None);
}

#[tokio::test]
async fn a_lost_claim_is_looked_for_once_it_can_no_longer_run() {
    let (mut rig, a, b) = start(ListCleanup::Auto).await;
    offer(&mut rig, &a, &[(element(1), NOW_MS), (element(2), NOW_MS)]).await;
    let lost = claim(&rig, &a, &ClaimRequest { most: 1, not_after_ms: NOW_MS + 5, ..request(1) }).await;
    claim(&rig, &a, &request(2)).await;
    claim(&rig, &b, &request(1)).await;
    let recover = RecoverRequest {
        number: 1,
        not_after_ms: NOW_MS + 5,
        until_ms: NOW_MS + 5 + LEASE_MS,
        lease: LEASE,
        cursor: Cursor { from: (NOW_MS + LEASE_MS).to_string(), skip: 0 },
    };
    rig.set_clock((NOW_MS + 5) * 1000).await;
    assert!(
        matches!(a.recover(&rig.conn, &recover).await.unwrap(), Recovered::Wait { .. }),
        "it may run in this very ms"
    );
    rig.set_clock((NOW_MS + 6) * 1000).await;
    match a.recover(&rig.conn, &recover).await.unwrap() {
        Recovered::Slice { entries, next: None, .. } => {
            assert_eq!(entries.len(), 1);
            assert_eq!(entries[0].member, lost.entries[0].1.member, "generation, attempt and id are kept");
        }
        other => panic!("{other:?}"),
    }
}
