//! Recovery: what a claim took whose reply was lost. Here the reply is there, and the process makes no use of it.

use super::*;
use crate::source::ledger::{Cursor, RecoverRequest, Recovered};
use crate::source::millis;

/// Asks for what this claim took, which was sent at this time.
fn lost(claim: &ClaimRequest, sent_ms: i64) -> RecoverRequest {
    let lease_ms = millis(claim.lease);
    RecoverRequest {
        number: claim.number,
        not_after_ms: claim.not_after_ms,
        until_ms: claim.not_after_ms + lease_ms,
        lease: claim.lease,
        cursor: Cursor { from: (sent_ms + lease_ms).to_string(), skip: 0 },
    }
}

/// Everything that is found, each entry once, and the number of slices.
pub(crate) async fn recover(store: &dyn Store, request: &RecoverRequest) -> (Vec<Entry>, usize) {
    let (mut request, mut found, mut slices) = (request.clone(), Vec::<Entry>::new(), 0);
    loop {
        slices += 1;
        match store.recover(&request).await.expect("the server looks") {
            Recovered::Wait { now_ms } => panic!("wait at {now_ms}: {request:?}"),
            Recovered::Slice { entries, next, .. } => {
                let known = |entry: &Entry, found: &[Entry]| found.iter().any(|known| known.member == entry.member);
                for entry in entries {
                    if !known(&entry, &found) {
                        found.push(entry);
                    }
                }
                let Some(cursor) = next else { return (found, slices) };
                request.cursor = cursor;
            }
        }
    }
}

fn members(entries: &[Entry]) -> Vec<Bytes> {
    entries.iter().map(|entry| entry.member.clone()).collect()
}

pub(crate) async fn nothing_is_recovered_while_the_claim_may_still_run(mut rig: impl Rig) {
    let store = rig.store(A);
    let sent_ms = rig.now_ms();
    let elements = offer(&mut rig, [1]).await;
    let request = ClaimRequest { not_after_ms: sent_ms + 1_000, ..request(1) };
    claim(&*store, &request).await;
    let before = rig.places().await;
    for wait in [0, 1_000] {
        rig.advance(ms(wait)).await;
        let answer = store.recover(&lost(&request, sent_ms)).await.expect("the server looks");
        assert!(matches!(answer, Recovered::Wait { now_ms } if now_ms == rig.now_ms()), "{answer:?}");
        assert_eq!(rig.places().await, before);
    }
    rig.advance(ms(1)).await;
    let (found, _) = recover(&*store, &lost(&request, sent_ms)).await;
    assert_eq!(found.iter().map(|entry| &entry.element).collect::<Vec<_>>(), [&elements[0]]);
}

pub(crate) async fn a_recovery_finds_the_entries_of_its_claim_and_no_others(mut rig: impl Rig) {
    let (store, another) = (rig.store(A), rig.store(B));
    let sent_ms = rig.now_ms();
    let request = ClaimRequest { not_after_ms: sent_ms + 1_000, ..request(1) };
    offer(&mut rig, 0..3).await;
    rig.make_ready(&Bytes::from_static(b"ready")).await;
    let claimed: Vec<_> = claim(&*store, &request).await.entries.into_iter().map(|(_, entry)| entry).collect();
    offer(&mut rig, [10]).await;
    claim(&*store, &ClaimRequest { number: 2, ..request.clone() }).await;
    offer(&mut rig, [20]).await;
    claim(&*another, &request).await;
    assert_eq!(settle_one(&*store, &claimed[0], Move::Confirm).await, Answer::Done);

    rig.advance(ms(1_001)).await;
    let (found, _) = recover(&*store, &lost(&request, sent_ms)).await;
    let mut expected = members(&claimed[1..]);
    expected.sort();
    assert_eq!(members(&found), expected, "the same members: generation and id are kept");
    let ids =
        |entries: &[Entry]| entries.iter().map(|entry| store.open(entry).0).collect::<std::collections::BTreeSet<_>>();
    assert_eq!(ids(&found), ids(&claimed[1..]));
    for (until_ms, member) in rig.places().await.in_flight {
        let renewed = expected.contains(&member);
        assert_eq!(until_ms, if renewed { rig.now_ms() } else { sent_ms } + 10_000, "{renewed}");
    }
    for entry in &found {
        assert_eq!(settle_one(&*store, entry, Move::Confirm).await, Answer::Done);
    }
}

pub(crate) async fn a_recovery_goes_through_many_entries_slice_by_slice(mut rig: impl Rig) {
    let store = rig.store(A);
    let sent_ms = rig.now_ms();
    let request = |number, most| ClaimRequest { not_after_ms: sent_ms + 10, most, ..request(number) };
    offer(&mut rig, 0..620).await;
    claim(&*store, &request(1, 400)).await;
    let claimed = claim(&*store, &request(2, 150)).await;
    claim(&*store, &request(3, 70)).await;
    rig.advance(ms(11)).await;
    let (found, slices) = recover(&*store, &lost(&request(2, 150), sent_ms)).await;
    let mut expected: Vec<_> = claimed.entries.iter().map(|(_, entry)| entry.member.clone()).collect();
    expected.sort();
    let mut found = members(&found);
    found.sort();
    assert_eq!((found.len(), slices >= 2), (150, true));
    assert_eq!(found, expected);
}

pub(crate) async fn a_recovery_can_be_sent_again(mut rig: impl Rig) {
    let store = rig.store(A);
    let sent_ms = rig.now_ms();
    let request = ClaimRequest { not_after_ms: sent_ms + 10, ..request(1) };
    offer(&mut rig, 0..5).await;
    claim(&*store, &request).await;
    rig.advance(ms(11)).await;
    let first = lost(&request, sent_ms);
    let (found, _) = recover(&*store, &first).await;
    // Its reply was lost as well: the entries have moved to the end of their new lease.
    rig.advance(ms(500)).await;
    let again = RecoverRequest { until_ms: rig.now_ms() + 10_000, ..first };
    let (again, _) = recover(&*store, &again).await;
    assert_eq!((members(&again), again.len()), (members(&found), 5));
    assert_eq!(rig.places().await.in_flight.len(), 5);
}

pub(crate) async fn of_a_claim_that_did_not_run_nothing_is_found(mut rig: impl Rig) {
    let store = rig.store(A);
    let sent_ms = rig.now_ms();
    let elements = offer(&mut rig, [1, 2]).await;
    claim(&*store, &ClaimRequest { most: 1, ..request(1) }).await;
    let late = ClaimRequest { not_after_ms: sent_ms + 10, ..request(2) };
    rig.advance(ms(11)).await;
    store.claim(&late).await.expect("the server answers");
    let (found, _) = recover(&*store, &lost(&late, sent_ms)).await;
    assert!(found.is_empty(), "{found:?}");
    assert_eq!(rig.places().await.of(&elements[1]), ["scheduled"]);
}
