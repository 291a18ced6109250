//! Leases: how they end, how they are found, and what their owners can still do.

use super::*;
use delaybridge_ledger::claims::EXPIRED_SHOWN;
use delaybridge_ledger::store::InFlight;

/// Claims one element each, with leases that end one ms after the other, the last number first.
async fn claims_of_one(rig: &mut impl Rig, count: u64) {
    for number in 1..=count {
        offer(rig, [number]).await;
        let lease = ms(1_000 + count - number);
        claim(rig, &ClaimRequest { lease, ..request(A, number) }).await;
    }
}

pub async fn a_claim_shows_the_names_of_some_expired_claims(mut rig: impl Rig) {
    claims_of_one(&mut rig, 10).await;
    rig.advance(ms(999)).await;
    assert_eq!(claim(&rig, &request(B, 1)).await.expired, []);
    rig.advance(ms(3)).await;
    let names = |numbers: [u64; 3]| numbers.map(|number| name(A, number));
    assert_eq!(claim(&rig, &request(B, 2)).await.expired, names([10, 9, 8]), "the longest first");
    // No process takes its own for granted either.
    offer(&mut rig, [20]).await;
    let claimed = claim(&rig, &request(A, 20)).await;
    assert_eq!((claimed.elements.len(), &claimed.expired[..]), (1, &names([10, 9, 8])[..]));
    rig.advance(ms(100)).await;
    assert_eq!(claim(&rig, &request(B, 3)).await.expired.len(), EXPIRED_SHOWN, "no more than a few");
}

pub async fn names_of_expired_claims_are_read_in_the_order_of_their_ends(mut rig: impl Rig) {
    let start = rig.now_ms();
    claims_of_one(&mut rig, 4).await;
    let store = rig.store(B);
    let expired = async |now_ms, most| store.expired(now_ms, most).await.expect("the server reads");
    assert_eq!(expired(start + 999, 10).await, (vec![], 0));
    assert_eq!(expired(start + 1_001, 10).await, (vec![name(A, 4), name(A, 3)], 0), "over at that time");
    assert_eq!(
        expired(start + 2_000, 3).await,
        (vec![name(A, 4), name(A, 3), name(A, 2)], 0),
        "no more than asked for"
    );
}

pub async fn an_extended_lease_lasts_from_then_on(mut rig: impl Rig) {
    let store = rig.store(A);
    offer(&mut rig, [1]).await;
    take_one(&rig, A, 1).await;
    rig.advance(LEASE / 2).await;
    let nothing = store.extend(LEASE, rig.now_ms(), &[]).await.expect("the server extends");
    assert!(matches!(nothing, Extended::Done { now_ms, held } if now_ms == rig.now_ms() && held.is_empty()));
    // Sent again: the end moves twice.
    for wait in [0, 7] {
        rig.advance(ms(wait)).await;
        let names = [name(A, 9), name(A, 1), name(B, 1)];
        let held = extend(&store, LEASE, &names).await;
        assert_eq!(held, [false, true, false], "an answer for each, in their order");
        let places = rig.places().await;
        assert_eq!(places.leases, [(rig.now_ms() + 10_000, name(A, 1).to_string())], "no name is added");
    }
    rig.advance(LEASE * 2).await;
    assert_eq!(extend(&store, LEASE, &[name(A, 1)]).await, [true], "over, but no process took it");
    assert_eq!(claim(&rig, &request(B, 1)).await.expired, []);
}

/// The sender may have left the claim to its lease since: it is free when that lease is over.
pub async fn an_extension_that_was_held_up_does_nothing(mut rig: impl Rig) {
    for store in [rig.store(A), rig.store_in_order(A)] {
        offer(&mut rig, [1]).await;
        let claim = ClaimRequest { most: 1, ..request(A, 1) };
        assert!(matches!(store.claim(&claim).await.expect("the server claims"), ClaimReply::Claimed(_)));
        let not_after_ms = rig.now_ms() + 1_000;
        rig.advance(ms(1_000)).await;
        let in_time = store.extend(LEASE, not_after_ms, &[claim.name]).await.expect("the server extends");
        assert!(matches!(in_time, Extended::Done { held, .. } if held == [true]));
        let before = rig.places().await;
        rig.advance(ms(1)).await;
        for names in [&[claim.name][..], &[name(A, 9)], &[]] {
            let late = store.extend(LEASE, not_after_ms, names).await.expect("the server answers");
            assert!(matches!(late, Extended::Late { now_ms } if now_ms == rig.now_ms()), "{late:?}");
        }
        assert_eq!(rig.places().await, before);
        let recovered = store.recover(claim.name, LEASE, rig.now_ms(), true).await.expect("the server reads");
        let [element] = &recovered.expect("in time").elements[..] else { panic!("one element") };
        let confirm = Mine { name: claim.name, place: 1, element: element.clone() }.verdict(SettleOp::Confirm);
        let settled = store.settle(&[confirm], None, None).await.expect("the server settles");
        assert_eq!(settled.answers, [Answer::Done]);
        let not_after_ms = rig.now_ms() - 1;
        store.bury(not_after_ms, &[claim.name]).await.expect("the server answers");
    }
}

pub async fn a_late_verdict_counts_while_no_process_took_over(mut rig: impl Rig) {
    let elements = offer(&mut rig, 0..6).await;
    let mine = take(&rig, A, 1).await;
    rig.advance(LEASE * 3).await;
    for (mine, n) in mine.iter().zip(0..) {
        assert_eq!(settle_one(&rig, mine, mine.all_steps()[n].clone()).await, Answer::Done);
    }
    let places = rig.places().await;
    let expected: [&[&str]; 6] = [&[], &["waiting"], &["waiting"], &["claimed"], &["dead"], &["pushed"]];
    for (element, expected) in elements.iter().zip(expected) {
        assert_eq!(places.of(element), expected);
    }
}

pub async fn what_a_claim_without_a_lease_holds_is_not_replaced(mut rig: impl Rig) {
    let elements = offer(&mut rig, [1]).await;
    take_one(&rig, A, 1).await;
    offer(&mut rig, [2]).await;
    claim(&rig, &ClaimRequest { lease: ms(0), ..request(A, 2) }).await;
    let (taken, _) = take_over(&rig, &takeover(name(A, 2), B, 1)).await;
    rig.forget_leases().await;
    // New elements for names that have been there: of a claim, and of a takeover.
    offer(&mut rig, [3]).await;
    claim(&rig, &ClaimRequest { lease: ms(0), ..request(A, 3) }).await;
    offer(&mut rig, [4]).await;
    let before = rig.places().await;
    let reply = rig.store(A).claim(&request(A, 1)).await.expect("the server answers");
    assert!(matches!(reply, ClaimReply::Twice { .. }), "{reply:?}");
    let again = TakeOverRequest { new: taken[0].name, ..takeover(name(A, 3), B, 1) };
    let reply = rig.store(B).take_over(&again).await.expect("the server answers");
    assert!(matches!(reply, TakeOverReply::Twice { .. }), "{reply:?}");
    assert_eq!(rig.places().await, before);
    assert_eq!(before.of(&elements[0]), ["claimed"]);
    assert_eq!(settle_one(&rig, &taken[0], taken[0].release()).await, Answer::Done, "its owner can settle it");
}

pub async fn elements_in_flight_are_counted_over_all_processes(mut rig: impl Rig) {
    let counted = async |rig: &_| Rig::store(rig, C).in_flight().await.expect("the server counts");
    let some = |elements| InFlight { elements, more: false };
    assert_eq!(counted(&rig).await, some(0));
    offer(&mut rig, 0..3).await;
    let mine = take(&rig, A, 1).await;
    offer(&mut rig, 10..12).await;
    take(&rig, B, 1).await;
    settle_one(&rig, &mine[0], mine[0].progress(1)).await;
    assert_eq!(counted(&rig).await, some(5));
    for mine in &mine[1..] {
        settle_one(&rig, mine, mine.release()).await;
    }
    assert_eq!(counted(&rig).await, some(3));
}
