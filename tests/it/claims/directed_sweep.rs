//! The treatment of Redisson's list: ends first, the sweep and its lease, orphans, twins.

use std::time::Duration;

use bytes::Bytes;
use delaybridge_ledger::claims::{ClaimName, ClaimReply, ClaimRequest, Claimed};
use delaybridge_ledger::{Hints, Start, UpkeepRequest, UpkeepState, Upkept};
use delaybridge_source::redisson::{ListCleanup, Redisson};

use super::directed::element;
use super::rig::{Rig, source};
use super::snapshot::{Names, Snapshot};
use super::world::LEASE;

pub const NOW_MS: i64 = 1_800_000_000_000;

/// Starts an empty server at [`NOW_MS`], and two daemons on its queue.
pub async fn start() -> (Rig, Redisson, Redisson) {
    let mut rig = Rig::start().await;
    rig.set_clock(NOW_MS * 1000).await;
    (rig, source("orders", 1, ListCleanup::Auto), source("orders", 2, ListCleanup::Auto))
}

/// Claims at most `most` elements, as much as a script may take.
pub async fn claim(rig: &Rig, source: &Redisson, number: u64, most: usize) -> Claimed {
    let request = ClaimRequest {
        name: ClaimName::new(source.owner, number),
        not_after_ms: NOW_MS + 1_000,
        lease: LEASE,
        ahead: Duration::ZERO,
        most,
        bytes: 1 << 20,
        rotation: number,
        hints: Hints::default(),
        back_before_ms: None,
    };
    match source.claims().claim(&rig.conn, &request).await.unwrap() {
        ClaimReply::Claimed(claimed) => claimed,
        other => panic!("{other:?}"),
    }
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

async fn look(rig: &mut Rig, source: &Redisson) -> Snapshot {
    Snapshot::read(&mut rig.redis, &source.keys, &Names::of(&source.keys.tag)).await
}

/// Makes every `LREM` too expensive, so that elements away from both ends of L become ghosts.
async fn no_lrem(rig: &mut Rig, source: &Redisson) {
    let mut spent = redis::cmd("HSET");
    spent.arg(&source.keys.sweep[..]).arg("lrem_at").arg(9_000_000_000_000_000i64).arg("lrem_us").arg(0);
    rig.run(&mut spent).await;
}

async fn sweep(rig: &Rig, source: &Redisson, step: Option<i64>) -> Upkept {
    // Slices of one entry, so that a turn has many.
    let request =
        UpkeepRequest { step, max_age: Duration::ZERO, bandwidth: 1 << 30, start: Start::Urgent, largest: 2 << 20 };
    source.sweep(&rig.conn, &request).await.unwrap()
}

async fn turn(rig: &Rig, source: &Redisson) -> Upkept {
    let mut swept = sweep(rig, source, None).await;
    while matches!(swept.state, UpkeepState::Begun | UpkeepState::Step) {
        swept = sweep(rig, source, Some(swept.step)).await;
    }
    swept
}

/// Number of live elements in a list of [`with_ghosts`].
const LIVE: usize = 220;

/// Makes a list in which 20 elements, far from both ends, are claimed and have become ghosts.
async fn with_ghosts(rig: &mut Rig, source: &Redisson) {
    no_lrem(rig, source).await;
    let due = |i: u64| if i % 2 == 1 && (100..140).contains(&i) { NOW_MS } else { NOW_MS + 1_000_000 };
    let all: Vec<_> = (0..240).map(|i| (element(i), due(i))).collect();
    offer(rig, source, &all).await;
    claim(rig, source, 1, 500).await;
}

#[tokio::test]
async fn records_of_an_earlier_build_are_read() {
    let (mut rig, a, _) = start().await;
    with_ghosts(&mut rig, &a).await;
    let recorded = look(&mut rig, &a).await.ghosts;
    assert!(recorded.len() == 20 && recorded.iter().all(|id| id.len() == 9), "{recorded:?}");
    // They had 16 bytes.
    rig.run(redis::cmd("DEL").arg(&a.keys.ghosts[..])).await;
    for i in (101..140).step_by(2) {
        rig.run(redis::cmd("SADD").arg(&a.keys.ghosts[..]).arg(&element(i)[..16])).await;
    }
    assert_eq!(turn(&rig, &a).await.state, UpkeepState::Done);
    let seen = look(&mut rig, &a).await;
    assert_eq!((seen.l.len(), seen.ghosts.len(), seen.turn.len()), (LIVE, 0, 0));
}

#[tokio::test]
async fn what_falls_due_in_the_order_of_offers_leaves_no_ghost_at_any_depth() {
    let (mut rig, a, _) = start().await;
    no_lrem(&mut rig, &a).await;
    let all: Vec<_> = (0..5_000).map(|i| (element(i), NOW_MS - 10_000 + i as i64)).collect();
    offer(&mut rig, &a, &all).await;
    for number in 1..=20 {
        let claimed = claim(&rig, &a, number, 250).await;
        assert_eq!((claimed.elements.len(), claimed.leftovers.expect("L is long").count), (250, 0));
        assert_eq!(claimed.leftovers.expect("L is long").of, 5_000 - 250 * number);
    }
}

#[tokio::test]
async fn elements_with_the_same_first_bytes_are_distinguished() {
    let (mut rig, a, _) = start().await;
    no_lrem(&mut rig, &a).await;
    let twin = |letter: u8| Bytes::from([&[5; 16][..], &[letter; 20]].concat());
    let mut all: Vec<_> = (0..240).map(|i| (element(i), NOW_MS + 1_000_000)).collect();
    all.insert(110, (twin(b'a'), NOW_MS));
    all.insert(120, (twin(b'b'), NOW_MS + 1));
    all.insert(130, (twin(b'c'), NOW_MS + 1_000_000));
    offer(&mut rig, &a, &all).await;
    assert_eq!(claim(&rig, &a, 1, 500).await.leftovers.expect("L is long").count, 1);
    rig.set_clock((NOW_MS + 1) * 1000).await;
    // The set contains their identity once: the second is searched for, whatever it costs.
    assert_eq!(claim(&rig, &a, 2, 500).await.leftovers.expect("L is long").count, 1);
    assert_eq!(turn(&rig, &a).await.state, UpkeepState::Done);
    let seen = look(&mut rig, &a).await;
    assert_eq!((seen.copies(&twin(b'a')), seen.copies(&twin(b'b')), seen.copies(&twin(b'c'))), (0, 0, 1));
    assert!(seen.l.len() == 241 && seen.ghosts.is_empty() && seen.turn.is_empty());
}

#[tokio::test]
async fn a_record_is_for_one_entry_of_a_slice_also_where_others_have_its_first_bytes() {
    let (mut rig, a, _) = start().await;
    no_lrem(&mut rig, &a).await;
    let twin = |letter: u8| Bytes::from([&[5; 16][..], &[letter; 20]].concat());
    let mut all: Vec<_> = (0..240).map(|i| (element(i), NOW_MS + 1_000_000)).collect();
    let twins = [(twin(b'a'), NOW_MS), (twin(b'b'), NOW_MS + 1), (twin(b'c'), NOW_MS + 1_000_000)];
    all.splice(110..110, twins);
    offer(&mut rig, &a, &all).await;
    assert_eq!(claim(&rig, &a, 1, 500).await.leftovers.expect("L is long").count, 1);
    // Slices of as many entries as fit. The second record of the identity is in the set of the next turn.
    let request =
        |step| UpkeepRequest { step, max_age: Duration::ZERO, bandwidth: 1 << 30, start: Start::Urgent, largest: 0 };
    let mut swept = a.sweep(&rig.conn, &request(None)).await.unwrap();
    rig.set_clock((NOW_MS + 1) * 1000).await;
    assert_eq!(claim(&rig, &a, 2, 500).await.leftovers.expect("L is long").count, 2);
    // Nothing has recorded the third.
    rig.run(redis::cmd("ZREM").arg(&a.keys.delayed[..]).arg(&twin(b'c')[..])).await;
    let mut removed = 0;
    while matches!(swept.state, UpkeepState::Begun | UpkeepState::Step) {
        swept = a.sweep(&rig.conn, &request(Some(swept.step))).await.unwrap();
        removed += swept.removed;
    }
    assert_eq!((swept.state, removed, swept.orphans), (UpkeepState::Done, 2, 1));
    let seen = look(&mut rig, &a).await;
    assert_eq!((seen.copies(&twin(b'a')), seen.copies(&twin(b'b')), seen.copies(&twin(b'c'))), (0, 0, 1));
    assert!(seen.l.len() == 241 && seen.ghosts.is_empty() && seen.turn.is_empty());
}

#[tokio::test]
async fn the_empty_element_leaves_a_ghost_like_any_other() {
    let (mut rig, a, _) = start().await;
    no_lrem(&mut rig, &a).await;
    let mut all: Vec<_> = (0..240).map(|i| (element(i), NOW_MS + 1_000_000)).collect();
    all.insert(120, (Bytes::new(), NOW_MS + 1));
    all.insert(110, (element(999), NOW_MS));
    offer(&mut rig, &a, &all).await;
    claim(&rig, &a, 1, 500).await;
    // Recorded during a turn: the slices must not forget it.
    let begun = sweep(&rig, &a, None).await;
    rig.set_clock((NOW_MS + 1) * 1000).await;
    claim(&rig, &a, 2, 500).await;
    let mut swept = sweep(&rig, &a, Some(begun.step)).await;
    while swept.state == UpkeepState::Step {
        swept = sweep(&rig, &a, Some(swept.step)).await;
    }
    let seen = look(&mut rig, &a).await;
    assert!(seen.l.len() == 240 && seen.ghosts.is_empty(), "{} {:?}", seen.l.len(), seen.ghosts);
}

#[tokio::test]
async fn a_slice_that_is_sent_twice_is_refused() {
    let (mut rig, a, _) = start().await;
    with_ghosts(&mut rig, &a).await;
    let mut next = sweep(&rig, &a, None).await;
    while next.state != UpkeepState::Done {
        let slice = next.step;
        next = sweep(&rig, &a, Some(slice)).await;
        let before = look(&mut rig, &a).await;
        assert_eq!(sweep(&rig, &a, Some(slice)).await.state, UpkeepState::Stale);
        assert_eq!(before.difference(&look(&mut rig, &a).await), None);
    }
    let seen = look(&mut rig, &a).await;
    assert!(seen.l.len() == LIVE && seen.ghosts.is_empty() && seen.turn.is_empty());
    assert!(seen.z.keys().all(|e| seen.copies(e) == 1));
}

#[tokio::test]
async fn a_sweeper_that_died_is_taken_over_after_its_lease() {
    let (mut rig, a, b) = start().await;
    with_ghosts(&mut rig, &a).await;
    let begun = sweep(&rig, &a, None).await;
    let next = sweep(&rig, &a, Some(begun.step)).await;
    assert_eq!(sweep(&rig, &b, None).await.state, UpkeepState::Busy);
    rig.set_clock((NOW_MS + 10_000) * 1000).await;
    let taken = sweep(&rig, &b, None).await;
    assert_eq!((taken.state, taken.step, taken.left), (UpkeepState::Begun, next.step, next.left));
    assert_eq!(sweep(&rig, &a, Some(next.step)).await.state, UpkeepState::Busy);
    assert_eq!(turn(&rig, &b).await.state, UpkeepState::Done);
    assert_eq!(sweep(&rig, &a, Some(next.step)).await.state, UpkeepState::Stale);
    let seen = look(&mut rig, &a).await;
    assert!(seen.l.len() == LIVE && seen.turn.is_empty());
}

#[tokio::test]
async fn what_lost_its_place_in_z_is_left_in_the_list_and_reported() {
    let (mut rig, a, _) = start().await;
    with_ghosts(&mut rig, &a).await;
    let live = look(&mut rig, &a).await.z;
    rig.run(redis::cmd("DEL").arg(&a.keys.delayed[..])).await;
    assert_eq!(a.stats(&rig.conn).await.unwrap().source.orphans, LIVE as i64, "at once");
    let done = turn(&rig, &a).await;
    assert_eq!((done.state, done.orphans), (UpkeepState::Done, LIVE as i64));
    claim(&rig, &a, 2, 500).await;
    let seen = look(&mut rig, &a).await;
    assert!(seen.l.len() == LIVE && live.keys().all(|e| seen.copies(e) == 1));
    assert_eq!(a.stats(&rig.conn).await.unwrap().source.orphans, LIVE as i64, "and after the turn");
}

#[tokio::test]
async fn ghosts_of_unknown_age_are_swept_at_once() {
    let (mut rig, a, _) = start().await;
    with_ghosts(&mut rig, &a).await;
    rig.run(redis::cmd("DEL").arg(&a.keys.sweep[..])).await;
    let request = UpkeepRequest {
        step: None,
        max_age: Duration::from_secs(30),
        bandwidth: 16 << 20,
        start: Start::Due,
        largest: 0,
    };
    assert_eq!(a.sweep(&rig.conn, &request).await.unwrap().state, UpkeepState::Begun);
}
