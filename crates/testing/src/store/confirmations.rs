//! Whole claims: how they are confirmed, and how their names end.

use super::*;
use delaybridge_ledger::claims::{Buried, Confirmed, Whole};

async fn confirm(rig: &impl Rig, claims: &[Whole]) -> Vec<Confirmed> {
    rig.store(A).confirm(claims).await.expect("the server confirms")
}

/// The names that keep their leases; `None` while it is too early.
async fn bury(rig: &impl Rig, not_after_ms: i64, names: &[ClaimName]) -> Option<Vec<bool>> {
    let (now_ms, kept) = match rig.store(A).bury(not_after_ms, names).await.expect("the server answers") {
        Buried::Wait { now_ms } => (now_ms, None),
        Buried::Done { now_ms, kept } => (now_ms, Some(kept)),
    };
    assert_eq!(now_ms, rig.now_ms());
    kept
}

/// Three claims: bare elements alone, entries alone, and both.
async fn three_claims(rig: &mut impl Rig) -> [Whole; 3] {
    offer(rig, 0..3).await;
    take(rig, A, 1).await;
    for n in 0..2 {
        rig.make_ready(&format!("ready {n}").into()).await;
    }
    take(rig, A, 2).await;
    rig.make_ready(&Bytes::from_static(b"ready")).await;
    offer(rig, 10..14).await;
    take(rig, A, 3).await;
    let whole = |number, bare, entries| Whole { name: name(A, number), bare, entries };
    [whole(1, 3, 0), whole(2, 0, 2), whole(3, 4, 1)]
}

pub async fn a_confirmed_claim_is_gone_with_all_that_was_in_it(mut rig: impl Rig) {
    let whole = three_claims(&mut rig).await;
    assert_eq!(confirm(&rig, &whole[2..]).await, [Confirmed::Done]);
    assert_eq!(rig.places().await.claims.len(), 2);
    // Of several that need not be counted, the number is right.
    let done = |answers: Vec<Confirmed>| answers.into_iter().filter(|answer| *answer == Confirmed::Done).count();
    assert_eq!(done(confirm(&rig, &whole[1..]).await), 1);
    assert_eq!(done(confirm(&rig, &whole).await), 1);
    assert!(rig.places().await.claims.is_empty());
    assert_eq!(confirm(&rig, &whole).await, [Confirmed::Gone; 3], "sent again");
    let nothing = Whole { bare: 0, entries: 0, ..whole[0] };
    assert_eq!(confirm(&rig, &[nothing]).await, [Confirmed::Gone]);
    assert_eq!(confirm(&rig, &[]).await, []);
}

/// Elements that left a claim, and are under its name again because the server has an older state: the confirmation of other
/// elements does not remove them.
pub async fn an_element_that_came_back_survives_the_confirmation_of_others(mut rig: impl Rig) {
    for kind in 0..6 {
        let number = 10 * kind as u64;
        offer(&mut rig, [number, number + 1]).await;
        let mine = take(&rig, A, number + 1).await;
        let [left, other] = &mine[..] else { panic!("{mine:?}") };
        rig.save().await;
        let step = left.all_steps()[kind].clone();
        assert_eq!(settle_one(&rig, left, step.clone()).await, Answer::Done);
        rig.fall_back().await;
        assert_eq!(settle_one(&rig, other, SettleOp::Confirm).await, Answer::Done);
        let places = rig.places().await;
        assert_eq!(places.of(&left.element.bytes()), ["claimed"], "{step:?}");
        assert_eq!(places.held(left.name).bare.len(), 1, "{step:?}");
        assert!(places.lease(left.name).is_some(), "it is found when its lease is over: {step:?}");
        // The verdict that was forgotten may be written again, and removes it alone.
        assert_eq!(settle_one(&rig, left, SettleOp::Confirm).await, Answer::Done);
    }
}

pub async fn a_confirmed_claim_keeps_its_name_until_it_is_buried(mut rig: impl Rig) {
    let whole = three_claims(&mut rig).await;
    let names = whole.map(|whole| whole.name);
    confirm(&rig, &whole).await;
    assert_eq!(rig.places().await.leases.len(), 3);
    let not_after_ms = rig.now_ms() + 10;
    rig.advance(ms(10)).await;
    assert_eq!(bury(&rig, not_after_ms, &names).await, None, "one of them may still run");
    assert_eq!(rig.places().await.leases.len(), 3);
    rig.advance(ms(1)).await;
    for _ in 0..2 {
        assert_eq!(bury(&rig, not_after_ms, &names).await, Some(vec![false; 3]), "also when it is sent again");
        assert_eq!(rig.places().await.leases, []);
    }
}

pub async fn a_claim_that_holds_something_is_not_buried(mut rig: impl Rig) {
    let names = three_claims(&mut rig).await.map(|whole| whole.name);
    offer(&mut rig, [20]).await;
    let mine = take_one(&rig, A, 4).await;
    assert_eq!(settle_one(&rig, &mine, SettleOp::Confirm).await, Answer::Done);
    rig.advance(LEASE * 2).await;
    let held = rig.places().await.claims;
    let kept = bury(&rig, rig.now_ms() - 1, &[&names[..2], &[mine.name], &names[2..]].concat()).await;
    assert_eq!(kept, Some(vec![true, true, false, true]), "whether it holds bare elements, entries or both");
    let places = rig.places().await;
    assert_eq!(places.claims, held);
    assert!(names.iter().all(|name| places.lease(*name).is_some()) && places.lease(mine.name).is_none());
}
