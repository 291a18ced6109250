//! Claims with lost replies. Here the reply is there, and the process makes no use of it.

use super::*;

/// The steps of a process with a lost reply once the claim can run no more: it extends the lease, and reads what is there.
async fn find(rig: &impl Rig, name: ClaimName) -> Option<Vec<Element>> {
    let store = rig.store(name.owner[0]);
    let held = extend(&store, LEASE, &[name]).await;
    let contents = store.contents(name).await.expect("the server reads");
    assert_eq!(contents.unknown, 0);
    assert!(held[0] || contents.elements.is_empty(), "{contents:?}");
    held[0].then_some(contents.elements)
}

pub async fn a_claim_with_a_lost_reply_is_found_by_its_name(mut rig: impl Rig) {
    let lost = ClaimRequest { not_after_ms: rig.now_ms() + 1_000, ..request(A, 2) };
    offer(&mut rig, [1]).await;
    let waiting = take_one(&rig, A, 1).await;
    settle_one(&rig, &waiting, waiting.retry(ms(0))).await;
    offer(&mut rig, 2..5).await;
    rig.make_ready(&Bytes::from_static(b"ready")).await;
    let claimed = claim(&rig, &lost).await.elements;
    assert_eq!(claimed.len(), 5);
    // Others, of the same number and of the same owner, are not found with it.
    offer(&mut rig, [10]).await;
    take_one(&rig, A, 3).await;
    offer(&mut rig, [11]).await;
    take_one(&rig, B, 2).await;

    rig.advance(ms(1_001)).await;
    let found = find(&rig, lost.name).await.expect("it ran");
    let sorted = |mut elements: Vec<Element>| {
        elements.sort_by_key(|element| (element.part() == Part::Bare, element.score_ms, element.member.clone()));
        elements
    };
    assert_eq!(found, sorted(claimed), "entries first, each part in its order");
    assert_eq!(rig.places().await.lease(lost.name), Some(rig.now_ms() + 10_000));
    assert_eq!(find(&rig, lost.name).await, Some(found.clone()), "as often as it is asked for");
    let verdicts: Vec<_> =
        Mine::all(lost.name, found).into_iter().map(|mine| mine.verdict(SettleOp::Confirm)).collect();
    assert_eq!(settle(&rig, &verdicts).await, [Answer::Done; 5]);
    assert_eq!(find(&rig, lost.name).await, Some(vec![]), "the name outlives what it held");
}

pub async fn a_lost_claim_that_did_not_run_holds_nothing_and_runs_no_more(mut rig: impl Rig) {
    let lost = ClaimRequest { not_after_ms: rig.now_ms() + 10, ..request(A, 1) };
    rig.advance(ms(11)).await;
    offer(&mut rig, [1]).await;
    assert_eq!(find(&rig, lost.name).await, None);
    let reply = rig.store(A).claim(&lost).await.expect("the server answers");
    assert!(matches!(reply, ClaimReply::Late { .. }), "{reply:?}");
    assert_eq!(find(&rig, lost.name).await, None);
    assert_eq!(rig.places().await.leases, []);
}
