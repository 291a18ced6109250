//! Queues in order: one process at a time delivers, and nothing is claimed before what was in flight.

use super::*;
use delaybridge_ledger::millis;

async fn claimed(store: &Arc<dyn Store>, request: &ClaimRequest) -> Claimed {
    match store.claim(request).await.expect("the server claims") {
        ClaimReply::Claimed(claimed) => claimed,
        reply => panic!("{reply:?} to {request:?}"),
    }
}

async fn standby(store: &Arc<dyn Store>, request: &ClaimRequest) -> i64 {
    match store.claim(request).await.expect("the server answers") {
        ClaimReply::Standby { until_ms, .. } => until_ms,
        reply => panic!("{reply:?} to {request:?}"),
    }
}

pub async fn one_process_delivers_in_order(mut rig: impl Rig) {
    let a = rig.store_in_order(A);
    let b = rig.store_in_order(B);
    offer(&mut rig, 1..5).await;
    let two = |owner, number| ClaimRequest { most: 2, ..request(owner, number) };
    assert_eq!(claimed(&a, &two(A, 1)).await.elements.len(), 2);

    // Until the end of the last lease of the other one, extensions included.
    assert_eq!(standby(&b, &two(B, 1)).await, rig.now_ms() + millis(LEASE));
    rig.advance(LEASE / 2).await;
    assert_eq!(extend(&a, LEASE, &[name(A, 1)]).await, [true]);
    rig.advance(LEASE * 3 / 4).await;
    assert_eq!(standby(&b, &two(B, 2)).await, rig.now_ms() + millis(LEASE / 4));

    // What was in flight comes first: nothing else is claimed until it is taken over.
    rig.advance(LEASE / 4).await;
    let first = claimed(&b, &two(B, 3)).await;
    assert_eq!((first.elements.len(), &first.expired[..]), (0, &[name(A, 1)][..]));
    assert_eq!(extend(&a, LEASE, &[name(A, 1)]).await, [false], "the former owner is fenced off");
    standby(&a, &two(A, 2)).await;
    let theirs = takeover(name(A, 1), A, 3);
    assert!(matches!(a.take_over(&theirs).await.expect("an answer"), TakeOverReply::Nothing { .. }));
    let TakeOverReply::Taken { elements, .. } = b.take_over(&takeover(name(A, 1), B, 4)).await.expect("an answer")
    else {
        panic!("nothing was taken over")
    };
    assert_eq!(elements.len(), 2);

    // What went back goes first, and nothing else before all of it.
    let back = |(at, element)| SettleCommand::release(name(A, 1).taken_over_by([B; 8], 4), 4, at, element);
    let back: Vec<_> = elements.iter().enumerate().map(back).collect();
    b.settle(&back, None, None).await.expect("the verdicts are written");
    for (number, rotation) in (5..).zip(0..2) {
        let one = ClaimRequest { most: 1, rotation, ..request(B, number) };
        let again = claimed(&b, &one).await.elements;
        assert_eq!(again[0].bytes(), elements[usize::try_from(rotation).expect("small")].bytes(), "in its order");
    }
    assert_eq!(claimed(&b, &request(B, 9)).await.elements.len(), 2);

    // Given back, it is free at once.
    let ends_ms = rig.now_ms() + millis(LEASE);
    assert!(!b.leave_order(ends_ms - 1).await.expect("an answer"), "it has claimed since");
    standby(&a, &two(A, 5)).await;
    assert!(b.leave_order(ends_ms).await.expect("an answer"));
    assert_eq!(extend(&b, LEASE, &[name(B, 9)]).await, [false], "an extension from before does not take it again");
    claimed(&a, &two(A, 6)).await;
    assert!(!b.leave_order(ends_ms).await.expect("an answer"), "it is another one's");
}

pub async fn names_that_cannot_be_read_stop_nothing_and_hide_nothing(mut rig: impl Rig) {
    let over_ms = rig.now_ms() - 1;
    // One that begins as ours do is none either.
    for text in ["1.other.1", "1.0101010101010101.07.0", "1.0101010101010101.7.65536", "2.0101010101010101.7.0"] {
        rig.add_lease(text, over_ms).await;
    }
    let a = rig.store_in_order(A);
    offer(&mut rig, [1, 2]).await;
    let one = |number| ClaimRequest { most: 1, lease: ms(1), ..request(A, number) };
    let first = claimed(&a, &one(1)).await;
    assert_eq!((first.elements.len(), first.unknown_names), (1, 4), "they stop nothing");

    // Behind eight of them: what was in flight comes first all the same.
    for n in 0..8 {
        rig.add_lease(&format!("7.other.{n}"), over_ms).await;
    }
    rig.advance(ms(2)).await;
    let next = claimed(&a, &one(2)).await;
    assert_eq!((next.elements.len(), next.expired), (0, vec![name(A, 1)]));
}

pub async fn what_has_gone_back_may_go_before_what_is_to_be_taken_over(mut rig: impl Rig) {
    let a = rig.store_in_order(A);
    let b = rig.store_in_order(B);
    let began_ms = rig.now_ms();
    for n in 1..=5 {
        let element = element(&rig, n);
        rig.offer(&element, began_ms - 10 + i64::try_from(n).expect("small")).await;
    }
    let due_ms = |n: i64| began_ms - 10 + n;
    let held = claimed(&a, &ClaimRequest { most: 4, ..request(A, 1) }).await.elements;
    let back: Vec<_> = [0, 1, 3].map(|at| SettleCommand::release(name(A, 1), 1, at, &held[at])).into_iter().collect();
    a.settle(&back, None, None).await.expect("the verdicts are written");
    rig.advance(LEASE).await;

    // The third is to be taken over. Without a time nothing is claimed, else what is due before it, and nothing of the source.
    let before = |number, back_before_ms| ClaimRequest { back_before_ms, ..request(B, number) };
    for (number, back_before_ms, most, expected) in [
        (1, None, 9, &[][..]),
        (2, Some(due_ms(1)), 9, &[]),
        (3, Some(due_ms(3)), 1, &[0]),
        (4, Some(due_ms(3)), 9, &[1]),
        (5, Some(due_ms(3)), 9, &[]),
        (6, Some(due_ms(9)), 9, &[3]),
        (7, Some(i64::MAX), 9, &[]),
    ] {
        let got = claimed(&b, &ClaimRequest { most, ..before(number, back_before_ms) }).await;
        let expected: Vec<_> = expected.iter().map(|at: &usize| held[*at].bytes()).collect();
        assert_eq!(got.elements.iter().map(Element::bytes).collect::<Vec<_>>(), expected, "claim {number}");
        assert_eq!(got.expired, [name(A, 1)], "claim {number}");
    }

    // A member of another program is moved on, and says that there may be more.
    rig.add_waiting(&Bytes::from_static(b"foreign"), due_ms(0)).await;
    let met = claimed(&b, &before(8, Some(due_ms(3)))).await;
    assert_eq!((met.elements.len(), met.unknown), (0, 1));
    let after = claimed(&b, &before(9, Some(due_ms(3)))).await;
    assert_eq!((after.elements.len(), after.unknown), (0, 0));

    // When nothing is to be taken over, the time means nothing.
    assert!(matches!(b.take_over(&takeover(name(A, 1), B, 10)).await.expect("an answer"), TakeOverReply::Taken { .. }));
    assert_eq!(claimed(&b, &before(11, Some(due_ms(3)))).await.elements.len(), 1, "of the source");
}
