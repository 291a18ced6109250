//! What becomes of Redisson's list: ends first, the sweep and its lease, orphans, twins.

use std::time::Duration;

use bytes::Bytes;
use delaybridge::source::ledger::{ClaimRequest, Hints};
use delaybridge::source::redisson::ListCleanup;
use delaybridge::source::redisson::Redisson;
use delaybridge::source::{Start, UpkeepRequest, UpkeepState, Upkept};

use super::directed::{NOW_MS, claim, element, offer, request, start};
use super::rig::Rig;
use super::snapshot::Snapshot;

/// Makes every `LREM` too dear: what is not at an end of L becomes a ghost.
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

/// A list of `n` elements of which every second one is claimed and has become a ghost; 100 live ones at both ends.
async fn with_ghosts(rig: &mut Rig, source: &Redisson, n: u64) {
    no_lrem(rig, source).await;
    let due = |i: u64| if i % 2 == 1 && (10..n - 10).contains(&i) { NOW_MS } else { NOW_MS + 1_000_000 };
    let all: Vec<_> = (0..n).map(|i| (element(i), due(i))).collect();
    offer(rig, source, &all).await;
    claim(rig, source, &request(1)).await;
}

#[tokio::test]
async fn what_falls_due_in_the_order_of_offers_leaves_no_ghost_at_any_depth() {
    let (mut rig, a, _) = start(ListCleanup::Auto).await;
    no_lrem(&mut rig, &a).await;
    let all: Vec<_> = (0..5_000).map(|i| (element(i), NOW_MS - 10_000 + i as i64)).collect();
    offer(&mut rig, &a, &all).await;
    for number in 1..=20 {
        let claimed = claim(&rig, &a, &ClaimRequest { most: 250, ..request(number) }).await;
        assert_eq!((claimed.entries.len(), claimed.leftovers.count), (250, 0));
        assert_eq!(claimed.leftovers.of, 5_000 - 250 * number);
    }
}

#[tokio::test]
async fn elements_with_the_same_first_bytes_are_distinguished() {
    let (mut rig, a, _) = start(ListCleanup::Auto).await;
    no_lrem(&mut rig, &a).await;
    let twin = |letter: u8| Bytes::from([&[5; 16][..], &[letter; 20]].concat());
    let mut all: Vec<_> = (0..40).map(|i| (element(i), NOW_MS + 1_000_000)).collect();
    all.insert(10, (twin(b'a'), NOW_MS));
    all.insert(20, (twin(b'b'), NOW_MS + 1));
    all.insert(30, (twin(b'c'), NOW_MS + 1_000_000));
    offer(&mut rig, &a, &all).await;
    assert_eq!(claim(&rig, &a, &request(1)).await.leftovers.count, 1);
    rig.set_clock((NOW_MS + 1) * 1000).await;
    // The set holds their identity once: the second is searched for, whatever it costs.
    assert_eq!(claim(&rig, &a, &request(2)).await.leftovers.count, 1);
    assert_eq!(turn(&rig, &a).await.state, UpkeepState::Done);
    let seen = Snapshot::read(&mut rig.redis, &a.keys).await;
    assert_eq!((seen.copies(&twin(b'a')), seen.copies(&twin(b'b')), seen.copies(&twin(b'c'))), (0, 0, 1));
    assert!(seen.l.len() == 41 && seen.ghosts.is_empty() && seen.turn.is_empty());
}

#[tokio::test]
async fn a_twin_that_is_trimmed_during_a_turn_does_not_take_the_record_of_the_other() {
    let (mut rig, a, _) = start(ListCleanup::Auto).await;
    no_lrem(&mut rig, &a).await;
    let twin = |letter: u8| Bytes::from([&[5; 16][..], &[letter; 20]].concat());
    let mut all: Vec<_> = (0..20).map(|i| (element(i), NOW_MS + 1_000_000)).collect();
    all.insert(5, (twin(b'b'), NOW_MS + 1));
    all.insert(16, (twin(b'a'), NOW_MS));
    offer(&mut rig, &a, &all).await;
    assert_eq!(claim(&rig, &a, &request(1)).await.leftovers.count, 1);
    // The turn has moved the live twin to the tail, and has come to the ghost of the other.
    let mut swept = sweep(&rig, &a, None).await;
    for _ in 0..16 {
        swept = sweep(&rig, &a, Some(swept.step)).await;
    }
    rig.set_clock((NOW_MS + 1) * 1000).await;
    assert_eq!(claim(&rig, &a, &request(2)).await.leftovers.count, 1, "one more ghost, and one trimmed from the head");
    while swept.state == UpkeepState::Step {
        swept = sweep(&rig, &a, Some(swept.step)).await;
    }
    turn(&rig, &a).await;
    let seen = Snapshot::read(&mut rig.redis, &a.keys).await;
    assert_eq!((seen.copies(&twin(b'a')), seen.copies(&twin(b'b')), seen.l.len()), (0, 0, 20));
}

#[tokio::test]
async fn the_empty_element_leaves_a_ghost_like_any_other() {
    let (mut rig, a, _) = start(ListCleanup::Auto).await;
    no_lrem(&mut rig, &a).await;
    let mut all: Vec<_> = (0..40).map(|i| (element(i), NOW_MS + 1_000_000)).collect();
    all.insert(20, (Bytes::new(), NOW_MS + 1));
    all.insert(10, (element(99), NOW_MS));
    offer(&mut rig, &a, &all).await;
    claim(&rig, &a, &request(1)).await;
    // Recorded during a turn: the slices must not forget it.
    let begun = sweep(&rig, &a, None).await;
    rig.set_clock((NOW_MS + 1) * 1000).await;
    claim(&rig, &a, &request(2)).await;
    let mut swept = sweep(&rig, &a, Some(begun.step)).await;
    while swept.state == UpkeepState::Step {
        swept = sweep(&rig, &a, Some(swept.step)).await;
    }
    let seen = Snapshot::read(&mut rig.redis, &a.keys).await;
    assert!(seen.l.len() == 40 && seen.ghosts.is_empty(), "{} {:?}", seen.l.len(), seen.ghosts);
}

#[tokio::test]
async fn a_slice_that_is_sent_twice_is_refused() {
    let (mut rig, a, _) = start(ListCleanup::Auto).await;
    with_ghosts(&mut rig, &a, 60).await;
    let mut next = sweep(&rig, &a, None).await;
    while next.state != UpkeepState::Done {
        let slice = next.step;
        next = sweep(&rig, &a, Some(slice)).await;
        let before = Snapshot::read(&mut rig.redis, &a.keys).await;
        assert_eq!(sweep(&rig, &a, Some(slice)).await.state, UpkeepState::Stale);
        assert_eq!(before.difference(&Snapshot::read(&mut rig.redis, &a.keys).await), None);
    }
    let seen = Snapshot::read(&mut rig.redis, &a.keys).await;
    assert!(seen.l.len() == 40 && seen.ghosts.is_empty() && seen.turn.is_empty());
    assert!(seen.z.keys().all(|e| seen.copies(e) == 1));
}

#[tokio::test]
async fn a_sweeper_that_died_is_taken_over_after_its_lease() {
    let (mut rig, a, b) = start(ListCleanup::Auto).await;
    with_ghosts(&mut rig, &a, 60).await;
    let begun = sweep(&rig, &a, None).await;
    let next = sweep(&rig, &a, Some(begun.step)).await;
    assert_eq!(sweep(&rig, &b, None).await.state, UpkeepState::Busy);
    rig.set_clock((NOW_MS + 10_000) * 1000).await;
    let taken = sweep(&rig, &b, None).await;
    assert_eq!((taken.state, taken.step, taken.left), (UpkeepState::Begun, next.step, next.left));
    assert_eq!(sweep(&rig, &a, Some(next.step)).await.state, UpkeepState::Busy);
    assert_eq!(turn(&rig, &b).await.state, UpkeepState::Done);
    assert_eq!(sweep(&rig, &a, Some(next.step)).await.state, UpkeepState::Stale);
    let seen = Snapshot::read(&mut rig.redis, &a.keys).await;
    assert!(seen.l.len() == 40 && seen.turn.is_empty());
}

#[tokio::test]
async fn what_lost_its_place_in_z_is_left_in_the_list_and_reported() {
    let (mut rig, a, _) = start(ListCleanup::Auto).await;
    with_ghosts(&mut rig, &a, 60).await;
    let live = Snapshot::read(&mut rig.redis, &a.keys).await.z;
    rig.run(redis::cmd("DEL").arg(&a.keys.delayed[..])).await;
    assert_eq!(a.stats(&rig.conn, &mut Hints::default()).await.unwrap().source.orphans, 40, "at once");
    let done = turn(&rig, &a).await;
    assert_eq!((done.state, done.orphans), (UpkeepState::Done, 40));
    claim(&rig, &a, &request(2)).await;
    let seen = Snapshot::read(&mut rig.redis, &a.keys).await;
    assert!(seen.l.len() == 40 && live.keys().all(|e| seen.copies(e) == 1));
    assert_eq!(a.stats(&rig.conn, &mut Hints::default()).await.unwrap().source.orphans, 40, "and after the turn");
}

#[tokio::test]
async fn ghosts_of_unknown_age_are_swept_at_once() {
    let (mut rig, a, _) = start(ListCleanup::Auto).await;
    with_ghosts(&mut rig, &a, 60).await;
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
